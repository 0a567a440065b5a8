# shellcheck shell=bash
# Bytes of a file, from an offset on. Values: path, offset, limit (empty: to the end). 44: there is no such file.
: "${path:?}" "${offset:?}" "${limit=}"
[ -e "$path" ] || exit 44
if [ -n "$limit" ]; then
  tail -c "+$((offset + 1))" -- "$path" | head -c "$limit"
else
  tail -c "+$((offset + 1))" -- "$path"
fi
