# shellcheck shell=bash
# Adds a line to a file. Values: path, line.
: "${path:?}" "${line=}"
printf '%s\n' "$line" >>"$path"
