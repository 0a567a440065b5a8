# shellcheck shell=bash
# The clock, the numbers of missing folders, digests of files, an empty line, and an archive of small files. Where nothing
# can be compared, what was submitted is left out too.
# Values: folders (of benchmarks), submissions (files with what was submitted), submission (the name of those), unread (in
# place of a digest), smallest (KiB; larger files are not brought), hashed (KiB; larger files are not summed up). And names in
# a folder: script (the job script), sealed (what else is summed up), kept (small files), artifacts, results (small files in
# those), logs (left out) and parents (folders of folders).
: "${submission:?}" "${script:?}" "${artifacts:?}" "${logs:?}" "${unread:?}" "${smallest:?}" "${hashed:?}"
declare -a folders submissions sealed kept results parents
at_once=500 # folders in one call: an argument list has an end
date +%s
for n in "${!folders[@]}"; do [ -d "${folders[n]}" ] || echo "$n"; done
# The digest of each job script, without the values of secrets, that was written to since what was submitted was written.
script_digests() {
  local n path digest
  for n in "${!folders[@]}"; do
    path=${folders[n]}/$script
    [ -f "$path" ] || continue
    digest=$unread
    # a time is asked for without a program
    [ "${folders[n]%/*}/$submission" -nt "$path" ] ||
      digest=$(LC_ALL=C sed '/^# Not sealed:/,/^# Sealed again\.$/d' <"$path" | sha256sum)
    printf '%s  @%s\n' "${digest%% *}" "$n"
  done
}
file_digests() {
  local at folder name paths
  for ((at = 0; at < ${#folders[@]}; at += at_once)); do
    paths=()
    for folder in "${folders[@]:at:at_once}"; do
      for name in "${sealed[@]}"; do paths+=("$folder/$name"); done
    done
    find "${paths[@]}" -type f -size "-$((hashed + 1))k" -exec sha256sum -- {} +
    find "${paths[@]}" -type f -size "+${hashed}k" ! -path $'*\n*' -printf "$unread  %p\n"
  done
}
small_files() {
  local at name wanted=()
  for name in "${parents[@]}"; do wanted+=(-o -path "*/$name/*/*"); done
  for name in "${kept[@]}"; do wanted+=(-o -name "$name"); done
  for name in "${results[@]}"; do wanted+=(-o -path "*/$artifacts/$name"); done
  for ((at = 0; at < ${#folders[@]}; at += at_once)); do
    find -L "${folders[@]:at:at_once}" -maxdepth 3 -name "$logs" -prune -o \
      -type f -size "-${smallest}k" \( "${wanted[@]:1}" \) -print0 2>/dev/null
  done
  for name in "${submissions[@]}"; do [ ! -f "$name" ] || printf '%s\0' "$name"; done
}
if command -v sha256sum >/dev/null; then
  {
    file_digests
    script_digests
  } 2>/dev/null
else
  submissions=()
fi
echo
small_files | tar --null --no-recursion --ignore-failed-read -P -T - -czf - 2>/dev/null
exit 0
