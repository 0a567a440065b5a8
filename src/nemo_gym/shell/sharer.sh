# shellcheck shell=bash
# A benchmark whose job script runs beside others in the job of their model (shell/shared_job.sh), which has the services and
# queues the successor. Read last; it replaces functions of other files, and nothing where this script is a job of its own, as
# after `gym job resubmit`.

gym_shared=${NEMO_GYM_SHARED-}         # the folder of the run of that job
gym_shared_key=${NEMO_GYM_SHARED_KEY-} # of its services
gym_shared_pid=${NEMO_GYM_SHARED_PID-}
gym_shared_hosts=()                    # of its services, by their number
# How long the model's job may take to queue a successor, in seconds.
: "${NEMO_GYM_SHARED_SECONDS:=90}"
unset NEMO_GYM_SHARED NEMO_GYM_SHARED_KEY NEMO_GYM_SHARED_PID

if [[ -n $gym_shared ]]; then
  gym_make_key() {
    gym_key=$gym_shared_key
  }

  # Whether the model's job is there. Hears what is asked of it, and the tombstone of this benchmark: the others go on.
  gym_still_kept() {
    if [[ -d $gym_link ]]; then
      gym_hear
      gym_note_lost_replicas
      gym_note_share
    fi
    gym_alive "$gym_shared_pid"
  }

  # How many replicas the model's job has lost, for what is said of this benchmark.
  gym_note_lost_replicas() {
    [[ $gym_shared/replicas_lost -nt $gym_link/replicas_lost ]] || return 0
    gym_one "$gym_shared/replicas_lost"
    { gym_try_put "$gym_link/replicas_lost" "$gym_value"; } 2>/dev/null
  }

  # The share of the requests that this benchmark has since others have ended; the collector reads it.
  gym_note_share() {
    [[ -n $GYM_PARALLEL && $gym_shared/sharers -nt $gym_link/parallel ]] || return 0
    gym_one "$gym_shared/sharers"
    [[ $gym_value =~ ^[1-9][0-9]{0,3}$ ]] || return 0
    gym_set_share "$gym_value"
    { gym_try_put "$gym_link/parallel" "$gym_parallel"; } 2>/dev/null
  }

  # gym_set_share SHARERS: sets gym_parallel to what each of so many may have in flight.
  gym_set_share() {
    gym_parallel=$((GYM_PARALLEL > $1 ? GYM_PARALLEL / $1 : 1))
  }

  gym_hear() {
    [[ $gym_asked != stop ]] || return 0
    if [[ -e $GYM_JOB_DIR/.gym_cancelled ]]; then
      gym_try_put "$gym_link/drain" cancel
      gym_asked=stop
    elif [[ -e $gym_shared/stop ]]; then
      gym_take_word "$gym_shared/stop"
      gym_asked=stop
    elif [[ -z $gym_asked && -z $gym_dead && -e $gym_shared/drain && ! -e $gym_shared/service_died ]]; then
      gym_take_word "$gym_shared/drain"
      gym_asked=drain
    fi
  }

  # gym_take_word FILE: who asked the model's job is who asked this one.
  gym_take_word() {
    [[ ! -e $gym_link/drain ]] || return 0
    gym_all "$1"
    [[ -z $gym_value ]] || gym_try_put "$gym_link/drain" "$gym_value"
  }

  # ------------------------------------------------------------ the services

  gym_choose_ports() {
    return 0
  }

  gym_start_collector() {
    return 0
  }

  gym_start_services() {
    return 0
  }

  gym_stop_services() {
    return 0
  }

  gym_last_scrape() {
    return 0
  }

  gym_stop_collector() {
    return 0
  }

  # gym_service_log NAME: sets gym_log to where a service writes what it says.
  # shellcheck disable=SC2153  # GYM_SHARED is an assignment of the job script
  gym_service_log() {
    gym_log="${GYM_JOB_DIR%/*}/$GYM_SHARED/logs/$1-$gym_job_id.log"
  }

  # Waits until the services are ready, or will not be.
  gym_await_services() {
    gym_put "$gym_shared/waits-$GYM_BENCHMARK" "$gym_job_id"
    until [[ -n $gym_asked ]]; do
      if [[ -e $gym_shared/services ]]; then
        gym_read_services
        return 0
      elif [[ -e $gym_shared/services_failed ]]; then
        gym_find_dead
        gym_one "$gym_shared/services_failed"
        [[ -z $gym_dead ]] || gym_tell_death "before it was ready"
        gym_fail "$gym_value"
        return 1
      fi
      gym_tick
    done
    return 1
  }

  # The requests that may be in flight are those of the model: each benchmark of this job has its share.
  gym_read_services() {
    local key value port pid host index
    gym_service_ports=() gym_service_pids=() gym_shared_hosts=()
    while read -r key value port pid host; do
      case $key in
        service) gym_service_ports[value]=$port gym_service_pids[value]=$pid gym_shared_hosts[value]=$host ;;
        otel) gym_otel_port=$value gym_otel_pid=$gym_shared_pid ;;
        sharers) [[ -z $GYM_PARALLEL ]] || gym_set_share "$value" ;;
      esac
    done <"$gym_shared/services"
    for index in "${!gym_service_ports[@]}"; do
      export "NEMO_GYM_SERVICE_${index}_PORT=${gym_service_ports[index]}"
    done
  }

  # gym_host_of NUMBER: sets gym_host to where a process listens, as the driver sees it.
  gym_host_of() {
    gym_host=${gym_shared_hosts[$1]-$gym_service_host}
  }

  # Sets gym_dead to the number of a process that has ended and leaves its service without a server. A lost replica is the model's
  # job's to see to; the driver asks the others.
  gym_find_dead() {
    local name='' index
    { read -r name _ <"$gym_shared/service_died"; } 2>/dev/null
    for index in "${!GYM_SERVICE_NAMES[@]}"; do
      if [[ ${GYM_SERVICE_NAMES[index]} == "$name" ]]; then
        gym_dead=$index
      elif [[ -n ${gym_service_pids[index]-} ]] && ! gym_alive "${gym_service_pids[index]}"; then
        if gym_has_others "$index"; then
          unset "gym_service_pids[$index]"
        else
          gym_dead=$index
        fi
      fi
    done
  }

  # gym_tell_death WHEN: names the dead service, its exit status and where its last lines are.
  gym_tell_death() {
    local name=${GYM_SERVICE_NAMES[gym_dead]} status='' tries=0
    # the model's job knows the exit status, in a moment
    until [[ -e $gym_shared/service_died ]] || ((++tries > 50)) || ! gym_alive "$gym_shared_pid"; do
      sleep 0.1
    done
    { read -r _ status <"$gym_shared/service_died"; } 2>/dev/null
    gym_outcome=service_died
    gym_put "$gym_link/service_died" "$name ${status:-1}"
    gym_event service_died service "$name" status "${status:-1}"
    gym_service_log "$name"
    gym_fail "service '$name' ended with exit status ${status:-1} $1; its last lines are at the end of $gym_log"
  }

  # ------------------------------------------------------------ the chain

  # gym_queue_next: asks the model's job for a successor, which all of its benchmarks share.
  gym_queue_next() {
    local until
    gym_next='' gym_queue_error=''
    gym_look_at_clock
    until=$((gym_clock + NEMO_GYM_SHARED_SECONDS))
    gym_try_put "$gym_shared/wanted" yes
    while gym_is_before "$until" && gym_alive "$gym_shared_pid"; do
      gym_one "$gym_shared/queued"
      gym_next=$gym_value
      [[ -z $gym_next ]] || return 0
      gym_one "$gym_shared/queue_error"
      gym_queue_error=$gym_value
      [[ -z $gym_queue_error ]] || return 1
      sleep 0.1
    done
    gym_queue_error="the job of the model did not answer"
    return 1
  }

  gym_next_waits() {
    gym_one "$gym_shared/queued"
    [[ -n $gym_value ]] || return 2
    [[ $gym_value == "$1" ]]
  }

  # Whether the successor stays in the queue is seen when the last benchmark has ended.
  gym_chain_drop() {
    rm -f -- "$gym_link/queued"
    gym_event successor_dropped successor "${1%%;*}"
    gym_say "this benchmark does not need job ${1%%;*}"
  }

  gym_find_unheard() {
    return 1
  }

  # gym_ended_alone FOLDER: sets gym_state to how a run ended that nobody had asked to: its model's job went on without it.
  gym_ended_alone() {
    local outcome status who
    { read -r outcome status who <"$1/end"; } 2>/dev/null || return 1
    [[ $who == none && $status =~ ^[0-9]{1,3}$ && $outcome != decided ]] || return 1
    gym_state=FAILED gym_state_source=end
    ((10#$status != 0)) || gym_state=COMPLETED
  }
fi
