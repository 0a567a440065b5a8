# shellcheck shell=bash
# What the job script asks of whoever runs it, answered by Slurm; how its steps run is in shell/slurm_steps.sh. Needs
# shell/clean_environment.sh.

# How long one of Slurm's commands may take, in seconds: a controller that is away answers after 10 to 20.
: "${NEMO_GYM_SLURM_SECONDS:=30}"
# Seconds by which the clocks of submitter, files, nodes and controller may differ.
gym_clock_slack=600
gym_submission=''       # second before which nothing of this chain was submitted, once it is known
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
    gym_try_put "$gym_link/drain" walltime
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

# gym_state_of ID: sets gym_state to what the scheduler says of a job, the controller first, and gym_state_source. Of a
# cancelled job accounting alone knows who did it. What is said of another job with that number is not said of this one.
gym_state_of() {
  local _answer _fields _state
  gym_state=''
  gym_state_source=''
  if _answer=$(gym_slurm scontrol -o show job "${1%%;*}") && gym_read_show "$_answer" && gym_is_this_job "$1"; then
    gym_state=$gym_r_state
    gym_state_source=scontrol
    [[ $gym_state == CANCELLED ]] || return 0
  fi
  _fields=State,End,Submit,UID,JobName,Comment
  while gym_read_record; do
    _state=$gym_r_state
    if [[ $_state =~ ^[A-Z_]+(\+|\ by\ [0-9]+)?$ ]] && gym_is_this_job "$1"; then
      [[ -z $gym_state || $_state == CANCELLED* ]] || return 0
      gym_state=$_state
      gym_state_source=${gym_state_source:-sacct}
      return 0
    fi
  done < <(gym_accounting "$1" -o "$_fields")
}

# gym_accounting ID OPTION…: accounting's records of a job, fields with a character between them that is in none.
gym_accounting() {
  gym_slurm sacct -n -X -P --delimiter=$'\x1f' -j "${1%%;*}" "${@:2}"
}

# A record of a job with a certain number: its fields in gym_r_…, each empty where the record has none.
gym_read_record() {
  IFS=$'\x1f' read -r gym_r_state gym_r_end gym_r_submit gym_r_user gym_r_name gym_r_comment gym_r_seconds
}

gym_read_show() {
  local _answer=" $1"
  gym_r_state='' gym_r_end='' gym_r_submit='' gym_r_user='' gym_r_name='' gym_r_comment=''
  [[ $_answer =~ [[:space:]]JobState=([^[:space:]]+) ]] && gym_r_state=${BASH_REMATCH[1]} || return 1
  [[ $_answer =~ [[:space:]]EndTime=([0-9]+)[[:space:]] ]] && gym_r_end=${BASH_REMATCH[1]}
  [[ $_answer =~ [[:space:]]SubmitTime=([0-9]+)[[:space:]] ]] && gym_r_submit=${BASH_REMATCH[1]}
  [[ $_answer =~ [[:space:]]UserId=[^[:space:]]*\(([0-9]+)\) ]] && gym_r_user=${BASH_REMATCH[1]}
  [[ $_answer =~ [[:space:]]JobName=([^[:space:]]+) ]] && gym_r_name=${BASH_REMATCH[1]}
  [[ $_answer =~ [[:space:]]Comment=([^[:space:]]+) ]] && gym_r_comment=${BASH_REMATCH[1]}
  return 0
}

