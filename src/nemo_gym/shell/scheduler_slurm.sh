# shellcheck shell=bash
# What the job script asks of its scheduler, answered by Slurm: who this run is and how others ended. How its steps run
# is in shell/slurm_steps.sh, how its successor is queued in shell/slurm_queue.sh. Needs shell/clean_environment.sh.

# How long one of Slurm's commands may take, in seconds: a controller that is away answers after 10 to 20.
: "${NEMO_GYM_SLURM_SECONDS:=30}"
# Seconds by which the clocks of submitter, files, nodes and controller may differ.
gym_clock_slack=600
gym_submission=''       # second before which nothing of this chain was submitted, once it is known
gym_comments=''         # `kept` or `changed`, once it is known whether the site leaves comments as they were asked for
gym_shown=''            # what the controller said last of the job that it was asked about
gym_disowned=''         # when another job with that number was submitted
gym_silent=''           # empty while it answers
gym_service_host=127.0.0.1 # where services are: all of them are beside the driver, on the first node
gym_inherited=()        # the environment that the scheduler gave to this job, NAME=VALUE

# gym_identify: sets gym_job_id, gym_restart and gym_run, which say who this run of the job is, and gym_link, its folder.
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
      NEMO_GYM_STEP | NEMO_GYM_RUN | NEMO_GYM_CHAIN | NEMO_GYM_LINK | NEMO_GYM_COLLECTED | NEMO_GYM_BENCH_DIR | NEMO_GYM_DRAIN_FILE | \
        NEMO_GYM_JOB_ID | NEMO_GYM_RESTART | NEMO_GYM_SUPERVISOR | NEMO_GYM_SERVICE_* | NEMO_GYM_POLICY_*)
        unset -v "$_name"
        ;;
      *) gym_inherited+=("$_name=${!_name}") ;;
    esac
  done
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
gym_slurm() {
  gym_slurm_aloud "$@" 2>/dev/null
}

# The same with what it complains of.
gym_slurm_aloud() (
  slurm_clean_environment
  LC_ALL=C SLURM_TIME_FORMAT=%s exec timeout -k 5 "$NEMO_GYM_SLURM_SECONDS" "$@"
)

# gym_ask_controller ID: sets gym_shown to what the controller says of the job that ran here under the number ID, '' when it
# holds none. Sets gym_disowned to the second in which another job with that number was submitted, when it holds that, and
# gym_silent when it did not answer: to the second of gym_clock before which it is not asked again.
gym_ask_controller() {
  gym_shown='' gym_disowned=''
  [[ -z $gym_silent ]] || ! gym_is_before "$gym_silent" || return 0
  gym_silent=''
  if gym_shown=$(gym_slurm_aloud scontrol -o show job "${1%%;*}" 2>&1); then
    gym_read_show "$gym_shown" || gym_shown=''
    [[ -n $gym_shown ]] || return 0
    gym_is_this_job "$1" || { gym_shown='' gym_disowned=$gym_r_submit; }
  else
    gym_look_at_clock
    [[ $gym_shown == *'Invalid job id specified'* ]] || gym_silent=$((gym_clock + 60))
    gym_shown=''
  fi
}

