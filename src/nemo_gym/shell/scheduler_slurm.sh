# shellcheck shell=bash
# What the job script asks of whoever runs it, answered by Slurm; how its steps run is in shell/slurm_steps.sh. Needs
# shell/clean_environment.sh.

# How long one of Slurm's commands may take, in seconds: a controller that is away answers after 10 to 20.
: "${NEMO_GYM_SLURM_SECONDS:=30}"
gym_inherited=()        # the environment that the scheduler gave to this job, NAME=VALUE

# Who this run of the job is, and where its values lie.
gym_identify() {
  : "${SLURM_JOB_ID:?this script is a job of Slurm, queued by gym eval submit, not started by hand}"
  gym_job_id=$SLURM_JOB_ID
  gym_restart=${SLURM_RESTART_COUNT:-0}
  gym_run="$GYM_JOB/$GYM_BENCHMARK/$gym_job_id.$gym_restart"
  gym_link="$GYM_JOB_DIR/links/$gym_job_id.$gym_restart"
  gym_remember_environment
  export NEMO_GYM_RUN="$gym_run"
}

# What a successor is to inherit: this job's environment before anything was set up, and nothing of a job around it.
gym_remember_environment() {
  local _name
  for _name in $(compgen -e); do
    case $_name in
      NEMO_GYM_STEP | NEMO_GYM_RUN | NEMO_GYM_CHAIN | NEMO_GYM_LINK | NEMO_GYM_BENCH_DIR | NEMO_GYM_DRAIN_FILE | \
        NEMO_GYM_JOB_ID | NEMO_GYM_RESTART | NEMO_GYM_SUPERVISOR | NEMO_GYM_SERVICE_* | NEMO_GYM_POLICY_*)
        unset -v "$_name"
        ;;
      *) gym_inherited+=("$_name=${!_name}") ;;
    esac
  done
}

# gym_nodes: where services are, one host a line. All of them are beside the driver, on the first node.
gym_nodes() {
  printf '%s\n' 127.0.0.1
}

# Slurm keeps its jobs itself. Its early signal is noted in the drain file, which is what a driver believes.
gym_still_kept() {
  if [[ $gym_asked == drain && ! -e $gym_link/drain && -d $gym_link ]]; then
    gym_put "$gym_link/drain" walltime
  fi
  return 0
}

gym_abandon() {
  return 0
}

# ---------------------------------------------------------------- the scheduler

# gym_slurm COMMAND…: one of Slurm's commands, asked from outside of any job, for raw values.
gym_slurm() (
  slurm_clean_environment
  LC_ALL=C SLURM_TIME_FORMAT=%s exec timeout -k 5 "$NEMO_GYM_SLURM_SECONDS" "$@" 2>/dev/null
)

# gym_state_of ID: sets gym_state to what the scheduler says of a job, the controller first, and gym_state_source.
gym_state_of() {
  local _answer _state _end
  gym_state=''
  gym_state_source=''
  if _answer=$(gym_slurm scontrol -o show job "${1%%;*}") && [[ " $_answer" =~ [[:space:]]JobState=([^[:space:]]+) ]]; then
    gym_state=${BASH_REMATCH[1]}
    gym_state_source=scontrol
    return 0
  fi
  while IFS='|' read -r _state _end; do
    if [[ $_state =~ ^[A-Z_]+(\+|\ by\ [0-9]+)?$ ]] && gym_is_this_job "$1" "$_end"; then
      gym_state=$_state
      gym_state_source=sacct
      return 0
    fi
  done < <(gym_slurm sacct -n -X -P -o State,End -j "${1%%;*}")
}

