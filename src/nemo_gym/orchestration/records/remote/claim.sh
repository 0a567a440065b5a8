# shellcheck shell=bash
# Makes a folder that is not there yet. Values: folder, parent.
: "${folder:?}" "${parent:?}"
mkdir -p -- "$parent" && mkdir -- "$folder"
