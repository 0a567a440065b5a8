# shellcheck shell=bash
# How a job of Slurm queues its successor, knows it again and takes it back. A number proves nothing: a reply can be misread
# and numbers are used again, so nothing is done to a job that does not carry the token of this chain. Needs
# shell/scheduler_slurm.sh.

# gym_queue_next: queues the job that goes on when this one does not end well; sets gym_next to its id (`id` or
# `id;cluster`), or gym_queue_error. One that carries the same token is taken instead: the answer to an earlier call
# may have been lost or can mean several things, and a second run of this job has queued it already. Sets gym_next_script_text to
# the script where it goes in by standard input.
gym_queue_next() {
  local _token _call=gym_call_from_job
  local -a _words
  gym_next=''
  gym_queue_error=''
  gym_next_script_text=''
  gym_next_number
  _token="$GYM_JOB/$GYM_BENCHMARK/$gym_number_of_next"
  ! gym_find_next "$_token" || return 0
  _words=(sbatch --parsable "--dependency=afternotok:$gym_job_id" "--comment=$_token")
  [[ -z $GYM_KILL_ON_INVALID_DEP ]] || _words+=(--kill-on-invalid-dep=yes)
  gym_choose_script
  [[ $GYM_QUEUE_FROM != login ]] || _call=gym_call_from_login
  if [[ $_call == gym_call_from_login && $gym_next_script != "$GYM_JOB_DIR/job.sh" ]]; then
    gym_next_script_text=$(<"$gym_next_script")
    gym_next_script=/dev/stdin
  fi
  _words+=(-- "$gym_next_script" "$gym_job_id" ${gym_handed:+"$gym_handed"})
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

# gym_choose_script: sets gym_next_script to job.sh, which may hold another secret by now; where it was changed otherwise, or is
# gone, to the scheduler's copy of it that runs now.
gym_choose_script() {
  gym_next_script=$GYM_JOB_DIR/job.sh
  gym_digest_script "$gym_next_script"
  [[ $gym_digest != "$GYM_SCRIPT" ]] || return 0
  gym_digest_script "$0"
  [[ $gym_digest == "$GYM_SCRIPT" ]] || return 0
  gym_next_script=$0
  gym_say "warning: $GYM_JOB_DIR/job.sh is not as it was queued; the successor runs what was queued"
}

# gym_submit CALL WORDS…: sets gym_printed and gym_complaint to what a command printed and complained, gym_call_status to
# its exit status. What a login shell prints before the command is above the mark and is left out.
gym_submit() {
  local _mark="-- $RANDOM$RANDOM$RANDOM --"
  gym_printed=$(
    exec 3>&1 # what the command prints comes first, what it complains of behind the second mark
    gym_complaint=$("$1" "$_mark" "${@:2}" 2>&1 >&3 3>&- </dev/null)
    printf '\n%s%s\n%s\n.' "$_mark" "$?" "$gym_complaint"
  )
  # What precedes the mark may be long, and ${gym_printed#*…} would try every beginning of it. It may be in any encoding.
  local LC_ALL=C
  [[ $gym_printed =~ "$_mark"$'\n'(.*) ]] && gym_printed=${BASH_REMATCH[1]}
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

# gym_next_number: sets gym_number_of_next to the place of the next job in the chain, counted from 1.
gym_next_number() {
  gym_number_of_next=$(sort -u .gym_job_chain 2>/dev/null | grep -c .)
  gym_number_of_next=$((${gym_number_of_next:-0} + 1))
}

# gym_find_next TOKEN [REPLY]: sets gym_next to the waiting job that carries a token; where the site keeps no comments, to
# the job of REPLY, if it is ours by everything else.
gym_find_next() {
  local _id _comment
  while read -r _id _comment; do
    if gym_carries "$_comment" "$1" && [[ $_id != "$gym_job_id" ]]; then
      gym_next=$_id
      [[ ${2-} != "$_id;"* ]] || gym_next=$2
      return 0
    fi
  done < <(gym_slurm squeue -h --me -t PENDING -o '%i %k')
  [[ -n ${2-} ]] || return 1
  gym_is_own "$2" "$1" && [[ $gym_own_state == PENDING ]] && gym_next=$2
}

# gym_is_own ID [TOKEN]: whether a number is a job of this chain: its comment carries the chain's token (or TOKEN); where
# there is no comment, or one of the site's, this user owns it, it has our name and is younger than the chain. 0: it is, and gym_own_state is its
# state; 1: no such job, or somebody else's; 2: that cannot be known now. Nothing is done to a job that is not.
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
    ! gym_is_disowned "$_comment" "$_token" || return 1
    if ! gym_carries "$_comment" "$_token"; then
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
# queued. What the command needs goes in by standard input, where nobody else can read it; the command itself reads
# gym_next_script_text.
gym_call_from_login() {
  local _commands _mark=$1
  shift
  _commands=$(
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
    if [[ -n ${gym_next_script_text-} ]]; then
      printf ' <<<%q\n' "$gym_next_script_text"
    else
      printf ' </dev/null\n'
    fi
  )
  exec timeout -k 5 90 ssh -T -o BatchMode=yes -o ConnectTimeout=15 -- "${SLURM_SUBMIT_HOST:?}" "exec bash -s" \
    <<<"$_commands"
}

# gym_find_unheard: sets gym_next to a successor that waits although its submission seemed to fail.
gym_find_unheard() {
  gym_next=''
  gym_next_number
  gym_find_next "$GYM_JOB/$GYM_BENCHMARK/$gym_number_of_next"
}

# gym_drop_next ID: removes a job of this chain from the queue; fails when nobody heard it, and when the number is not ours.
gym_drop_next() {
  local -a _cluster=()
  gym_is_own "$1" || return 1
  [[ $1 != *\;* ]] || _cluster=("--clusters=${1#*;}")
  gym_slurm scancel "${_cluster[@]}" "${1%%;*}"
}

# gym_next_waits ID: 0 when it is in the queue, 1 when it is gone or another's, 2 when that cannot be known.
gym_next_waits() {
  gym_is_own "$1"
}

gym_ask_queue() {
  gym_slurm_aloud squeue -h -a -t all -o 'job|%i|%T|%u|%V|%j|%k' "$@" 2>&1
}
