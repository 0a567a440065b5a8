# shellcheck shell=bash
# One line for each journal whose folder is there. Values: folders, journals, lines.
declare -a folders journals lines
for n in "${!folders[@]}"; do
  [ ! -d "${folders[n]}" ] || printf '%s\n' "${lines[n]}" >>"${journals[n]}"
done
exit 0
