# shellcheck shell=bash
# What the job script asks of whoever runs it, answered by the supervisor of the `local` executor. A scheduler's own
# file defines the same functions; the chain will add three more (state of the predecessor, queue next, drop next).

# Who this run of the job is, and where its values lie. The supervisor has claimed the folder already.
gym_identify() {
  : "${NEMO_GYM_SUPERVISOR:?this script is started by the supervisor of gym eval submit, not by hand}"
  gym_job_id=$NEMO_GYM_JOB_ID
  gym_restart=$NEMO_GYM_RESTART
  gym_run=$NEMO_GYM_RUN
  gym_link="$GYM_JOB_DIR/links/$gym_job_id.$gym_restart"
}

# gym_nodes: the hosts of the job, one a line, the driver's first.
gym_nodes() {
  printf '%s\n' 127.0.0.1
}

# gym_run_step NAME COMMAND…: becomes the step. Called in a subshell whose environment is complete.
gym_run_step() {
  shift
  exec -- "$@"
}

# Whether the supervisor that started this job is still there: the same pid with the same start time, no zombie.
gym_still_kept() {
  local -a fields=()
  { read -r -a fields -d '' <"/proc/${NEMO_GYM_SUPERVISOR%:*}/stat"; } 2>/dev/null
  # Counted from the end, since the second field, the program's name, may hold blanks: 52 fields, state and start time
  # are the third and the 22nd.
  ((${#fields[@]} >= 52)) && [[ ${fields[-50]} != [ZX] && ${fields[-31]} == "${NEMO_GYM_SUPERVISOR#*:}" ]]
}

# Nobody keeps this job any more: end everything of it that can be found, quickly, and then the script itself.
gym_abandon() {
  local round
  trap '' TERM USR1
  gym_say "the supervisor is gone; ending everything of this job"
  gym_put "$gym_link/end" $'abandoned 1 none\nits supervisor was killed'
  gym_event job_ended outcome abandoned status 1
  for round in TERM KILL KILL KILL; do
    gym_signal_all "$round" || break
    read -r -t 0.5 -u "$gym_tick_fd"
  done
  exit 1
}

# gym_signal_all SIGNAL: to every process group of the job and every process with its marker; fails when none is left.
gym_signal_all() {
  local pid found=1
  for pid in "${gym_service_pids[@]}" "${gym_step_pids[@]}"; do
    gym_signal_step "$1" "$pid" && found=0
  done
  while read -r pid; do
    pid=${pid#/proc/}
    pid=${pid%/environ}
    [[ $pid == "$$" ]] || { kill -s "$1" "$pid" 2>/dev/null && found=0; }
  done < <(grep -lszxF -e "NEMO_GYM_RUN=$gym_run" /proc/[0-9]*/environ)
  return "$found"
}
