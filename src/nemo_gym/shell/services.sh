# shellcheck shell=bash
# Services beside the driver: ports, start, health, death, stop; and the telemetry collector, which is one too.

gym_service_pids=()     # by the service's number
gym_service_ports=()    # the same
gym_step_pids=()        # everything else that was started
gym_otel_pid=''

# gym_make_key: sets gym_key, a random key for the services of this run: in their environment and the driver's, and nowhere else.
gym_make_key() {
  local first second
  read -r first </proc/sys/kernel/random/uuid
  read -r second </proc/sys/kernel/random/uuid
  gym_key="${first//-/}${second//-/}"
}

# gym_service_log NAME: sets gym_log to where a service writes what it says.
gym_service_log() {
  gym_log="$GYM_JOB_DIR/logs/$1-$gym_job_id.log"
}

# Ports of all services and of the collector, chosen together so that they differ; fixed ones must be free.
gym_choose_ports() {
  local -a asked=()
  local index answer
  for index in "${!GYM_SERVICE_NAMES[@]}"; do
    asked+=("${GYM_SERVICE_NAMES[index]}=${GYM_SERVICE_PORTS[index]}")
  done
  if [[ -n $GYM_OTEL_BINARY ]]; then
    asked+=(otel_grpc=0 otel_http=0 otel_health=0)
  fi
  ((${#asked[@]})) || return 0
  if ! answer=$(gym_own_environment && gym_run_step :step "$GYM_PROGRAM" step port -- "${asked[@]}"); then
    gym_fail "no port for a service of this job; the reason is above"
    return 1
  fi
  mapfile -t gym_service_ports <<<"$answer"
  for index in "${!GYM_SERVICE_NAMES[@]}"; do
    export "NEMO_GYM_SERVICE_${index}_PORT=${gym_service_ports[index]}"
  done
}

gym_start_services() {
  local _index
  for _index in "${!GYM_SERVICE_NAMES[@]}"; do
    gym_launch "$_index"
    gym_event service_started service "${GYM_SERVICE_NAMES[_index]}" pid "${gym_service_pids[_index]}" \
      port "${gym_service_ports[_index]}"
  done
}

# gym_launch NUMBER: starts a service in a process group of its own.
gym_launch() {
  gym_service_log "${GYM_SERVICE_NAMES[$1]}"
  gym_require_space
  set -m
  (gym_become_service "$1") >"$gym_log" 2>&1 </dev/null &
  gym_service_pids[$1]=$!
  set +m
}

gym_become_service() {
  local _name=${GYM_SERVICE_NAMES[$1]} _port=${gym_service_ports[$1]} _mark='{port}' _text
  local -n _argv="GYM_SERVICE_$1_ARGV" _shell="GYM_SERVICE_$1_SHELL"
  local -n _pre="GYM_SERVICE_$1_PRE" _environment="GYM_SERVICE_$1_ENV"
  # `gym serve` is a program of ours too
  [[ ${_argv[0]-} != gym && ${_argv[0]-} != "$GYM_PROGRAM" ]] || gym_own_environment
  gym_child "$_name"
  export NEMO_GYM_SERVICE_API_KEY="$gym_key" VLLM_API_KEY="$gym_key" NEMO_GYM_SERVICE_PORT="$_port"
  gym_exported=(NEMO_GYM_SERVICE_API_KEY VLLM_API_KEY NEMO_GYM_SERVICE_PORT)
  gym_export "services.$_name" "${_environment[@]}" || exit 1
  if [[ -n $_shell ]]; then
    _text=${_pre:+$_pre$'\n'}${_shell//$_mark/$_port}
    gym_run_step "$_name" bash -c "$_text" "$_name"
  elif [[ -n $_pre ]]; then
    gym_run_step "$_name" bash -c "$_pre"$'\n''exec -- "$@"' "$_name" "${_argv[@]//$_mark/$_port}"
  else
    gym_run_step "$_name" "${_argv[@]//$_mark/$_port}"
  fi
}

# Waits until every service is healthy; the first one that dies or cannot become healthy ends the wait.
gym_await_services() {
  local index soon
  local -a waits=()
  gym_look_at_clock
  soon=$((gym_clock + 10))
  for index in "${!GYM_SERVICE_NAMES[@]}"; do
    gym_start_health "$index"
    waits[index]=$!
    gym_step_pids+=("$!")
  done
  while ((${#waits[@]})); do
    [[ -z $gym_asked ]] || break
    gym_find_dead
    if [[ -n $gym_dead ]]; then
      gym_tell_death "before it was ready"
      break
    fi
    for index in "${!waits[@]}"; do
      gym_alive "${waits[index]}" && continue
      gym_settle_health "$index" "${waits[index]}" || break 2
      unset "waits[$index]"
    done
    ((${#waits[@]})) || break
    # a service that is ready soon is noticed soon
    if gym_is_before "$soon"; then
      gym_tick_for 0.05
    else
      gym_tick
    fi
  done
  local left=${#waits[@]}
  for index in "${!waits[@]}"; do
    gym_end_step "${waits[index]}"
  done
  rm -f -- "$gym_link"/health-*
  ((left == 0))
}

gym_start_health() {
  local index=$1 name=${GYM_SERVICE_NAMES[$1]}
  gym_service_log "$name"
  set -m
  (
    gym_own_environment
    gym_child "health-$name"
    export NEMO_GYM_SERVICE_API_KEY="$gym_key"
    gym_run_step :step "$GYM_PROGRAM" step health --name "$name" --pid "${gym_service_pids[index]}" \
      --marker "NEMO_GYM_STEP=$gym_run/$name" --host "$gym_service_host" --port "${gym_service_ports[index]}" \
      --health-port "${GYM_SERVICE_HEALTH_PORTS[index]}" --path "${GYM_SERVICE_PATHS[index]}" \
      --model "${GYM_SERVICE_MODELS[index]}" --timeout "${GYM_SERVICE_TIMEOUTS[index]}" --log "$gym_log"
  ) </dev/null 2>"$gym_link/health-$name" &
  set +m
}

# gym_settle_health NUMBER PID: what an ended health check found.
gym_settle_health() {
  local name=${GYM_SERVICE_NAMES[$1]} status
  wait "$2"
  status=$?
  if ((status == 0)); then
    gym_event service_healthy service "$name"
    return 0
  fi
  gym_tick
  gym_find_dead
  if [[ -n $gym_dead ]]; then
    gym_tell_death "before it was ready"
  else
    gym_own_words "$gym_link/health-$name"
    gym_service_log "$name"
    [[ -n $gym_words ]] || gym_words="service '$name' did not become healthy; its log is $gym_log"
    gym_fail "$gym_words"
  fi
  return 1
}

# Sets gym_dead to the number of a service that has ended.
gym_find_dead() {
  local index
  for index in "${!gym_service_pids[@]}"; do
    if ! gym_alive "${gym_service_pids[index]}"; then
      gym_dead=$index
      return
    fi
  done
}

# gym_tell_death WHEN: names the dead service, its exit status and where its last lines are.
gym_tell_death() {
  local name=${GYM_SERVICE_NAMES[gym_dead]} status
  wait "${gym_service_pids[gym_dead]}" 2>/dev/null
  status=$?
  gym_outcome=service_died
  gym_put "$gym_link/service_died" "$name $status"
  gym_event service_died service "$name" status "$status"
  gym_service_log "$name"
  gym_own_words "$gym_log"
  ((status != 127)) || gym_words="its command was not found"
  gym_fail "service '$name' ended with exit status $status $1${gym_words:+: $gym_words}; its last lines are at the end of $gym_log"
}

# Ends all services, the last started first; a service that ends now was asked to.
gym_stop_services() {
  local index
  for index in "${!gym_service_pids[@]}"; do
    gym_signal_step TERM "${gym_service_pids[index]}"
  done
  for index in "${!gym_service_pids[@]}"; do
    gym_end_step "${gym_service_pids[index]}"
  done
  gym_service_pids=()
}

# gym_take_token: sets gym_token to the telemetry collector's. It comes with the environment of this script and goes to the
# collector alone.
gym_take_token() {
  gym_token=''
  if [[ -n $GYM_OTEL_BINARY ]]; then
    gym_token=${!GYM_OTEL_TOKEN_ENV-}
    unset "$GYM_OTEL_TOKEN_ENV"
  fi
}

# gym_start_collector: sets gym_otel_pid, and gym_otel_port to where the driver sends its telemetry.
gym_start_collector() {
  [[ -n $GYM_OTEL_BINARY ]] || return 0
  local first=${#GYM_SERVICE_NAMES[@]}
  gym_service_log otel_collector
  gym_otel_port=${gym_service_ports[first]}
  set -m
  (
    gym_child otel_collector
    export NEMO_GYM_OTEL_GRPC_PORT="${gym_service_ports[first]}" NEMO_GYM_OTEL_DIR="$GYM_JOB_DIR/otel"
    export NEMO_GYM_OTEL_HTTP_PORT="${gym_service_ports[first + 1]}" "$GYM_OTEL_TOKEN_ENV=$gym_token"
    export NEMO_GYM_OTEL_HEALTH_PORT="${gym_service_ports[first + 2]}"
    gym_run_step otel_collector "$GYM_OTEL_BINARY" --config "$GYM_SEALED/collector.yaml"
  ) >"$gym_log" 2>&1 </dev/null &
  set +m
  gym_otel_pid=$!
  gym_step_pids+=("$gym_otel_pid")
  gym_await_collector "$first" "$gym_log"
}

# Telemetry that cannot be had is reported and never ends an evaluation.
gym_await_collector() {
  local check
  set -m
  (
    gym_own_environment
    gym_child health-otel_collector
    gym_run_step :step "$GYM_PROGRAM" step health --name otel_collector --pid "$gym_otel_pid" --host "$gym_service_host" \
      --marker "NEMO_GYM_STEP=$gym_run/otel_collector" --port "${gym_service_ports[$1 + 2]}" --path / \
      --model '' --timeout "$GYM_OTEL_TIMEOUT" --log "$2"
  ) </dev/null &
  set +m
  check=$!
  gym_step_pids+=("$check")
  while gym_alive "$check" && [[ -z $gym_asked ]]; do
    gym_tick
  done
  if [[ -n $gym_asked ]]; then
    gym_end_step "$check"
  elif ! wait "$check"; then
    gym_say "telemetry collector is not healthy; the evaluation goes on without waiting for it"
  fi
  return 0
}

# After the driver: a pause in which what it and the services did last can be read, then the collector's end.
gym_last_scrape() {
  [[ -n $gym_otel_pid ]] || return 0
  local until
  gym_look_at_clock
  until=$((gym_clock + GYM_OTEL_PAUSE))
  while gym_alive "$gym_otel_pid" && [[ -z $gym_asked ]] && gym_is_before "$until"; do
    gym_tick
  done
}

gym_stop_collector() {
  [[ -n $gym_otel_pid ]] || return 0
  gym_service_log otel_collector
  gym_alive "$gym_otel_pid" || gym_say "telemetry collector ended early; see $gym_log"
  gym_end_step "$gym_otel_pid"
}
