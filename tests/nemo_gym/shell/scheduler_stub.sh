# shellcheck shell=bash disable=SC2034
# A scheduler in files of the folder $CLUSTER: state-ID (one line a look, the last one stays), elapsed-ID, queue (what
# waits, one id a line), next (the number of the last job), refuse (its text: sbatch says no), blind (squeue says nothing),
# cancel-after-queueing (the user cancels the run in that moment), setup-fails.

gym_service_host=127.0.0.1
gym_identify() {
  gym_job_id=$STUB_ID gym_restart=${STUB_RESTART:-0}
  gym_run="$GYM_JOB/$GYM_BENCHMARK/$gym_job_id.$gym_restart"
  gym_link="$GYM_JOB_DIR/links/$gym_job_id.$gym_restart"
}

gym_setup() {
  [[ ! -e $CLUSTER/setup-fails ]] || { gym_setup_status=3; gym_fail "the lines of compute.setup ended with exit status 3"; }
}
gym_step_ran() { :; }
gym_still_kept() { :; }
gym_abandon() { :; }
gym_run_step() {
  shift
  exec -- "$@"
}

gym_state_of() {
  local lines
  gym_state='' gym_state_source=stub
  echo "$1" >>"$CLUSTER/looks"
  [[ -e $CLUSTER/state-$1 ]] || return 0
  mapfile -t lines <"$CLUSTER/state-$1"
  gym_state=${lines[0]}
  ((${#lines[@]} < 2)) || printf '%s\n' "${lines[@]:1}" >"$CLUSTER/state-$1"
}

gym_elapsed_of() {
  gym_elapsed=''
  [[ ! -e $CLUSTER/elapsed-$1 ]] || gym_elapsed=$(<"$CLUSTER/elapsed-$1")
}

gym_queue_next() {
  local number
  if [[ -e $CLUSTER/refuse ]]; then
    gym_queue_error=$(<"$CLUSTER/refuse")
    return 1
  fi
  gym_one "$CLUSTER/next"
  number=$((${gym_value:-100} + 1))
  echo "$number" >"$CLUSTER/next"
  echo "$number" >>"$CLUSTER/queue"
  gym_next="$number;main"
  printf '%s\n' "$gym_job_id" ${gym_handed:+"$gym_handed"} >"$CLUSTER/handed"
  [[ ! -e $CLUSTER/cancel-after-queueing ]] || : >"$GYM_JOB_DIR/.gym_cancelled"
}

gym_find_unheard() { return 1; }

gym_drop_next() {
  grep -vx -e "${1%%;*}" "$CLUSTER/queue" >"$CLUSTER/queue.new"
  mv -- "$CLUSTER/queue.new" "$CLUSTER/queue"
}

gym_next_waits() {
  [[ ! -e $CLUSTER/blind ]] || return 2
  grep -qx -e "${1%%;*}" "$CLUSTER/queue"
}
