# shellcheck shell=bash
# A file or folder under a name that is not there yet; a tar archive with it as $content is descriptor 3.
# Values: path, folder (its parent), content. 45: the name is taken.
: "${path:?}" "${folder:?}" "${content:?}"
if [ -e "$path" ] || [ -L "$path" ]; then exit 45; fi
mkdir -p -- "$folder" || exit
t=$(mktemp -d -- "$folder/.incoming.XXXXXXXX") || exit # random letters take the place of the X's
trap 'rm -rf -- "$t"' EXIT
# -m: times are the host's, as those of its scheduler are, whatever the clock of the sender says
tar -x -p -m --no-same-owner -f - -C "$t" <&3 || exit
mv -nT -- "$t/$content" "$path" || exit
if [ -e "$t/$content" ]; then exit 45; fi
