# shellcheck shell=bash
# Notices of the end of a benchmark, and of one that makes no progress, where the submission names a recipient.

# Seconds between two looks whether there is a new result.
: "${NEMO_GYM_NOTIFY_SECONDS:=15}"
gym_notify_due=0        # second of gym_clock at which progress is looked at next
gym_notify_done=''      # results at the last look
gym_notify_since=0      # second of gym_clock since which there are as many
gym_notify_told=''      # results at which a notice was sent

# gym_notify EVENT: `end` or `no_progress`. What goes wrong is said, and changes nothing about the job.
gym_notify() {
  (
    gym_own_environment
    gym_child notify
    gym_export notify "${GYM_NOTIFY_ENV[@]}" || exit 0
    gym_run_step :step "$GYM_PROGRAM" step notify "$1" --recipients "$GYM_SEALED/notify.json" --link "$gym_link" \
      --seconds "${GYM_NOTIFY_AFTER:-0}"
  ) </dev/null || gym_say "warning: sending the notice ($1) of this benchmark failed"
}

# Called in every tick while the driver runs.
gym_notify_tick() {
  local text='' form='"done":([0-9]+)'
  [[ -n $GYM_NOTIFY_AFTER ]] && ! gym_is_before "$gym_notify_due" || return 0
  gym_notify_due=$((gym_clock + NEMO_GYM_NOTIFY_SECONDS))
  { read -r text <artifacts/progress.json; } 2>/dev/null
  [[ $text =~ $form ]] || return 0
  if [[ ${BASH_REMATCH[1]} != "$gym_notify_done" ]]; then
    gym_notify_done=${BASH_REMATCH[1]} gym_notify_since=$gym_clock
  elif ((gym_clock - gym_notify_since >= GYM_NOTIFY_AFTER)) && [[ $gym_notify_told != "$gym_notify_done" ]]; then
    gym_notify_told=$gym_notify_done
    gym_notify no_progress &
    gym_step_pids+=("$!")
  fi
}