# gym_is_this_job ID: whether the record in gym_r_… can be of the job that ran here under the number ID: numbers are used
# again, and accounting keeps what the older job did. Any field that is there and disagrees disowns it, as in
# nemo_slurm/identity.py.
gym_is_this_job() {
  local _file _started
  [[ -z $gym_r_comment || $gym_r_comment == *"$GYM_JOB/$GYM_BENCHMARK/"* ]] || return 1
  [[ -z $gym_r_user || $gym_r_user == "$EUID" ]] || return 1
  # accounting calls a job `allocation` whose name it was not told
  [[ -z $gym_r_name || $gym_r_name == allocation || -z ${SLURM_JOB_NAME-} || $gym_r_name == "$SLURM_JOB_NAME" ]] || return 1
  gym_find_submission
  [[ ! $gym_r_submit =~ ^[1-9][0-9]*$ ]] || ((gym_r_submit >= gym_submission - gym_clock_slack)) || return 1
  [[ $gym_r_end =~ ^[1-9][0-9]*$ ]] || return 0
  for _file in links/"${1%%;*}".*/started; do
    if { read -r _started <"$_file"; } 2>/dev/null && [[ $_started =~ ^[0-9]+$ ]]; then
      ((gym_r_end >= _started - gym_clock_slack))
      return
    fi
  done
  # It ended before it could write anything: then it ran after every other job of its chain had begun.
  for _file in links/*/started; do
    [[ $_file != "links/$gym_job_id."* ]] || continue
    if { read -r _started <"$_file"; } 2>/dev/null && [[ $_started =~ ^[0-9]+$ ]] &&
      ((gym_r_end < _started - gym_clock_slack)); then
      return 1
    fi
  done
  return 0
}

# gym_find_submission: sets gym_submission to the second before which no job of this chain was submitted: the earlier one
# of when the submission was made, by the submitter's clock, and when its script was written, by the file server's.
gym_find_submission() {
  local _stamp='' _written
  [[ -z $gym_submission ]] || return 0
  if [[ $GYM_JOB =~ ^gym-job-([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})Z- ]]; then
    _stamp="${BASH_REMATCH[1]}-${BASH_REMATCH[2]}-${BASH_REMATCH[3]} "
    _stamp+="${BASH_REMATCH[4]}:${BASH_REMATCH[5]}:${BASH_REMATCH[6]}"
    _stamp=$(date -u -d "$_stamp" +%s 2>/dev/null)
  fi
  _written=$(stat -c %Y -- "$GYM_JOB_DIR/job.sh" 2>/dev/null)
  gym_submission=${_written:-0}
  [[ -z $_stamp ]] || ((_stamp >= gym_submission && gym_submission > 0)) || gym_submission=$_stamp
}

# gym_elapsed_of ID: sets gym_elapsed to a line `<restart> <raw seconds>` for each run of a job that is known to have
# ended; nothing when nothing is known yet. Asks accounting, then the controller, which knows the last run alone.
gym_elapsed_of() {
  local _run=-1 _before='' _known=-1 _fields=State,End,Submit,UID,JobName,Comment,ElapsedRaw
  gym_elapsed=''
  while gym_read_record; do
    # a run whose end is not recorded is one all the same; two records of one submission are one run
    [[ $gym_r_submit =~ ^[0-9]+$ ]] || continue
    if ! gym_is_this_job "$1"; then
      [[ $gym_r_submit != "$_before" ]] || _run=$((_run - 1))
      _before=''
      continue
    fi
    [[ $gym_r_submit == "$_before" ]] || _run=$((_run + 1))
    _before=$gym_r_submit
    if [[ $gym_r_seconds =~ ^[0-9]+$ && $gym_r_end =~ ^[0-9]+$ ]] && ((_known < _run)) && gym_is_ended "$gym_r_state"; then
      gym_elapsed+="$_run $gym_r_seconds"$'\n'
      _known=$_run
    fi
  done < <(gym_accounting "$1" -D -o "$_fields" | sort -t $'\x1f' -s -n -k 3,3)
  [[ -n $gym_elapsed ]] || gym_ask_run_time "$1"
  gym_elapsed=${gym_elapsed%$'\n'}
}

gym_ask_run_time() {
  local _answer _days _hours _minutes _seconds
  _answer=" $(gym_slurm scontrol -o show job "${1%%;*}")" || return 0
  gym_read_show "$_answer" && gym_is_ended "$gym_r_state" && gym_is_this_job "$1" || return 0
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
# may have been lost or can mean several things, and a second run of this job has queued it already.
gym_queue_next() {
  local _token _call=gym_call_from_job
  local -a _words
  gym_next=''
  gym_queue_error=''
  _token="$GYM_JOB/$GYM_BENCHMARK/$(gym_next_number)"
  ! gym_find_next "$_token" || return 0
  _words=(sbatch --parsable "--dependency=afternotok:$gym_job_id" "--comment=$_token")
  [[ -z $GYM_KILL_ON_INVALID_DEP ]] || _words+=(--kill-on-invalid-dep=yes)
  _words+=(-- "$GYM_JOB_DIR/job.sh" "$gym_job_id")
  [[ $GYM_QUEUE_FROM != login ]] || _call=gym_call_from_login
  gym_submit "$_call" "${_words[@]}"
  gym_read_reply "$gym_printed"
  [[ $gym_call_status == 0 && -n $gym_reply && -n $gym_reply_plain ]] && gym_next=$gym_reply && return 0
  ! gym_find_next "$_token" "$gym_reply" || return 0
  gym_queue_error="$gym_complaint $gym_printed"
  gym_queue_error=${gym_queue_error//$'\n'/ }
  gym_queue_error=${gym_queue_error#"${gym_queue_error%%[![:space:]]*}"}
  gym_queue_error=${gym_queue_error%"${gym_queue_error##*[![:space:]]}"}
  gym_queue_error=${gym_queue_error:-sbatch said nothing}
  return 1
}

# gym_submit CALL WORDS…: sets gym_printed and gym_complaint to what a command printed and complained, gym_call_status to
# its exit status. What a login shell prints before the command stands above the mark and is left out.
gym_submit() {
  local _mark="-- $RANDOM$RANDOM$RANDOM --"
  gym_printed=$(
    exec 3>&1 # what the command prints comes first, what it complains of behind the second mark
    gym_complaint=$("$1" "$_mark" "${@:2}" 2>&1 >&3 3>&- </dev/null)
    printf '\n%s%s\n%s\n.' "$_mark" "$?" "$gym_complaint"
  )
  gym_printed=${gym_printed#*"$_mark"$'\n'}
  gym_complaint=${gym_printed##*$'\n'"$_mark"}
  gym_printed=${gym_printed%$'\n'"$_mark"*}
  gym_call_status=${gym_complaint%%$'\n'*}
  gym_complaint=${gym_complaint#*$'\n'}
  gym_complaint=${gym_complaint%$'\n.'}
}

# gym_read_reply TEXT: sets gym_reply to the only id that a reply of sbatch can mean, '' where there is none or several, and
# gym_reply_plain when nothing else was printed. The rule is that of nemo_slurm.commands.read_reply.
gym_read_reply() {
  local LC_ALL=C _line _id _cluster _lines=0 _number='' _of=''
  local _alone='^([1-9][0-9]*)(;([A-Za-z0-9_.-]+))?$'
  local _sentence='^(sbatch: )?Submitted batch job ([1-9][0-9]*)( on cluster ([A-Za-z0-9_.-]+))?$'
  gym_reply='' gym_reply_plain=''
  while read -r _line; do
    _line=${_line%$'\r'}
    [[ -n $_line ]] || continue
    ((++_lines))
    if [[ $_line =~ $_alone ]]; then
      _id=${BASH_REMATCH[1]} _cluster=${BASH_REMATCH[3]}
    elif [[ $_line =~ $_sentence ]]; then
      _id=${BASH_REMATCH[2]} _cluster=${BASH_REMATCH[4]}
    else
      continue
    fi
    [[ -z $_number || $_number == "$_id" ]] || return 0
    _number=$_id _of=${_of:-$_cluster}
  done <<<"$1"
  gym_reply=$_number${_of:+;$_of}
  [[ -z $gym_reply || $_lines != 1 ]] || gym_reply_plain=yes
}

# The place of the next job in the chain, counted from 1.
gym_next_number() {
  local _count
  _count=$(sort -u .gym_job_chain 2>/dev/null | grep -c .)
  printf '%s' "$((${_count:-0} + 1))"
}

# gym_find_next TOKEN [REPLY]: sets gym_next to the waiting job that carries a token; where the site keeps no comments, to
# the job of REPLY, if it is ours by everything else.
gym_find_next() {
  local _id _comment
  while read -r _id _comment; do
    if [[ $_comment == "$1" && $_id != "$gym_job_id" ]]; then
      gym_next=$_id
      [[ ${2-} != "$_id;"* ]] || gym_next=$2
      return 0
    fi
  done < <(gym_slurm squeue -h --me -t PENDING -o '%i %k')
  [[ -n ${2-} ]] || return 1
  gym_is_own "$2" "$1" && [[ $gym_own_state == PENDING ]] && gym_next=$2
}

# gym_is_own ID [TOKEN]: whether a number is a job of this chain: its comment carries the chain's token (or TOKEN); where
# there is no comment, this user owns it, it has our name and is younger than the chain. 0: it is, and gym_own_state is its
# state; 1: no such job, or somebody else's; 2: nobody can tell now. Nothing is done to a job that is not.
gym_is_own() {
  local _answer _status _line _id _state _user _at _name _comment _token=${2:-$GYM_JOB/$GYM_BENCHMARK/}
  local -a _cluster=()
  gym_own_state=''
  [[ ${1%%;*} != "$gym_job_id" ]] || return 1
  [[ $1 != *\;* ]] || _cluster=("--clusters=${1#*;}")
  _answer=$(gym_ask_queue "${_cluster[@]}" -j "${1%%;*}")
  _status=$?
  case $_answer in
    *'Invalid job id specified'*) return 1 ;;
  esac
  ((_status == 0)) || return 2
  while IFS='|' read -r _line _id _state _user _at _name _comment; do
    [[ $_line == job && $_id == "${1%%;*}" ]] || continue
    [[ $_comment != '(null)' ]] || _comment=''
    ! gym_is_ended "$_state" || return 1
    if [[ -n $_comment ]]; then
      [[ $_comment == "$_token" || ($_token == */ && $_comment == "$_token"*) ]] || return 1
    else
      [[ $_user == "$(id -un)" && $_name == "gym-$GYM_BENCHMARK" ]] && gym_is_young "$_at" || return 1
    fi
    gym_own_state=$_state
    return 0
  done <<<"$_answer"
  return 1
}

