# shellcheck shell=bash
# Who owns folders, and who may write to them: the number of this user, then a line for each folder that is there: its
# position, the number of its owner, its permissions. Values: folders.
declare -a folders
id -u
for n in "${!folders[@]}"; do
  ! said=$(stat -L -c '%u %a' -- "${folders[n]}" 2>/dev/null) || printf '%s %s\n' "$n" "$said"
done
