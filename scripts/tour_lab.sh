# shellcheck shell=bash
# What the tours on the real Slurm share; `scripts/tour-*.sh` read it. Values: root (of the project), folder (where the
# tour's files are; made where it is missing).
: "${root:?}" "${folder:?}"

"$root/scripts/slurm/up.sh"
# shellcheck source=/dev/null
. "$("$root/scripts/slurm/up.sh" --env)"
export PATH="$root/.venv/bin:$PATH"
mkdir -p "$folder"
cd "$folder" || exit
# Nothing of this user's other work in lists, and nothing of this one in theirs.
export XDG_CACHE_HOME="$folder/cache" XDG_DATA_HOME="$folder/data" XDG_STATE_HOME="$folder/state"
export XDG_CONFIG_HOME="$folder/config" NEMO_LEASES_DIR="$folder/leases"

# Print a command, and what it says.
show() {
    printf '$ %s\n' "$*"
    "$@" 2>&1
    echo
}
