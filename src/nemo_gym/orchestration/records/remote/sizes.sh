# shellcheck shell=bash
# Size and name of each plain file in a folder, a line each; nothing where there is no such folder. Values: folder.
: "${folder:?}"
[ -d "$folder" ] || exit 0
find "$folder" -maxdepth 1 -type f -printf '%s %f\n'