# gym_state_of ID: sets gym_state to what the scheduler says of a job, the controller first, and gym_state_source. Of a
# cancelled job accounting alone knows who did it. What is said of another job with that number is not said of this one.
gym_state_of() {
  local _fields _state
  gym_state=''
  gym_state_source=''
  gym_ask_controller "$1"
  if [[ -n $gym_shown ]]; then
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

# gym_read_record: a record of a job with a certain number. Sets gym_r_state, gym_r_end, gym_r_submit, gym_r_user, gym_r_name,
# gym_r_comment and gym_r_seconds, each to '' where the record has none; fails at the end of the records.
gym_read_record() {
  IFS=$'\x1f' read -r gym_r_state gym_r_end gym_r_submit gym_r_user gym_r_name gym_r_comment gym_r_seconds
}

# gym_read_show TEXT: the same of what the controller shows, but gym_r_seconds. Fails where it is not about a job.
gym_read_show() {
  local LC_ALL=C _answer=" $1" # a site's words may be in any encoding
  gym_r_state='' gym_r_end='' gym_r_submit='' gym_r_user='' gym_r_name='' gym_r_comment=''
  [[ $_answer =~ [[:space:]]JobState=([^[:space:]]+) ]] && gym_r_state=${BASH_REMATCH[1]} || return 1
  [[ $_answer =~ [[:space:]]EndTime=([0-9]+)[[:space:]] ]] && gym_r_end=${BASH_REMATCH[1]}
  [[ $_answer =~ [[:space:]]SubmitTime=([0-9]+)[[:space:]] ]] && gym_r_submit=${BASH_REMATCH[1]}
  [[ $_answer =~ [[:space:]]UserId=[^[:space:]]*\(([0-9]+)\) ]] && gym_r_user=${BASH_REMATCH[1]}
  [[ $_answer =~ [[:space:]]JobName=(.+)[[:space:]]UserId= ]] && gym_r_name=${BASH_REMATCH[1]}
  # a comment has spaces where a site adds words to it; what follows it holds no token of ours as a word of its own. Not by an
  # expansion like ${_answer#*…}, which tries every beginning of the text and takes a third of a second for it
  [[ $_answer =~ [[:space:]]Comment=(.*) ]] && gym_r_comment=${BASH_REMATCH[1]}
  gym_r_comment=${gym_r_comment%%[[:space:]]StdErr=*}
  return 0
}

# gym_is_this_job ID: whether the record in gym_r_… can be of the job that ran here under the number ID: numbers are used
# again, and accounting keeps what the older job did. Any field that is there and disagrees disowns it, as in
# nemo_slurm/identity.py; nemo_slurm/observing.py has the two rules for a record whose name accounting does not know yet.
gym_is_this_job() {
  local _file _started
  [[ -z $gym_disowned || $gym_r_submit != "$gym_disowned" ]] || return 1
  [[ -z $gym_silent || -n $gym_r_comment || $gym_r_name != allocation ]] || return 1
  ! gym_is_disowned "$gym_r_comment" "$GYM_JOB/$GYM_BENCHMARK/" || gym_is_shared_job || return 1
  [[ -z $gym_r_user || $gym_r_user == "$EUID" ]] || return 1
  # accounting calls a job `allocation` whose name it does not know
  [[ -z $gym_r_name || $gym_r_name == allocation || -z ${SLURM_JOB_NAME-} || $gym_r_name == "$SLURM_JOB_NAME" ]] || gym_is_shared_job || return 1
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

# Whether the record in gym_r_… is of a job that this benchmark shared with others of its model.
gym_is_shared_job() {
  [[ -n ${GYM_SHARED-} && $gym_r_name == @(|allocation|"gym-$GYM_SHARED") ]] && gym_carries "$gym_r_comment" "$GYM_JOB/$GYM_SHARED/"
}

# gym_is_disowned COMMENT TOKEN: whether a comment says that a job does not carry a token. Where this job's own comment is
# not what was asked for, the site writes comments of its own, and they say nothing.
gym_is_disowned() {
  [[ -n $1 ]] && ! gym_carries "$1" "$2" && gym_comments_are_kept
}

# gym_carries COMMENT TOKEN: whether a comment holds a token, or one that begins with TOKEN where that ends with a slash; a
# site may write words of its own before it and after it. nemo_slurm/identity.py has the same rule.
gym_carries() {
  local LC_ALL=C
  if [[ $2 == */ ]]; then
    [[ " $1" == *[^A-Za-z0-9_./-]"$2"* ]]
  else
    [[ " $1 " == *[^A-Za-z0-9_./-]"$2"[^A-Za-z0-9_./-]* ]]
  fi
}

# gym_comments_are_kept: whether this job's own comment carries its token; what nobody answers is asked for again.
gym_comments_are_kept() {
  local _own
  if [[ -z $gym_comments ]]; then
    _own=$(gym_slurm squeue -h -a -j "$gym_job_id" -o %k) || return 0
    [[ -z $_own || $_own == '(null)' ]] || gym_comments=changed
    ! gym_carries "$_own" "$GYM_JOB/$GYM_BENCHMARK/" || gym_comments=kept
    [[ -z ${GYM_SHARED-} ]] || ! gym_carries "$_own" "$GYM_JOB/$GYM_SHARED/" || gym_comments=kept
  fi
  [[ $gym_comments != changed ]]
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
# ended; nothing when nothing is known yet. Accounting is believed first: the controller knows the last run alone.
gym_elapsed_of() {
  local _run=-1 _before='' _known=-1 _fields=State,End,Submit,UID,JobName,Comment,ElapsedRaw
  gym_elapsed=''
  gym_ask_controller "$1"
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
  [[ -n $gym_elapsed ]] || gym_read_run_time
  gym_elapsed=${gym_elapsed%$'\n'}
}

# Of the last run, as the controller shows it.
gym_read_run_time() {
  local _days _hours _minutes _seconds
  [[ -n $gym_shown ]] && gym_read_show "$gym_shown" && gym_is_ended "$gym_r_state" || return 0
  [[ " $gym_shown" =~ [[:space:]]RunTime=(([0-9]+)-)?([0-9]+):([0-9]+):([0-9]+) ]] || return 0
  _days=$((10#${BASH_REMATCH[2]:-0})) _hours=$((10#${BASH_REMATCH[3]})) _minutes=$((10#${BASH_REMATCH[4]}))
  _seconds=$((10#${BASH_REMATCH[5]} + 60 * (_minutes + 60 * (_hours + 24 * _days))))
  [[ $gym_shown =~ [[:space:]]Restarts=([0-9]+) ]] || return 0
  gym_elapsed="${BASH_REMATCH[1]} $_seconds"
}

# gym_is_ended STATE: whether a run in that state is over; a requeued run is, though its job comes back.
gym_is_ended() {
  case $1 in
    '' | PENDING | RUNNING | COMPLETING | CONFIGURING | SUSPENDED | STOPPED | SIGNALING | RESIZING | STAGE_OUT) return 1 ;;
  esac
}
