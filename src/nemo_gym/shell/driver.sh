# shellcheck shell=bash
# The driver: `gym eval prepare` when asked, then `gym eval run` or the user's command, watched until it ends.

gym_prepare() {
  [[ -n $GYM_PREPARE ]] || return 0
  gym_event prepare_started
  gym_watch prepare gym_become_prepare
  if ((gym_status == 0)); then
    gym_status=1
    return 0
  fi
  gym_own_words "logs/prepare-$gym_job_id.log"
  [[ -n $gym_asked ]] ||
    gym_fail "prepare ended with exit status $gym_status${gym_words:+: $gym_words}; see logs/prepare-$gym_job_id.log"
  return 1
}

gym_become_prepare() {
  gym_own_environment
  gym_driver_environment prepare
  gym_run_step prepare "$GYM_PROGRAM" eval prepare "${GYM_PREPARE_ARGS[@]}"
}

gym_drive() {
  gym_event driver_started
  gym_look_at_clock
  gym_put "$gym_link/ready" "$gym_clock"
  if [[ -n $GYM_COMMAND ]]; then
    gym_put "$gym_link/command" yes
    gym_watch command gym_become_command
  else
    gym_watch run gym_become_run
  fi
  gym_event driver_ended status "$gym_status"
  [[ -n $gym_dead ]] || gym_outcome=ended
}

gym_become_run() {
  local -a _policy=()
  gym_own_environment
  gym_driver_environment driver
  if [[ -n $GYM_POLICY ]]; then
    _policy=("+policy_base_url=\"$NEMO_GYM_POLICY_BASE_URL\"" "${GYM_POLICY_ARGS[@]}")
    [[ -z $gym_replica_urls ]] || _policy+=("+policy_replica_urls=[$gym_replica_urls]")
  fi
  [[ -z ${gym_parallel-} ]] || _policy+=("++num_samples_in_parallel=$gym_parallel")
  # Queued again in place: what is recorded is the beginning, not in the way.
  [[ ! -e $GYM_JOB_DIR/resubmits ]] || _policy+=(++resume_from_cache=true)
  # Ignored until the program handles it: an early signal must not kill an interpreter that is still importing.
  trap '' USR1
  gym_run_step driver "$GYM_PROGRAM" eval run --config "$GYM_SEALED/run.yaml" "${_policy[@]}"
}

gym_become_command() {
  gym_driver_environment driver
  gym_run_step driver bash -c "set -euo pipefail"$'\n'"$GYM_COMMAND" driver
}

