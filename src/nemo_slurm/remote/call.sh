# shellcheck shell=bash
# Commands of Slurm, one after the other, whatever becomes of the earlier ones. After what each prints on either stream
# comes `<mark> <its status>`. Values: slurm_mark, slurm_limit (seconds for each command), slurm_folder (empty: wherever
# this is), slurm_settings (NAME=value for every command but sbatch, whose job would inherit them), and the commands:
# slurm_words, and slurm_counts, the number of words of each. 46: a command is not there; 47: the folder cannot be entered.
# clean_environment.sh precedes this. A job inherits the environment of its sbatch: no other name is touched here.
: "${slurm_mark:?}" "${slurm_limit:?}" "${slurm_folder=}"
declare -a slurm_settings slurm_words slurm_counts
slurm_clean_environment
slurm_at=0
for slurm_n in "${slurm_counts[@]}"; do
  slurm_program=${slurm_words[slurm_at]} slurm_at=$((slurm_at + slurm_n))
  command -v "$slurm_program" >/dev/null && continue
  printf 'name=%s\npath=%s\n' "$slurm_program" "$PATH"
  printf 'login=%s\n' "$(timeout 10 bash -lc "command -v $slurm_program" 2>/dev/null | tail -n 1)"
  exit 46
done
if [ -n "$slurm_folder" ]; then cd -- "$slurm_folder" || exit 47; fi
slurm_at=0
for slurm_n in "${slurm_counts[@]}"; do
  if [ "${slurm_words[slurm_at]}" = sbatch ]; then
    timeout -k 5 "$slurm_limit" "${slurm_words[@]:slurm_at:slurm_n}"
  else
    env "${slurm_settings[@]}" timeout -k 5 "$slurm_limit" "${slurm_words[@]:slurm_at:slurm_n}"
  fi
  slurm_status=$?
  printf '\n%s %d\n' "$slurm_mark" "$slurm_status"
  printf '\n%s %d\n' "$slurm_mark" "$slurm_status" >&2
  slurm_at=$((slurm_at + slurm_n))
done
exit 0
