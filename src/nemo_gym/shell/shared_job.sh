# shellcheck shell=bash
# The job of a model that several benchmarks share: its services once, and beside them the job script of each benchmark,
# which knows shell/sharer.sh. Read last; it replaces functions of other files.
# What the two exchange is in the folder of this run:
#   waits-NAME       a benchmark has decided to go on, and waits for the services
#   services         they are ready: lines `service <number> <port> <pid> <host>`, `otel <port>`, `sharers <number>`
#   services_failed  they will not be: why
#   service_died     as in every job: name and exit status
#   drain, stop      what is asked of the job, and by whom: each benchmark obeys
#   wanted           a benchmark wants a successor; `queued` and `queue_error` are the answer, as in every job
# Every benchmark has its own folder with links, end records, retries and tombstone, as if it had its own job: a
# benchmark whose chain is over is not started again, and the successor stays in the queue as long as one of them needs it.

gym_sharer_pids=()      # by the benchmark's number
gym_sharer_statuses=()  # the same, once they have ended
gym_told=''             # what was asked of the benchmarks
gym_output_name=''      # of the file for what a job script writes itself

gym_main() {
  gym_identify
  gym_learn_full_disks "${1-}" "${2-}"
  gym_make_key
  gym_take_token
  gym_claim_link
  gym_put "$gym_link/predecessor" "${1-}"
  gym_newest_run "$gym_job_id" "$gym_restart"
  gym_earlier=$gym_found
  gym_note_chain
  gym_start_sharers "${1-}"
  gym_serve
  gym_stop_collector
  gym_stop_services
  gym_end
}

# gym_start_sharers PREDECESSOR: the job script of each benchmark that has something left to do.
gym_start_sharers() {
  local at folder
  gym_output_name=$gym_job_id.out
  [[ ! $gym_job_id =~ ^[0-9]+$ ]] || gym_output_name=slurm-$gym_job_id.out
  for at in "${!GYM_SHARERS[@]}"; do
    folder="${GYM_JOB_DIR%/*}/${GYM_SHARERS[at]}"
    ! gym_has_ended "$folder" "${GYM_SHARER_CHAINS[at]}" || continue
    set -m
    (gym_become_sharer "$folder" "$1") >>"$folder/$gym_output_name" 2>&1 </dev/null &
    gym_sharer_pids[at]=$!
    set +m
  done
}

gym_become_sharer() {
  [[ -z $gym_tick_fd ]] || exec {gym_tick_fd}>&-
  export NEMO_GYM_SHARED="$gym_link" NEMO_GYM_SHARED_KEY="$gym_key" NEMO_GYM_SHARED_PID="$$"
  exec bash "$1/job.sh" ${2:+"$2"}
}

# gym_has_ended FOLDER RESUMABLE: whether a benchmark has nothing to do here any more. A chain goes on after every run of it that
# left no end record, or a successor, or could not queue one; what is not resumable has one run. One that was queued again by
# itself is its own job's from then on, also while that waits or runs.
gym_has_ended() {
  local link newest='' at newest_at=-1
  for link in "$1"/resubmits/*/; do
    [[ ! -d $link || -e $link/queue_error ]] || return 0
  done
  for link in "$1"/links/*/; do
    link=${link%/}
    [[ -e $link/started ]] || continue
    gym_one "$link/started"
    at=${gym_value%%.*}
    [[ $at =~ ^[0-9]{1,15}$ ]] || at=0
    ((at < newest_at)) || { newest=$link newest_at=$at; }
  done
  if [[ -z $2 ]]; then
    [[ -n $newest || -e $1/.gym_cancelled ]]
    return
  fi
  [[ -n $newest && -e $newest/end && ! -e $newest/queued && ! -e $newest/queue_error ]] || return 1
  gym_read_full_disks "$newest"
  ((gym_number_of == 0 || gym_number_of >= gym_full_disks_allowed))
}

