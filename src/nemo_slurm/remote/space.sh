# shellcheck shell=bash
# The nearest folder that is there, whether it may be written to, its free KiB, a line each; then the numbers, from 0,
# of those paths that are not there. Values: folder, paths.
: "${folder:?}"
declare -a paths
until [ -e "$folder" ]; do folder=$(dirname -- "$folder"); done
printf '%s\n' "$folder"
if [ -d "$folder" ] && [ -w "$folder" ]; then echo yes; else echo no; fi
free=$(df -Pk -- "$folder" | awk 'NR == 2 && $2 > 0 { print $4 }')
printf '%s\n' "$free"
for n in "${!paths[@]}"; do
  [ -e "${paths[n]}" ] || echo "$n"
done
exit 0
