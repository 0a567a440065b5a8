# shellcheck shell=bash
# More of a file that arrives in parts; the bytes are descriptor 3. Values: part, offset (what is there of it).
: "${part:?}" "${offset:?}"
umask 077
mkdir -p -- "$(dirname -- "$part")" || exit
[ -e "$part" ] || : >"$part" || exit
truncate -s "$offset" -- "$part" || exit
cat >>"$part" <&3