# As long as a benchmark is at work.
gym_serve() {
  local begun='' ready='' sharers=''
  while gym_is_shared; do
    # those that are left have its share of the requests, too
    if [[ -n $ready && -n $sharers && $sharers != "${#gym_sharer_pids[@]}" ]]; then
      { gym_try_put "$gym_link/sharers" "${#gym_sharer_pids[@]}"; } 2>/dev/null
    fi
    sharers=${#gym_sharer_pids[@]}
    if [[ -z $begun && -z $gym_asked ]] && gym_is_awaited; then
      begun=yes
      ! gym_begin_services || ready=yes
    fi
    if [[ -n $ready && -z $gym_asked && -z $gym_dead ]]; then
      gym_notice_death shared 0
    fi
    gym_tick
  done
}

# Whether a benchmark is at work; notes how the others ended.
gym_is_shared() {
  local at live=1
  for at in "${!gym_sharer_pids[@]}"; do
    if gym_alive "${gym_sharer_pids[at]}"; then
      live=0
    else
      wait "${gym_sharer_pids[at]}" 2>/dev/null
      gym_sharer_statuses[at]=$?
      unset "gym_sharer_pids[$at]"
    fi
  done
  return "$live"
}

gym_is_awaited() {
  local file
  for file in "$gym_link"/waits-*; do
    [[ ! -e $file ]] || return 0
  done
  return 1
}

# Starts the services, and says what has become of them; fails when they are not ready.
gym_begin_services() {
  local index text='' count=${#gym_sharer_pids[@]}
  if gym_make_services; then
    for index in "${!gym_service_pids[@]}"; do
      gym_host_of "$index"
      text+="service $index ${gym_service_ports[index]} ${gym_service_pids[index]} $gym_host"$'\n'
    done
    [[ -z $gym_otel_pid ]] || text+="otel $gym_otel_port"$'\n'
    gym_put "$gym_link/services" "${text}sharers $count"
  else
    [[ -n $gym_asked ]] || gym_put "$gym_link/services_failed" "${gym_reason:-a service of the model did not start}"
    return 1
  fi
}

gym_make_services() {
  gym_setup
  ((gym_setup_status == 0)) || return
  if [[ -n ${GYM_INSTALL_REPO-} ]]; then
    gym_install || return
  fi
  gym_choose_ports && gym_start_collector || return
  gym_start_services
  gym_await_services
}

# Called with every tick: passes on what is asked of the job, and sees to the successor when one is wanted.
gym_chain_tick() {
  local asker
  if [[ -n $gym_asked && $gym_told != "$gym_asked" ]]; then
    gym_told=$gym_asked
    gym_who
    asker=$gym_asker
    gym_event stop_asked asked "$asker"
    if [[ $gym_asked == stop ]]; then
      gym_try_put "$gym_link/stop" "$asker" || gym_signal_sharers TERM
    else
      [[ -e $gym_link/drain ]] || gym_try_put "$gym_link/drain" "$asker" || gym_signal_sharers USR1
    fi
  fi
  [[ -e $gym_link/wanted && -z $gym_awaiting_space ]] || return 0
  if [[ -z $gym_chain_due ]]; then
    gym_chain_later
    gym_chain_queue
  elif ! gym_is_before "$gym_chain_due"; then
    gym_chain_later
    gym_try_put "$gym_link/alive" "$gym_clock"
    gym_chain_see_to_successor
    gym_chain_later
  fi
}

gym_signal_sharers() {
  local pid
  for pid in "${gym_sharer_pids[@]}"; do
    kill -s "$1" "$pid" 2>/dev/null
  done
}

# Lines of the cluster's setup that left the script.
gym_setup_left() {
  gym_fail "the lines of compute.setup left the job with exit status $gym_setup_status; their output is above"
  gym_put "$gym_link/services_failed" "$gym_reason"
  while gym_is_shared; do
    gym_tick
  done
  gym_end
}

# The end of the job: the benchmarks have written their own. Its exit status is not 0 as long as one of them has something left
# to do, since the successor waits for that.
gym_end() {
  local at status who left=''
  gym_asked=${gym_asked:-${gym_full_disk:+stop}}
  while gym_is_shared; do
    gym_tick
  done
  gym_status=0
  for status in "${gym_sharer_statuses[@]}"; do
    ((status == 0)) || ((gym_status == 75)) || gym_status=$status
  done
  for at in "${!GYM_SHARERS[@]}"; do
    gym_has_ended "${GYM_JOB_DIR%/*}/${GYM_SHARERS[at]}" "${GYM_SHARER_CHAINS[at]}" || left=yes
  done
  [[ -z $left ]] || ((gym_status != 0)) || gym_status=75
  gym_settle_successor "$left"
  gym_who
  who=$gym_asker
  if [[ -n $gym_dead ]]; then
    gym_status=1
  elif [[ -n $gym_asked ]]; then
    gym_outcome=drained
    [[ $gym_asked != stop ]] || gym_outcome=stopped
  else
    gym_outcome=ended
  fi
  ((gym_status == 0)) || gym_reason=${gym_reason:-"not every benchmark has its results yet; see the folder of each"}
  gym_put_end "$gym_outcome $gym_status $who"$'\n'"$gym_reason"
  gym_event job_ended outcome "$gym_outcome" status "$gym_status" asked "$who"
  exit "$gym_status"
}

# gym_settle_successor LEFT: nothing stays in the queue unless something is left to do; then somebody must be there to do it.
gym_settle_successor() {
  [[ -e $gym_link/wanted ]] || return 0
  gym_chain_due=''
  if [[ -n $1 ]]; then
    [[ $gym_asked == stop && ! -e $gym_link/queue_error ]] || gym_chain_see_to_successor
    return 0
  fi
  gym_one "$gym_link/queued"
  [[ -z $gym_value ]] || gym_chain_drop "$gym_value"
  # one that was refused may have been accepted without saying so
  while gym_find_unheard && gym_chain_drop "$gym_next"; do :; done
}
