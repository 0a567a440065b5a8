# shellcheck shell=bash
# The run directories whose record may not be read, an empty line, and an archive of what tells of them all.
# Values: parent (all run directories in it; 44: there is no such folder) or, where that is empty, folders.
: "${parent=}"
declare -a folders
if [ -n "$parent" ]; then
  [ -d "$parent" ] || exit 44
  for d in "$parent"/*/; do
    d=${d%/}
    case ${d##*/} in gym-job-*) folders+=("$d") ;; *) [ ! -e "$d/gym-job.json" ] || folders+=("$d") ;; esac
  done
fi
for d in "${folders[@]}"; do
  [ ! -e "$d/gym-job.json" ] || [ -r "$d/gym-job.json" ] || printf '%s\n' "$d"
done
echo
for d in "${folders[@]}"; do
  [ -d "$d" ] || continue
  printf '%s\0' "$d"
  if [ -e "$d/gym-job.json" ]; then
    find "$d" -maxdepth 1 -type f \( -name gym-job.json -o -name .gym_fetched.json \) -print0
  else
    for name in resolved-config.yaml .gym_submission.json .gym_fetched.json; do
      [ ! -f "$d/$name" ] || printf '%s\0' "$d/$name"
    done
    find "$d" -mindepth 2 -maxdepth 2 -type f \( -name .gym_events.jsonl -o -name .gym_job_chain \) -print0
    find "$d" -mindepth 3 -maxdepth 3 -type d -path '*/links/*' -print0
  fi
done | tar --null --no-recursion --ignore-failed-read -P -T - -czf - 2>/dev/null
exit 0