# gym_is_this_job ID END: whether a record that ends at END (seconds) can be of the job that ran here under the number
# ID: numbers are used again, and accounting keeps what the older job did.
gym_is_this_job() {
  local _file _started
  [[ $2 =~ ^[0-9]+$ ]] || return 0
  for _file in links/"${1%%;*}".*/started; do
    if { read -r _started <"$_file"; } 2>/dev/null && [[ $_started =~ ^[0-9]+$ ]]; then
      (($2 >= _started - 3600))
      return
    fi
  done
  # It ended before it could write anything: then it ran after every other job of its chain had begun.
  for _file in links/*/started; do
    [[ $_file != "links/$gym_job_id."* ]] || continue
    if { read -r _started <"$_file"; } 2>/dev/null && [[ $_started =~ ^[0-9]+$ ]] && (($2 < _started - 3600)); then
      return 1
    fi
  done
  return 0
}

# gym_elapsed_of ID: sets gym_elapsed to a line `<restart> <raw seconds>` for each run of a job that is known to have
# ended; nothing when nothing is known yet. Asks accounting, then the controller, which knows the last run alone.
gym_elapsed_of() {
  local _submit _state _seconds _end _run=-1 _before='' _known=-1
  gym_elapsed=''
  while IFS='|' read -r _submit _state _seconds _end; do
    # a run whose end is not recorded is one all the same; two records of one submission are one run
    [[ $_submit =~ ^[0-9]+$ ]] || continue
    if [[ $_end =~ ^[0-9]+$ ]] && ! gym_is_this_job "$1" "$_end"; then
      [[ $_submit != "$_before" ]] || _run=$((_run - 1))
      _before=''
      continue
    fi
    [[ $_submit == "$_before" ]] || _run=$((_run + 1))
    _before=$_submit
    if [[ $_seconds =~ ^[0-9]+$ && $_end =~ ^[0-9]+$ ]] && ((_known < _run)) && gym_is_ended "$_state"; then
      gym_elapsed+="$_run $_seconds"$'\n'
      _known=$_run
    fi
  done < <(gym_slurm sacct -n -X -D -P -o Submit,State,ElapsedRaw,End -j "${1%%;*}" | sort -t '|' -s -n -k 1,1)
  [[ -n $gym_elapsed ]] || gym_ask_run_time "${1%%;*}"
  gym_elapsed=${gym_elapsed%$'\n'}
}

gym_ask_run_time() {
  local _answer _days _hours _minutes _seconds
  _answer=" $(gym_slurm scontrol -o show job "$1")" || return 0
  [[ $_answer =~ [[:space:]]JobState=([^[:space:]]+) ]] && gym_is_ended "${BASH_REMATCH[1]}" || return 0
  [[ $_answer =~ [[:space:]]RunTime=(([0-9]+)-)?([0-9]+):([0-9]+):([0-9]+) ]] || return 0
  _days=$((10#${BASH_REMATCH[2]:-0})) _hours=$((10#${BASH_REMATCH[3]})) _minutes=$((10#${BASH_REMATCH[4]}))
  _seconds=$((10#${BASH_REMATCH[5]} + 60 * (_minutes + 60 * (_hours + 24 * _days))))
  [[ $_answer =~ [[:space:]]Restarts=([0-9]+) ]] || return 0
  gym_elapsed="${BASH_REMATCH[1]} $_seconds"
}

# gym_is_ended STATE: whether a run in that state is over; a requeued run is, though its job comes back.
gym_is_ended() {
  case $1 in
    '' | PENDING | RUNNING | COMPLETING | CONFIGURING | SUSPENDED | STOPPED | SIGNALING | RESIZING | STAGE_OUT) return 1 ;;
  esac
}

# gym_queue_next: queues the job that goes on when this one does not end well; sets gym_next to its id (`id` or
# `id;cluster`), or gym_queue_error. One that carries the same token is taken instead: the answer to an earlier call
# may have been lost, and a second run of this job has queued it already.
gym_queue_next() {
  local _token _answer _line
  local -a _words
  gym_next=''
  gym_queue_error=''
  _token="$GYM_JOB/$GYM_BENCHMARK/$(gym_next_number)"
  ! gym_find_next "$_token" || return 0
  _words=(sbatch --parsable "--dependency=afternotok:$gym_job_id" "--comment=$_token")
  [[ -z $GYM_KILL_ON_INVALID_DEP ]] || _words+=(--kill-on-invalid-dep=yes)
  _words+=(-- "$GYM_JOB_DIR/job.sh" "$gym_job_id")
  if [[ $GYM_QUEUE_FROM == login ]]; then
    _answer=$(gym_call_from_login "${_words[@]}" 2>&1 </dev/null)
  else
    _answer=$(gym_call_from_job "${_words[@]}" 2>&1 </dev/null)
  fi
  while read -r _line; do
    if [[ $_line =~ ^[1-9][0-9]*(\;[A-Za-z0-9_.-]+)?$ ]]; then
      gym_next=$_line
    fi
  done <<<"$_answer"
  [[ -z $gym_next ]] || return 0
  ! gym_find_next "$_token" || return 0
  gym_queue_error=${_answer//$'\n'/ }
  gym_queue_error=${gym_queue_error:-sbatch said nothing}
  return 1
}

# The place of the next job in the chain, counted from 1.
gym_next_number() {
  local _count
  _count=$(sort -u .gym_job_chain 2>/dev/null | grep -c .)
  printf '%s' "$((${_count:-0} + 1))"
}

# gym_find_next TOKEN: sets gym_next to the waiting job that carries a token.
gym_find_next() {
  local _id _comment
  while read -r _id _comment; do
    if [[ $_comment == "$1" && $_id != "$gym_job_id" ]]; then
      gym_next=$_id
      return 0
    fi
  done < <(gym_slurm squeue -h --me -t PENDING -o '%i %k')
  return 1
}

# The environment that this job was given, for the next one; the telemetry token too, which is in no file.
gym_call_from_job() {
  local _name _entry
  for _name in $(compgen -e); do
    unset -v "$_name" 2>/dev/null
  done
  for _entry in "${gym_inherited[@]}"; do
    export "${_entry%%=*}=${_entry#*=}"
  done
  slurm_clean_environment
  if [[ -n ${gym_token-} ]]; then
    export "$GYM_OTEL_TOKEN_ENV=$gym_token"
  fi
  exec timeout -k 5 60 "$@"
}

# Where compute nodes may not call sbatch: over ssh, on the host from which this job was queued. What the command needs
# goes in by standard input, where nobody else can read it.
gym_call_from_login() {
  local _script
  _script=$(
    declare -f slurm_clean_environment
    printf 'slurm_clean_environment\ncd -- %q || exit\n' "$GYM_JOB_DIR"
    if [[ -n ${SLURM_CONF-} ]]; then
      printf 'export SLURM_CONF=%q\n' "$SLURM_CONF"
    fi
    if [[ -n ${gym_token-} ]]; then
      printf 'export %s=%q\n' "$GYM_OTEL_TOKEN_ENV" "$gym_token"
    fi
    printf 'exec timeout -k 5 60'
    printf ' %q' "$@"
    printf ' </dev/null\n'
  )
  exec timeout -k 5 90 ssh -T -o BatchMode=yes -o ConnectTimeout=15 -- "${SLURM_SUBMIT_HOST:?}" "exec bash -s" \
    <<<"$_script"
}

# gym_find_unheard: sets gym_next to a successor that waits although its submission seemed to fail.
gym_find_unheard() {
  gym_next=''
  gym_find_next "$GYM_JOB/$GYM_BENCHMARK/$(gym_next_number)"
}

# gym_drop_next ID: removes a job from the queue; fails when nobody heard it.
gym_drop_next() {
  local -a _cluster=()
  [[ $1 != *\;* ]] || _cluster=("--clusters=${1#*;}")
  gym_slurm scancel "${_cluster[@]}" "${1%%;*}"
}

# gym_next_waits ID: 0 when it is in the queue, 1 when it is gone, 2 when nobody can tell.
gym_next_waits() {
  local _answer _status
  local -a _cluster=()
  [[ $1 != *\;* ]] || _cluster=("--clusters=${1#*;}")
  _answer=$(gym_ask_queue "${_cluster[@]}" -j "${1%%;*}")
  _status=$?
  case $_answer in
    *'Invalid job id specified'*) return 1 ;;
  esac
  ((_status == 0)) || return 2
  [[ $_answer =~ (^|$'\n')waits ]] || return 1
}

gym_ask_queue() (
  slurm_clean_environment
  LC_ALL=C exec timeout -k 5 "$NEMO_GYM_SLURM_SECONDS" squeue -h -t PENDING,CONFIGURING,RUNNING,COMPLETING \
    -o 'waits %T' "$@" 2>&1
)