# Where the services are, for the driver: a line for each server that is whole, and the policy model's first one by itself.
# Sets gym_replica_urls to the others of it.
gym_service_environment() {
  local _at _url
  local -a _urls=()
  export NEMO_GYM_SERVICES='' NEMO_GYM_SERVICE_API_KEY="$gym_key"
  for _at in "${!GYM_SERVICE_NAMES[@]}"; do
    [[ -n ${GYM_SERVICE_PATHS[_at]} && (-n ${gym_service_pids[_at]-} || ${#gym_service_pids[@]} == 0) ]] || continue
    gym_host_of "$_at"
    [[ $gym_host != "$gym_service_host" ]] || gym_host=$GYM_POLICY_HOST
    _url="http://$gym_host:${gym_service_ports[_at]-}/v1"
    NEMO_GYM_SERVICES+="${GYM_SERVICE_OF[_at]} $_url ${GYM_SERVICE_MODELS[_at]}"$'\n'
    if [[ -n $GYM_POLICY && ${GYM_SERVICE_OF[_at]} == "${GYM_SERVICE_OF[GYM_POLICY]}" ]]; then
      _urls+=("$_url")
    fi
  done
  gym_replica_urls=''
  if [[ -n $GYM_POLICY ]]; then
    export NEMO_GYM_POLICY_BASE_URL="${_urls[0]}" NEMO_GYM_POLICY_API_KEY="$gym_key"
    export NEMO_GYM_POLICY_MODEL_NAME="${GYM_SERVICE_MODELS[GYM_POLICY]}"
    for _url in "${_urls[@]:1}"; do
      gym_replica_urls+=${gym_replica_urls:+,}\"$_url\"
    done
  fi
}

gym_driver_environment() {
  gym_child "$1"
  export NEMO_GYM_DRAIN_FILE="$gym_link/drain" NEMO_GYM_CHAIN="$GYM_JOB/$GYM_BENCHMARK"
  export NEMO_GYM_JOB_ID="$gym_job_id" NEMO_GYM_RESTART="$gym_restart" NEMO_GYM_BENCH_DIR="$GYM_JOB_DIR"
  export NEMO_GYM_LINK="$gym_link" NEMO_GYM_COLLECTED=lines
  gym_service_environment
  if [[ -n $gym_otel_pid ]]; then
    export NEMO_GYM_OTEL_ENABLED=1 NEMO_GYM_OTEL_RUN_ID="$GYM_JOB" OTEL_EXPORTER_OTLP_PROTOCOL=grpc
    export OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:$gym_otel_port"
  fi
  gym_export driver "${GYM_DRIVER_ENV[@]}" || exit 1
}

# gym_watch KIND FUNCTION: runs a step to its end. Passes on what is asked of the job; when a service dies, or a benchmark
# among others is cancelled, signals the step, gives it time to finish what it has in flight, then ends it. Sets gym_status.
gym_watch() {
  local _kind=$1 _passed_on='' _until='' _step=driver _log _pid
  [[ $_kind != prepare && $_kind != install ]] || _step=$_kind
  _log=logs/$_step-$gym_job_id.log
  gym_require_space
  set -m
  ("$2") >"$_log" 2>&1 </dev/null &
  _pid=$!
  set +m
  gym_step_pids+=("$_pid")
  while gym_alive "$_pid"; do
    if [[ -z $gym_asked && -z $gym_dead ]]; then
      gym_notice_death "$_kind" "$_pid"
      gym_look_at_clock
      [[ -z $gym_dead ]] || _until=$((gym_clock + NEMO_GYM_DRAIN_SECONDS))
    fi
    if [[ -n $gym_asked && $_passed_on != "$gym_asked" && -z $gym_dead ]]; then
      _passed_on=$gym_asked
      gym_pass_on "$_kind" "$_pid"
      # A scheduler ends what is deaf when it stops the job, but not one benchmark of a job that others share.
      if [[ $gym_asked == stop && -n ${gym_shared-} && ! -e $gym_shared/stop ]]; then
        gym_look_at_clock
        _until=$((gym_clock + NEMO_GYM_DRAIN_SECONDS))
      fi
    fi
    if [[ -n $_until ]] && { ! gym_is_before "$_until" || [[ -n $gym_dead && $gym_asked == stop ]]; }; then
      gym_end_step "$_pid"
    fi
    [[ -z ${GYM_NOTIFY-} || $_kind != run ]] || gym_notify_tick
    gym_tick
  done
  wait "$_pid" 2>/dev/null
  gym_status=$?
  if ((gym_status == 0)) && ! gym_step_ran "$_step"; then
    gym_status=1
    gym_fail "the container of the $_kind step could not be started; see $_log"
  fi
  if ((gym_status != 0)) && [[ -z $gym_asked && -z $gym_dead ]]; then
    # A driver may see the death of its service before this script does: the service is the cause.
    gym_find_dead
    [[ -z $gym_dead ]] || gym_tell_death "while the driver ran"
  fi
}

# gym_notice_death KIND PID: a service that ended while nobody asked for a stop ends the job; the driver is signalled first.
gym_notice_death() {
  gym_find_dead
  [[ -n $gym_dead$gym_fallen ]] || return 0
  # A scheduler that stops a job signals all its steps at once: the sign of it may be a moment behind.
  local moment
  for moment in 1 2 3 4 5; do
    gym_tick
    if [[ -n $gym_asked ]]; then
      gym_dead=''
      return 0
    fi
  done
  : "$moment"
  if [[ -z $gym_dead ]]; then
    gym_lose_replica "$gym_fallen" "while the driver ran"
    return 0
  fi
  gym_tell_death "while the driver ran"
  gym_try_put "$gym_link/drain" "service_died"
  [[ $1 != run ]] || kill -s USR1 "$2" 2>/dev/null
}

# gym_pass_on KIND PID: a drain is a nudge for the collector alone (a command reads the drain file), a stop is SIGTERM.
gym_pass_on() {
  # The file first: it is the truth, and a signal can be lost. USR1 comes ahead of a time limit; of SIGTERM, which a time
  # limit, a preemption and a cancellation send alike, only the scheduler knows the cause.
  gym_who
  if [[ ! -e $gym_link/drain ]]; then
    gym_try_put "$gym_link/drain" "$gym_asker"
  fi
  gym_event stop_asked asked "$gym_asker"
  if [[ $gym_asked == drain ]]; then
    [[ $1 != run ]] || kill -s USR1 "$2" 2>/dev/null
  elif [[ $1 == run ]]; then
    kill -s TERM "$2" 2>/dev/null
  else
    gym_signal_step TERM "$2"
  fi
}
