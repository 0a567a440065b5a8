# shellcheck shell=bash
# Removes a folder with the plain files in it. Values: folder.
: "${folder:?}"
rm -f -- "$folder"/* "$folder"/.[!.]* 2>/dev/null
rmdir -- "$folder"
