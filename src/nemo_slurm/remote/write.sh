# shellcheck shell=bash
# A small file, whole or not at all, in the place of one that is there; its content is descriptor 3.
# Values: path, folder (its parent), mode (octal).
: "${path:?}" "${folder:?}" "${mode:?}"
mkdir -p -- "$folder" || exit
t=$(mktemp -- "$folder/.incoming.XXXXXXXX") || exit # random letters take the place of the X's
cat >"$t" <&3 || exit
chmod "$mode" "$t" || exit
sync "$t" 2>/dev/null
mv -fT -- "$t" "$path"
