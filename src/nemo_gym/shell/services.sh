# shellcheck shell=bash
# Services beside the driver: ports, start, health, death, stop; and the telemetry collector, which is one too.

gym_service_pids=()     # by the number of the process; without those of replicas that were lost
gym_service_ports=()    # the same, with those of the collector after them
gym_rpc_ports=()        # for the first process of a server of several nodes: where the others meet it
gym_hosts=()            # names of the allocation's nodes, where services are on others than the first
gym_addresses=()        # at which they are reached; a name, where it is one that resolves
gym_at=''               # the node on which the next step runs; empty: this one
gym_replicas_lost=0
gym_step_pids=()        # everything else that was started
gym_otel_pid=''

# A service may be several processes: replicas, and the nodes of each. GYM_SERVICE_OF names the service of each process,
# GYM_SERVICE_PLACES its node, GYM_SERVICE_HEADS the number of the process that answers for its server. Where each is one
# process beside the driver, the script does not say it.
gym_assume_one_process() {
  local index
  GYM_SERVICE_OF=("${GYM_SERVICE_NAMES[@]}")
  GYM_SERVICE_PLACES=() GYM_SERVICE_HEADS=() GYM_SERVICE_REPLICAS=() GYM_SERVICE_FIRST_GPUS=() GYM_SERVICE_GPUS=()
  for index in "${!GYM_SERVICE_NAMES[@]}"; do
    GYM_SERVICE_PLACES+=(0)
    GYM_SERVICE_HEADS+=("$index")
    GYM_SERVICE_REPLICAS+=('')
    GYM_SERVICE_FIRST_GPUS+=('')
    GYM_SERVICE_GPUS+=(0)
  done
}
declare -p GYM_SERVICE_OF >/dev/null 2>&1 || gym_assume_one_process

# gym_host_of NUMBER: sets gym_host to where a process listens, as the driver sees it.
gym_host_of() {
  gym_host=$gym_service_host
  ((GYM_SERVICE_PLACES[$1] == 0)) || gym_host=${gym_addresses[GYM_SERVICE_PLACES[$1]]-}
}

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

