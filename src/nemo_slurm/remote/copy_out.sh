# shellcheck shell=bash
# The rest of some files, one after the other, each behind a line `<mark> file`.
# Values: folder, mark, and for each file its path relative to the folder, its offset and the bytes behind that: paths,
# offsets, counts.
: "${folder:?}" "${mark:?}"
declare -a paths offsets counts
cd -- "$folder" || exit
for n in "${!paths[@]}"; do
  printf '%s file\n' "$mark"
  tail -c "+$((offsets[n] + 1))" -- "./${paths[n]}" | head -c "${counts[n]}"
done
