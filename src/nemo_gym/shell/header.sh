# shellcheck shell=bash
# What every part of a job script uses: messages, events, environments, waiting, and what was asked of the job.
# Read by job.sh after its assignments (GYM_…) and its traps, which set gym_asked to `drain` or `stop`.
# Needs bash 4.4. There is no `set -e`: each step's failure is reported in a sentence and remembered in gym_status.
#
# How functions answer, in every file of a job script: a value is in the variable `gym_…` that the function's comment
# says it sets. The exit status says yes or no, or done or not; 2, where the comment says so, that it is not known. Nothing is
# printed to be captured, which would cost a process: what is in $(…) or before a pipe is a program's output. A function
# uses its own locals, its arguments and variables `gym_…`, never its caller's locals. Locals begin with an underscore where a
# step's environment is put together below them: a local of the same name would hide what is exported.

set -u
: "${gym_asked:=}"      # what a signal or the drain file asked: nothing, drain, stop
gym_status=1            # what the job will exit with
gym_outcome=failed      # one word for the end marker
gym_reason=''           # one sentence for a person
gym_setup_status=0      # how the cluster's own lines ended
gym_dead=''             # number of the service that died
gym_fallen=''           # number of one that ended while other replicas of its service go on
gym_tick_fd=''
gym_event_torn=''
gym_exported=()         # variables that a step was given: an image's own values must give way to them
gym_uptime=/proc/uptime # seconds since the machine started, which no change of the date moves
gym_began=''            # what it said when this script began; empty where there is none
gym_clock=0             # seconds since this script began, at the last look

# How long a driver may take to finish what it has in flight after one of its services died, in seconds.
: "${NEMO_GYM_DRAIN_SECONDS:=30}"
# How long the script sleeps between two looks at what it waits for, in seconds.
: "${NEMO_GYM_TICK_SECONDS:=0.2}"
# How long a step may take to end after SIGTERM before it is killed, in seconds.
: "${NEMO_GYM_STOP_SECONDS:=10}"

# Sets gym_clock, without starting a process. SECONDS is the difference of two dates: it is used where nothing better exists.
gym_look_at_clock() {
  local up=''
  if [[ -z $gym_began ]]; then
    gym_clock=$SECONDS
    return
  fi
  { read -r up _ <"$gym_uptime"; } 2>/dev/null
  # what cannot be read now stays as it was
  [[ $up != [0-9]*.* ]] || gym_clock=$((${up%%.*} - gym_began))
}

# gym_is_before SECOND: whether that second of this script, counted as gym_clock is, is still to come.
gym_is_before() {
  gym_look_at_clock
  ((gym_clock < $1))
}

{ read -r gym_began _ <"$gym_uptime"; } 2>/dev/null
[[ $gym_began == [0-9]*.* ]] || gym_began=''
gym_began=${gym_began%%.*}

gym_say() {
  printf 'gym job: %s\n' "$*" >&2
}

# Remember why the job fails, and say it. The first reason stays: what follows is a consequence of it.
gym_fail() {
  gym_say "$*"
  gym_reason=${gym_reason:-$*}
}

# gym_own_words FILE: sets gym_words to the last sentence that `gym` itself said in FILE, which is where it says why it
# ends; empty when there is none. What others wrote is not repeated: it may be anything.
gym_own_words() {
  local line
  gym_words=''
  while IFS= read -r line; do
    [[ $line != 'gym: '* || $line == 'gym: results are in '* ]] || gym_words=${line:5:1000}
  done < <(tail -n 20 -- "$1" 2>/dev/null)
  gym_words=${gym_words%.}
}

