# shellcheck shell=bash
# What the job script asks of its scheduler, answered by the supervisor of the `local` executor. A scheduler's own
# file defines the same functions. A successor is a folder links/<its id>.0/ that holds its predecessor's id: the same
# supervisor starts it when this job has not ended COMPLETED. Who first makes the file `taken` in it decides: the
# supervisor starts it, anybody else has taken it back.

gym_service_host=127.0.0.1 # where services are, as the driver sees them

# gym_identify: sets gym_job_id, gym_restart and gym_run, which say who this run of the job is, and gym_link, its folder. The supervisor has claimed the folder already.
gym_identify() {
  : "${NEMO_GYM_SUPERVISOR:?this script is started by the supervisor of gym eval submit, not by hand}"
  gym_job_id=$NEMO_GYM_JOB_ID
  gym_restart=$NEMO_GYM_RESTART
  gym_run=$NEMO_GYM_RUN
  gym_link="$GYM_JOB_DIR/links/$gym_job_id.$gym_restart"
}

# Nothing to set up: a job of this machine inherits the environment of the shell that submitted it.
gym_setup() {
  return 0
}

# gym_step_ran NAME: whether a step that ended with 0 has run at all.
gym_step_ran() {
  return 0
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
  gym_try_put "$gym_link/end" $'abandoned 1 none\nits supervisor was killed'
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

# gym_read_exit ID: the supervisor writes exit.json as the last thing of a job; sets gym_exit_state and gym_exit_seconds.
gym_read_exit() {
  local text='' time='([0-9]+)(\.([0-9]{1,3}))?'
  gym_exit_state='' gym_exit_seconds=''
  { IFS= read -r text <"$GYM_JOB_DIR/links/$1.0/exit.json"; } 2>/dev/null ||
    { IFS= read -r text <"${GYM_JOB_DIR%/*}/${GYM_SHARED-}/links/$1.0/exit.json"; } 2>/dev/null
  [[ $text =~ \"state\":\ \"([A-Z]+)\" ]] || return 1
  gym_exit_state=${BASH_REMATCH[1]}
  [[ $text =~ \"started_at\":\ $time ]] || return 1
  gym_milliseconds "${BASH_REMATCH[1]}" "${BASH_REMATCH[3]}"
  gym_exit_seconds=$gym_ms
  [[ $text =~ \"ended_at\":\ $time ]] || return 1
  gym_milliseconds "${BASH_REMATCH[1]}" "${BASH_REMATCH[3]}"
  gym_exit_seconds=$(((gym_ms - gym_exit_seconds + 500) / 1000))
}

# gym_milliseconds SECONDS DIGITS: sets gym_ms, from whole seconds and the digits behind the point.
gym_milliseconds() {
  local fraction="${2}000"
  gym_ms=$((10#$1 * 1000 + 10#${fraction:0:3}))
}

gym_state_of() {
  gym_read_exit "$1"
  gym_state=$gym_exit_state gym_state_source=supervisor
}

gym_elapsed_of() {
  gym_elapsed=''
  gym_read_exit "$1" && gym_elapsed="0 $gym_exit_seconds"
}

# Claims the next number of this user and makes the successor's folder, which appears with all of its first files, so that
# one without its supervisor is never seen; the file `next` names it to the supervisor.
gym_queue_next() {
  local folder unseen
  gym_claim_number || return 1
  folder="$GYM_JOB_DIR/links/local-$gym_number_claimed.0"
  unseen="$GYM_JOB_DIR/.link-local-$gym_number_claimed"
  mkdir -- "$unseen" && gym_put "$unseen/predecessor" "$gym_job_id" && gym_reserve_space "$unseen" &&
    gym_put "$unseen/supervisor.json" "$(<"$gym_link/supervisor.json")" &&
    { mv -T -- "$unseen" "$folder" 2>/dev/null || [[ ! -d $unseen ]] || mv -T -- "$unseen" "$folder"; } &&
    gym_put "$gym_link/next" "local-$gym_number_claimed" && gym_next=local-$gym_number_claimed && return
  gym_queue_error="$folder cannot be written"
  rm -rf -- "$unseen" "$folder" "$gym_link/next"
  return 1
}

# gym_claim_number: sets gym_number_claimed to the next number of a job of this user, or gym_queue_error.
gym_claim_number() {
  local folder number last=0
  for folder in "$NEMO_GYM_LOCAL_JOBS"/*/; do
    number=${folder%/}
    number=${number##*/}
    [[ $number =~ ^[0-9]{1,15}$ ]] && ((10#$number > last)) && last=$((10#$number))
  done
  until mkdir -- "$NEMO_GYM_LOCAL_JOBS/$((++last))" 2>/dev/null; do
    if [[ ! -d $NEMO_GYM_LOCAL_JOBS/$last ]]; then
      gym_queue_error="no number can be claimed in $NEMO_GYM_LOCAL_JOBS"
      return 1
    fi
  done
  gym_number_claimed=$last
  { gym_put "$NEMO_GYM_LOCAL_JOBS/$last/job.json" "$(<"$NEMO_GYM_LOCAL_JOBS/${gym_job_id#local-}/job.json")"; } 2>/dev/null
  return 0
}

gym_find_unheard() {
  return 1
}

gym_drop_next() {
  local folder="$GYM_JOB_DIR/links/$1.0" now=${EPOCHREALTIME-} text
  now=${now/,/.}
  [[ -n $now ]] || printf -v now '%(%s)T' -1
  gym_create "$folder/taken" dropped || return 0
  text="{\"state\": \"CANCELLED\", \"exit_status\": 0, \"signal\": 0, \"started_at\": $now, \"ended_at\": $now,"
  gym_put "$folder/exit.json" "$text \"reason\": \"taken out of the queue by the job before it\"}"
}

gym_next_waits() {
  [[ -d $GYM_JOB_DIR/links/$1.0 && ! -e $GYM_JOB_DIR/links/$1.0/taken && ! -e $GYM_JOB_DIR/links/$1.0/exit.json ]]
}