# Ports of all services and of the collector; those of one node are chosen together so that they differ, and fixed ones must
# be free.
gym_choose_ports() {
  local index node
  local -A nodes=([0]=yes)
  for index in "${!GYM_SERVICE_NAMES[@]}"; do
    nodes[${GYM_SERVICE_PLACES[index]}]=yes
  done
  if ((${#nodes[@]} > 1)); then
    gym_find_hosts || return
  fi
  for node in "${!nodes[@]}"; do
    gym_choose_ports_on "$node" || return
  done
  for index in "${!GYM_SERVICE_NAMES[@]}"; do
    export "NEMO_GYM_SERVICE_${index}_PORT=${gym_service_ports[index]}"
  done
}

# gym_choose_ports_on NODE: its number in the allocation.
gym_choose_ports_on() {
  local -a asked=() takers=() found=()
  local index answer first=${#GYM_SERVICE_NAMES[@]}
  for index in "${!GYM_SERVICE_NAMES[@]}"; do
    ((GYM_SERVICE_PLACES[index] == $1)) || continue
    asked+=("${GYM_SERVICE_NAMES[index]}=${GYM_SERVICE_PORTS[index]}")
    takers+=("gym_service_ports[$index]")
    local -n argv="GYM_SERVICE_${index}_ARGV"
    if [[ "${argv[*]-}" == *'{rpc_port}'* ]] && ((GYM_SERVICE_HEADS[index] == index)); then
      asked+=(":rpc-$index=0")
      takers+=("gym_rpc_ports[$index]")
    fi
  done
  if [[ -n $GYM_OTEL_BINARY && $1 == 0 ]]; then
    asked+=(otel_grpc=0 otel_http=0 otel_health=0)
    takers+=("gym_service_ports[$first]" "gym_service_ports[$first + 1]" "gym_service_ports[$first + 2]")
  fi
  ((${#asked[@]})) || return 0
  if ! answer=$(gym_own_environment && gym_go_to "$1" && gym_run_step :step "$GYM_PROGRAM" step port -- "${asked[@]}"); then
    gym_fail "no port for a service of this job; the reason is above"
    return 1
  fi
  mapfile -t found <<<"$answer"
  for index in "${!takers[@]}"; do
    printf -v "${takers[index]}" %s "${found[index]}"
  done
}

# gym_go_to NODE: has the next step run there. Called in a subshell that becomes the step.
gym_go_to() {
  (($1 == 0)) || gym_at=${gym_hosts[$1]}
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
  local -a _share=()
  local -n _argv="GYM_SERVICE_$1_ARGV" _shell="GYM_SERVICE_$1_SHELL"
  local -n _pre="GYM_SERVICE_$1_PRE" _environment="GYM_SERVICE_$1_ENV"
  gym_go_to "${GYM_SERVICE_PLACES[$1]}"
  # `gym serve` is a program of ours too
  [[ ${_argv[0]-} != gym && ${_argv[0]-} != "$GYM_PROGRAM" ]] || gym_own_environment
  gym_child "$_name"
  export NEMO_GYM_SERVICE_API_KEY="$gym_key" VLLM_API_KEY="$gym_key" NEMO_GYM_SERVICE_PORT="$_port"
  gym_exported=(NEMO_GYM_SERVICE_API_KEY VLLM_API_KEY NEMO_GYM_SERVICE_PORT)
  gym_export "services.${GYM_SERVICE_OF[$1]}" "${_environment[@]}" || exit 1
  if [[ -n ${GYM_SERVICE_REPLICAS[$1]} ]]; then
    export NEMO_GYM_REPLICA="${GYM_SERVICE_REPLICAS[$1]}"
    # two vLLMs of one node that look for free ports from the same one on take them from each other
    export VLLM_PORT="${VLLM_PORT:-$((_port + 1))}"
    gym_exported+=(NEMO_GYM_REPLICA VLLM_PORT)
  fi
  if [[ -n ${GYM_SERVICE_FIRST_GPUS[$1]} ]]; then
    _share=(sh -c "$gym_share_gpus" sh "${GYM_SERVICE_FIRST_GPUS[$1]}" "${GYM_SERVICE_GPUS[$1]}")
  fi
  if [[ -n $_shell ]]; then
    _text=${_pre:+$_pre$'\n'}${_shell//$_mark/$_port}
    gym_run_step "$_name" bash -c "$_text" "$_name"
  fi
  gym_fill_in "$1" "${_argv[@]}" || exit 1
  if [[ -n $_pre ]]; then
    gym_run_step "$_name" "${_share[@]}" bash -c "$_pre"$'\n''exec -- "$@"' "$_name" "${gym_words_filled[@]}"
  else
    gym_run_step "$_name" "${_share[@]}" "${gym_words_filled[@]}"
  fi
}

# gym_fill_in NUMBER WORD…: sets gym_words_filled to the words with what is only known now: {port}, the port of this process,
# and {head} and {rpc_port}, where the processes of a server of several nodes meet.
gym_fill_in() {
  local index=$1 head=${GYM_SERVICE_HEADS[$1]} address=''
  shift
  if [[ "$*" == *'{head}'* ]]; then
    gym_find_address "${GYM_SERVICE_PLACES[head]}" || return
    address=$gym_address
  fi
  gym_words_filled=("${@//'{port}'/${gym_service_ports[index]}}")
  gym_words_filled=("${gym_words_filled[@]//'{head}'/$address}")
  gym_words_filled=("${gym_words_filled[@]//'{rpc_port}'/${gym_rpc_ports[head]-}}")
}

# gym_find_address NODE: sets gym_address to the address of a node of the allocation, in numbers: where some servers listen for
# their other nodes, no name will do.
gym_find_address() {
  local address=${gym_addresses[$1]} own=''
  gym_address=$address
  if [[ ! $address =~ ^[0-9.]+$ ]]; then
    gym_address=''
    read -r gym_address _ < <(getent ahostsv4 "$address")
    # what a node knows itself by is often loopback, at which no other node reaches it
    if [[ $gym_address == 127.* && $1 == 0 ]]; then
      read -r own _ < <(hostname -I 2>/dev/null)
      gym_address=${own:-$gym_address}
    fi
  fi
  [[ -n $gym_address ]] || gym_say "the address of node ${gym_hosts[$1]} ($address) is not known on this one"
  [[ -n $gym_address ]]
}

# Becomes a command that sees only some of the GPUs that the job has on its node: FIRST COUNT COMMAND…
# shellcheck disable=SC2016  # for a shell on that node, perhaps in a container
gym_share_gpus='
share="" at=0 last=$(($1 + $2)) ifs=$IFS
IFS=,
if [ -n "${CUDA_VISIBLE_DEVICES-}" ]; then
  for gpu in $CUDA_VISIBLE_DEVICES; do
    [ "$at" -lt "$1" ] || [ "$at" -ge "$last" ] || share=${share:+$share,}$gpu
    at=$((at + 1))
  done
else
  at=$1
  while [ "$at" -lt "$last" ]; do
    share=${share:+$share,}$at
    at=$((at + 1))
  done
fi
IFS=$ifs
export CUDA_VISIBLE_DEVICES="$share"
shift 2
exec "$@"'

# Waits until every service is healthy; the first one that dies or cannot become healthy ends the wait.
gym_await_services() {
  local index soon
  local -a waits=()
  gym_look_at_clock
  soon=$((gym_clock + 10))
  for index in "${!GYM_SERVICE_NAMES[@]}"; do
    [[ -n ${GYM_SERVICE_PATHS[index]} ]] || continue
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
    [[ -z $gym_fallen ]] || gym_lose_replica "$gym_fallen" "before it was ready"
    for index in "${!waits[@]}"; do
      if [[ -z ${gym_service_pids[index]-} ]]; then
        gym_end_step "${waits[index]}"
        unset "waits[$index]"
        continue
      fi
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
  gym_host_of "$index"
  set -m
  (
    gym_own_environment
    gym_child "health-$name"
    export NEMO_GYM_SERVICE_API_KEY="$gym_key"
    gym_run_step :step "$GYM_PROGRAM" step health --name "$name" --pid "${gym_service_pids[index]}" \
      --marker "NEMO_GYM_STEP=$gym_run/$name" --host "$gym_host" --port "${gym_service_ports[index]}" \
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
  elif [[ -z $gym_asked ]] && gym_has_others "$1"; then
    gym_lose_replica "$1" "before it was ready"
    return 0
  else
    gym_own_words "$gym_link/health-$name"
    gym_service_log "$name"
    [[ -n $gym_words ]] || gym_words="service '$name' did not become healthy; its log is $gym_log"
    gym_fail "$gym_words"
  fi
  return 1
}

# Sets gym_dead to the number of a process that has ended and leaves its service without a server; gym_fallen to one whose
# service has other replicas.
gym_find_dead() {
  local index
  gym_fallen=''
  for index in "${!gym_service_pids[@]}"; do
    gym_alive "${gym_service_pids[index]}" && continue
    if gym_has_others "$index"; then
      gym_fallen=$index
    else
      gym_dead=$index
      return
    fi
  done
}

# gym_has_others NUMBER: whether another replica of its service is whole; sets gym_others to how many.
gym_has_others() {
  local index head=${GYM_SERVICE_HEADS[$1]}
  local -A whole=()
  gym_others=0
  for index in "${!GYM_SERVICE_NAMES[@]}"; do
    [[ ${GYM_SERVICE_OF[index]} == "${GYM_SERVICE_OF[$1]}" ]] || continue
    : "${whole[${GYM_SERVICE_HEADS[index]}]:=yes}"
    if [[ -z ${gym_service_pids[index]-} ]] || ! gym_alive "${gym_service_pids[index]}"; then
      whole[${GYM_SERVICE_HEADS[index]}]=no
    fi
  done
  for index in "${!whole[@]}"; do
    [[ $index == "$head" || ${whole[$index]} == no ]] || ((++gym_others))
  done
  ((gym_others))
}

# gym_lose_replica NUMBER WHEN: ends what is left of the replica to which a process belonged, and says that the others go on.
gym_lose_replica() {
  local index head=${GYM_SERVICE_HEADS[$1]} name=${GYM_SERVICE_NAMES[$1]} pid=${gym_service_pids[$1]} what
  gym_has_others "$1"
  if gym_alive "$pid"; then
    gym_own_words "$gym_link/health-$name"
    what="was given up"
    [[ -n $gym_words ]] || gym_words="its health check ended without a word, as one does that is killed"
  else
    wait "$pid" 2>/dev/null
    what="ended with exit status $?"
    gym_service_log "$name"
    gym_own_words "$gym_log"
  fi
  gym_service_log "$name"
  ((++gym_replicas_lost))
  gym_try_put "$gym_link/replicas_lost" "$gym_replicas_lost"
  gym_event replica_lost service "${GYM_SERVICE_OF[$1]}" replica "$name" left "$gym_others"
  gym_say "replica '$name' $what $2${gym_words:+: $gym_words}; the other $gym_others of service '${GYM_SERVICE_OF[$1]}' go on; its last lines are at the end of $gym_log"
  for index in "${!gym_service_pids[@]}"; do
    ((GYM_SERVICE_HEADS[index] == head)) || continue
    gym_end_step "${gym_service_pids[index]}"
    unset "gym_service_pids[$index]"
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
