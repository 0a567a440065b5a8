# shellcheck shell=bash
# The run directories whose record may not be read, an empty line, and an archive of what describes them all.
# Values: parent (all run directories in it; 44: there is no such folder) or, where that is empty, folders. And names in a run
# directory: record, fetched, substitutes (files that replace a record), in a benchmark's folder: signs (files), links.
: "${parent=}" "${record:?}" "${fetched:?}" "${links:?}"
declare -a folders substitutes signs
wanted=()
for name in "${signs[@]}"; do wanted+=(-o -name "$name"); done
if [ -n "$parent" ]; then
  [ -d "$parent" ] || exit 44
  for d in "$parent"/*/; do
    d=${d%/}
    case ${d##*/} in gym-job-*) folders+=("$d") ;; *) [ ! -e "$d/$record" ] || folders+=("$d") ;; esac
  done
fi
for d in "${folders[@]}"; do
  [ ! -e "$d/$record" ] || [ -r "$d/$record" ] || printf '%s\n' "$d"
done
echo
for d in "${folders[@]}"; do
  [ -d "$d" ] || continue
  printf '%s\0' "$d"
  if [ -e "$d/$record" ]; then
    find "$d" -maxdepth 1 -type f \( -name "$record" -o -name "$fetched" \) -print0
  else
    for name in "${substitutes[@]}"; do
      [ ! -f "$d/$name" ] || printf '%s\0' "$d/$name"
    done
    find "$d" -mindepth 2 -maxdepth 2 -type f \( "${wanted[@]:1}" \) -print0
    find "$d" -mindepth 3 -maxdepth 3 -type d -path "*/$links/*" -print0
  fi
done | tar --null --no-recursion --ignore-failed-read -P -T - -czf - 2>/dev/null
exit 0