# gym_quote TEXT: sets gym_quoted to TEXT as a JSON string.
gym_quote() {
  local text=$1
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  text=${text//$'\t'/\\t}
  text=${text//[[:cntrl:]]/?}
  gym_quoted="\"$text\""
}

# gym_event NAME [KEY VALUE]…: one JSON line, written at once, at the end of the benchmark's event journal.
# The values of status, port and pid are numbers, all others strings.
gym_event() {
  local name=$1 at line now=${EPOCHREALTIME-}
  shift
  # Milliseconds where bash has them (5.0 and later).
  now=${now/,/.}
  now=${now:--1.000000}
  TZ=UTC printf -v at '%(%Y-%m-%dT%H:%M:%S)T' "${now%.*}"
  now=${now#*.}
  at+=.${now:0:3}Z
  gym_quote "$gym_job_id"
  line="{\"at\":\"$at\",\"event\":\"$name\",\"job_id\":$gym_quoted,\"restart\":$gym_restart"
  while (($#)); do
    if [[ $1 == status || $1 == port || $1 == pid || $1 == left ]]; then
      gym_quoted=$2
    else
      gym_quote "$2"
    fi
    line+=",\"$1\":$gym_quoted"
    shift 2
  done
  # Left out where the disk is full; half a line that was left there is ended first.
  if { printf '%s%s}\n' "$gym_event_torn" "$line" >>.gym_events.jsonl; } 2>/dev/null; then
    gym_event_torn=''
  else
    gym_event_torn=$'\n'
  fi
}

# gym_put FILE TEXT: FILE is there with all of TEXT or not at all. A full disk is waited for.
gym_put() {
  gym_with_space gym_try_put "$1" "$2"
}

# gym_try_put FILE TEXT: the same without waiting. Twice, because a signal to the whole job may end a program that this script
# has just started.
gym_try_put() {
  printf '%s\n' "$2" >"$1.new" && { mv -f -- "$1.new" "$1" 2>/dev/null || [[ ! -e $1.new ]] || mv -f -- "$1.new" "$1"; }
}

# gym_create FILE TEXT: fails when FILE is there already.
gym_create() {
  (set -o noclobber && printf '%s\n' "$2" >"$1") 2>/dev/null
}

# gym_export WHERE [KEY KIND TEXT]…: puts an environment together. KIND is `lit` (TEXT is the value), `secret`
# (TEXT names one of this script's GYM_SECRET_… assignments) or `runtime` (TEXT names a variable of this machine).
gym_export() {
  local _gym_where=$1 _gym_name
  shift
  while (($#)); do
    _gym_name=$3
    if [[ $2 == secret ]]; then
      _gym_name="GYM_SECRET_$3"
    elif [[ $2 == runtime && ! -v $3 ]]; then
      gym_say "$_gym_where: env.$1 is runtime:$3, but $3 is not set on this machine"
      return 1
    fi
    if [[ $2 == lit ]]; then
      declare -gx "$1=$3" || return 1
    else
      declare -gx "$1=${!_gym_name}" || return 1
    fi
    gym_exported+=("$1")
    shift 3
  done
}

# A pause of a fifth of a second, unless asked otherwise.
gym_tick() {
  gym_tick_for "$NEMO_GYM_TICK_SECONDS"
}

# gym_tick_for SECONDS: a pause without starting a process; a signal is noticed when it is over. Ends the job when nobody
# keeps it, and sees to the chain.
gym_tick_for() {
  if [[ -z $gym_tick_fd ]]; then
    exec {gym_tick_fd}<> <(:)
  fi
  read -r -t "$1" -u "$gym_tick_fd"
  gym_still_kept || gym_abandon
  gym_chain_tick
  # The drain file is the truth; a signal is a nudge that can be lost.
  if [[ -z $gym_asked && -z $gym_dead && -e $gym_link/drain ]]; then
    gym_asked=drain
  fi
}

# gym_who: sets gym_asker to who asked the job to stop, in one word: none, signal, walltime, cancel, continued, service_died, or person for whatever
# else the drain file holds. A bare signal says nothing; far from the time limit it is not ours.
gym_who() {
  gym_asker=none
  if [[ -n $gym_asked ]]; then
    gym_asker=signal
    [[ $gym_asked == stop ]] || ! gym_is_near_its_limit || gym_asker=walltime
    if [[ -e $gym_link/drain ]]; then
      gym_asker=''
      { read -r gym_asker <"$gym_link/drain"; } 2>/dev/null || :
      case $gym_asker in
        none | signal | walltime | cancel | continued | service_died) ;;
        *) gym_asker=person ;;
      esac
    fi
  fi
}

# Whether the signal ahead of the time limit is due; a scheduler may send it up to a minute early.
gym_is_near_its_limit() {
  [[ -z ${GYM_WALLTIME-} || -z ${GYM_DRAIN_LEAD-} ]] || ! gym_is_before $((GYM_WALLTIME - GYM_DRAIN_LEAD - 75))
}

# gym_person: sets gym_asker_name to the person who asked for the drain, as the drain file has it.
gym_person() {
  local name=''
  { read -r name <"$gym_link/drain"; } 2>/dev/null || :
  name=${name//[^[:print:]]/}
  name=${name:-somebody}
  gym_asker_name=${name:0:60}
}

gym_alive() {
  kill -0 "$1" 2>/dev/null
}

# Called first in every child: what it must not inherit, and the job's own `gym` first on its PATH, so that a service
# may be `gym serve …` whatever folder the submitting shell was in.
gym_child() {
  [[ $GYM_PROGRAM != */* ]] || export PATH="${GYM_PROGRAM%/*}${PATH:+:$PATH}"
  unset NEMO_GYM_EXTRA_ROOTS
  if [[ -n $gym_tick_fd ]]; then
    exec {gym_tick_fd}>&-
  fi
  export NEMO_GYM_STEP="$gym_run/$1"
}

# Called in a child that becomes a program of ours, before its own variables are set: the login shell's Python and libraries
# are for the user's services and commands. GYM_KEEPS names what our interpreter needs all the same.
gym_own_environment() {
  local _name
  for _name in $(compgen -e PYTHON); do
    unset -v "$_name"
  done
  [[ $GYM_KEEPS == *libraries* ]] || unset -v LD_LIBRARY_PATH
  [[ $GYM_KEEPS == *user_site* ]] || export PYTHONNOUSERSITE=1
}

# gym_end_step PID: SIGTERM to the step's process group, SIGKILL to what is left of it after the grace.
gym_end_step() {
  local pid=$1 until
  gym_signal_step TERM "$pid"
  gym_look_at_clock
  until=$((gym_clock + NEMO_GYM_STOP_SECONDS))
  while kill -0 -- "-$pid" 2>/dev/null && gym_is_before "$until"; do
    gym_tick
  done
  gym_signal_step KILL "$pid"
  wait "$pid" 2>/dev/null
}

gym_signal_step() {
  kill -s "$1" -- "-$2" 2>/dev/null
}
