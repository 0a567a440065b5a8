# shellcheck shell=bash
# Completion in bash: the program is asked, with the whole line; the line that registers it follows this text.
_baton_complete() {
    local IFS=$'\n' program=${1##*/} response type value
    response=$(env COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" "_${program^^}_COMPLETE=bash_complete" "$1")
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done <<<"$response"
    return 0
}