# gym_is_young SECONDS: whether a job that was submitted then is no older than the first job of this chain that is known.
gym_is_young() {
  local _file _started
  [[ $1 =~ ^[0-9]+$ ]] || return 1
  for _file in "$GYM_JOB_DIR"/links/*/started; do
    if { read -r _started <"$_file"; } 2>/dev/null && [[ $_started =~ ^[0-9]+$ ]] && (($1 >= _started - 3600)); then
      return 0
    fi
  done
  return 1
}

# gym_call_from_job MARK COMMAND…: in the environment that this job was given, for the next one; the telemetry token too,
# which is in no file. MARK is printed before the command begins.
gym_call_from_job() {
  local _name _entry
  printf '%s\n' "$1"
  shift
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

# gym_call_from_login MARK COMMAND…: where compute nodes may not call sbatch, over ssh, on the host from which this job was
# queued. What the command needs goes in by standard input, where nobody else can read it.
gym_call_from_login() {
  local _script _mark=$1
  shift
  _script=$(
    declare -f slurm_clean_environment
    printf 'slurm_clean_environment\ncd -- %q || exit\n' "$GYM_JOB_DIR"
    if [[ -n ${SLURM_CONF-} ]]; then
      printf 'export SLURM_CONF=%q\n' "$SLURM_CONF"
    fi
    if [[ -n ${gym_token-} ]]; then
      printf 'export %s=%q\n' "$GYM_OTEL_TOKEN_ENV" "$gym_token"
    fi
    printf 'printf "%%s\\n" %q\n' "$_mark"
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

# gym_drop_next ID: removes a job of this chain from the queue; fails when nobody heard it, and when the number is not ours.
gym_drop_next() {
  local -a _cluster=()
  gym_is_own "$1" || return 1
  [[ $1 != *\;* ]] || _cluster=("--clusters=${1#*;}")
  gym_slurm scancel "${_cluster[@]}" "${1%%;*}"
}

# gym_next_waits ID: 0 when it is in the queue, 1 when it is gone or another's, 2 when nobody can tell.
gym_next_waits() {
  gym_is_own "$1"
}

gym_ask_queue() (
  slurm_clean_environment
  LC_ALL=C SLURM_TIME_FORMAT=%s exec timeout -k 5 "$NEMO_GYM_SLURM_SECONDS" squeue -h -a \
    -t all -o 'job|%i|%T|%u|%V|%j|%k' "$@" 2>&1
)
