# shellcheck shell=bash
# All plain files below a folder, each as `size time inode path` and a zero byte.
# Values: folder, through (links to folders that are followed, relative to it). 44: there is no such folder.
: "${folder:?}"
declare -a through
cd -- "$folder" 2>/dev/null || exit 44
followed=()
for d in "${through[@]}"; do
  if [ -L "./$d" ] && [ -d "./$d" ]; then followed+=("./$d/"); fi
done
find . "${followed[@]}" -type f -printf '%s %T@ %i %p\0'
