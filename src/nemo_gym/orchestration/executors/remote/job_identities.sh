# shellcheck shell=bash
# Owners and times of job scripts, their names, and when runs had begun: three parts with a byte 1 in between, of lines
# with a path and a zero byte in front. Values: scripts, starts (files that hold the time of a start).
declare -a scripts starts
listed() {
  (($# == 0)) || printf '%s\0' "$@"
}
listed "${scripts[@]}" | xargs -0 -r stat --printf '%n\0%u %Y\n' -- 2>/dev/null
printf '\1'
listed "${scripts[@]}" | xargs -0 -r grep -aHZ '^#SBATCH --job-name=' -- 2>/dev/null
printf '\1'
listed "${starts[@]}" | xargs -0 -r grep -aHZm1 '^[0-9]' -- 2>/dev/null
exit 0
