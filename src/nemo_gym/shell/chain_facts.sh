# shellcheck shell=bash
# What a job knows of the runs before it: from their folders links/<job id>.<restart count>/ and from the scheduler.

gym_number='^[0-9]{1,15}$'
declare -A gym_seconds_of=() # seconds of the runs that have ended, by <job id>.<restart count>, as far as they are known
gym_untimed=()               # jobs with a run whose seconds are not known

# gym_one FILE: sets gym_value to what a file of one value holds, '' when it is not there.
gym_one() {
  gym_value=''
  { IFS= read -r gym_value <"$1"; } 2>/dev/null || :
}

# gym_all FILE: sets gym_value to all of a file, `?` when zero bytes are in it. Starts no program that a signal to the whole
# job could end: what was not read must not look damaged.
gym_all() {
  gym_value=''
  if { IFS= read -r -d '' gym_value <"$1"; } 2>/dev/null; then
    gym_value='?'
  fi
  gym_value=${gym_value%$'\n'}
}

# gym_newest_run ID [BELOW]: sets gym_found to the folder of the newest run of a job, '' when it has none.
gym_newest_run() {
  local folder restart best=-1 below=${2:-1000000000}
  gym_found=''
  for folder in "$gym_links/$1".*/; do
    folder=${folder%/}
    restart=${folder##*.}
    [[ -d $folder && $restart =~ ^[0-9]{1,9}$ ]] || continue
    if ((10#$restart > best && 10#$restart < below)); then
      best=$((10#$restart)) gym_found=$folder
    fi
  done
}

# gym_run_before FOLDER: sets gym_found to the run before that one: of the same job, else the newest of its predecessor.
gym_run_before() {
  local name=${1##*/}
  gym_newest_run "${name%.*}" "$((10#${name##*.}))"
  [[ -z $gym_found ]] || return 0
  gym_one "$1/predecessor"
  if [[ -z $gym_value ]]; then
    gym_read_full_disks "$1"
    gym_value=$gym_about_of
  fi
  [[ -z $gym_value ]] || gym_newest_run "$gym_value"
}

# gym_recall PREDECESSOR: sets gym_before to the run that this one follows, gym_about to the job whose end is decided about,
# gym_earlier to the run of this very job before this one, and gym_p_first and gym_p_same. Begins gym_looks, the number of
# times that the scheduler was asked. An earlier run of this very job counts only once it had decided to go on: else the decision is
# still about the job before. Nor do jobs whose disk was full before they had decided: it is still about the job before them.
gym_recall() {
  local decision
  gym_about=${gym_undecided:-$1}
  gym_before='' gym_p_first='' gym_p_same='' gym_earlier=''
  gym_p_marker='' gym_p_complete='' gym_p_status=1 gym_p_asked=nobody gym_p_hopeless='' gym_p_cancelled=''
  gym_p_full_disks=0 gym_p_undecided='' gym_p_owner=$EUID gym_stranger=''
  gym_spent_retries=0 gym_spent_walltime=0 gym_spent_idle=0 gym_looks=0 gym_state='' gym_state_source='' gym_counts=''
  gym_read_state ''
  gym_count_rows
  gym_put "$gym_link/rows" "$gym_rows"
  if [[ ! $1 =~ ^[A-Za-z0-9_+-]*$ ]]; then
    gym_rule fail failed "'$1' is not a job id: a successor is started with the id of the job before"
    return 1
  fi
  gym_newest_run "$gym_job_id" "$gym_restart"
  gym_earlier=$gym_found
  while [[ -n $gym_found ]]; do
    gym_one "$gym_found/decision"
    decision=$gym_value
    if [[ $decision == go_on* ]]; then
      gym_before=$gym_found gym_p_same=yes gym_about=$gym_job_id
      return 0
    elif [[ -n $decision ]]; then
      gym_reason_in "$gym_found"
      gym_rule "${decision%% *}" "${decision##* }" "an earlier run of this job had decided: $gym_value"
      return 1
    fi
    gym_newest_run "$gym_job_id" "$((10#${gym_found##*.}))"
  done
  if [[ -z $1 ]]; then
    gym_p_first=yes
  else
    gym_newest_run "$1"
    gym_before=$gym_found
    # one that ended the chain has nobody to go on after it, whatever a lost node still queued
    gym_one "${gym_before:-$gym_link}/decision"
    decision=$gym_value
    if [[ -n $decision && $decision != go_on* ]]; then
      gym_reason_in "$gym_before"
      gym_rule "${decision%% *}" "${decision##* }" "job $1 had decided: $gym_value"
      return 1
    fi
  fi
}

# gym_reason_in FOLDER: sets gym_value to why that run decided as it did.
gym_reason_in() {
  gym_value=''
  { { read -r && IFS= read -r gym_value; } <"$1/decision"; } 2>/dev/null || :
}

# How the run before ended: its own end record, then the scheduler's, looked up again for about a
# minute while that is not visible yet, or until this job is asked to stop itself.
gym_learn_end() {
  local run=$gym_before
  [[ -z $gym_p_first ]] || return 0
  if [[ -n $gym_undecided && -z $gym_p_same ]]; then
    gym_p_undecided=yes
    gym_newest_run "$gym_about"
    run=$gym_found
  fi
  if [[ -n $run ]]; then
    gym_read_marker "$run"
  fi
  if ((gym_full_disks_before)); then
    gym_p_marker=yes gym_p_full_disks=$gym_full_disks_before
  fi
  gym_find_proof
  while gym_look_again "$gym_looks"; do
    if ((gym_looks > 0)); then
      gym_pause "$NEMO_GYM_LOOKUP_SECONDS"
      [[ -z $gym_asked ]] || break
    fi
    if [[ -z $run ]] || ! gym_ended_alone "$run"; then
      gym_state_of "$gym_about"
    fi
    gym_read_state "$gym_state"
    ((++gym_looks))
  done
  if [[ -z $gym_s_known ]]; then
    gym_say "warning: nobody has heard of the state '$gym_s_name' of job $gym_about; it counts as a failure"
  fi
}

# gym_ended_alone FOLDER: whether a run ended before its job did; shell/sharer.sh has jobs in which that can be.
gym_ended_alone() {
  return 1
}

# Proof that every rollout is recorded, of whichever run, is proof.
gym_find_proof() {
  local file
  for file in "$gym_links"/*/collected; do
    gym_one "$file"
    [[ $gym_value != 'state complete' && $gym_value != '{"state":"complete",'* ]] || gym_p_complete=yes
  done
}

gym_pause() {
  local until
  gym_look_at_clock
  until=$((gym_clock + $1))
  while gym_is_before "$until" && [[ -z $gym_asked ]]; do
    gym_tick
  done
}

# gym_read_collected FOLDER: what the driver of that run said at its end, in lines `key value`: sets gym_c_status, gym_c_new
# and gym_c_hopeless; fails where it said nothing.
gym_read_collected() {
  local key value
  gym_c_status='' gym_c_new='' gym_c_hopeless=''
  {
    while read -r key value; do
      case $key in
        status) [[ ! $value =~ $gym_number ]] || gym_c_status=$((10#$value)) ;;
        new) [[ ! $value =~ $gym_number ]] || gym_c_new=$((10#$value)) ;;
        hopeless) gym_c_hopeless=$value ;;
        '{'*) gym_read_old_collected "$key $value" ;;
      esac
    done <"$1/collected"
  } 2>/dev/null
  [[ -n $gym_c_status && -n $gym_c_new ]]
}

# gym_read_old_collected LINE: the same from a gym that does not know that lines are asked for, as a commit that
# driver.gym_install names may be: one line of JSON, with fixed keys in a fixed order.
gym_read_old_collected() {
  local form='^\{"state":"[a-z]+","status":([0-9]+),"expected":[0-9]+,"recorded":[0-9]+,"new":([0-9]+),'
  form+='"hopeless":(null|"(.*)")\}$'
  [[ ${1% } =~ $form ]] || return 1
  gym_c_status=${BASH_REMATCH[1]} gym_c_new=${BASH_REMATCH[2]} gym_c_hopeless=${BASH_REMATCH[4]}
  gym_c_hopeless=${gym_c_hopeless//\\n/ }
  gym_c_hopeless=${gym_c_hopeless//\\\"/\"}
  gym_c_hopeless=${gym_c_hopeless//\\\\/\\}
}

# gym_read_marker FOLDER: the end record of a run: what its driver counted, and the script's end marker with who asked for it.
gym_read_marker() {
  local end who outcome
  gym_one "$1/end"
  end=$gym_value
  gym_one "$1/drain"
  who=$gym_value
  if gym_read_collected "$1"; then
    gym_p_marker=yes gym_p_status=$gym_c_status gym_p_hopeless=$gym_c_hopeless
    ((gym_c_status != 0)) || gym_p_complete=yes
  fi
  outcome=''
  if [[ $end =~ ^([a-z_]+)\ ([0-9]{1,3})\ (.+)$ ]]; then
    gym_p_marker=yes outcome=${BASH_REMATCH[1]} gym_p_status=${BASH_REMATCH[2]} who=${BASH_REMATCH[3]}
  fi
  # A signal without more is our own early one when the job only drained, anybody's when it was asked to stop.
  case $who/$outcome in
    cancel/*) gym_p_asked=cancel ;;
    walltime/*) gym_p_asked=early ;;
    signal/drained) gym_p_asked=early ;;
    signal/*) gym_p_asked=term ;;
    /* | none/* | continued/* | service_died/*) ;;
    *) gym_p_asked=person ;;
  esac
}

# gym_account PREDECESSOR: adds the time of runs that have ended and were not accounted yet, each once; a time that is not
# known yet is added by a later job. Sets gym_spent_walltime. A damaged count is an error.
gym_account() {
  local -A tried=()
  local file line key seconds id found='' asked=0 until
  local -a lines
  gym_seconds_of=()
  gym_look_at_clock
  until=$((gym_clock + 60))
  for file in "$gym_links"/*/accounted; do
    [[ -e $file ]] || continue
    gym_all "$file"
    mapfile -t lines <<<"$gym_value"
    for line in "${lines[@]}"; do
      if [[ ! $line =~ ^([A-Za-z0-9_+-]+\.[0-9]{1,9})\ ([0-9]{1,15})$ ]]; then
        gym_damaged "$file" "a line of it is not '<job id>.<restart count> <seconds>'"
        return 1
      fi
      key=${BASH_REMATCH[1]}
      gym_seconds_of[$key]=${gym_seconds_of[$key]:-${BASH_REMATCH[2]}}
    done
  done
  gym_unaccounted "$1"
  for id in "${gym_untimed[@]}"; do
    [[ -z ${tried[$id]-} ]] || continue
    tried[$id]=yes
    ((++asked > 8)) || ! gym_is_before "$until" && break
    gym_elapsed_of "$id"
    while read -r key seconds; do
      [[ $key =~ ^[0-9]{1,9}$ && $seconds =~ $gym_number && -z ${gym_seconds_of[$id.$key]-} ]] || continue
      [[ $id != "$gym_job_id" ]] || ((key < gym_restart)) || continue
      gym_seconds_of[$id.$key]=$((10#$seconds))
      found+="$id.$key $((10#$seconds))"$'\n'
    done <<<"$gym_elapsed"
  done
  [[ -z $found ]] || gym_put "$gym_link/accounted" "${found%$'\n'}"
  for seconds in "${gym_seconds_of[@]}"; do
    gym_spent_walltime=$((gym_spent_walltime + 10#$seconds))
  done
  gym_view "$GYM_JOB_DIR/.gym_accumulated_walltime" "$gym_spent_walltime" || return 1
  gym_add_unknown_time
}

# gym_unaccounted PREDECESSOR: sets gym_untimed to the jobs with a run whose time is not known, the latest first.
gym_unaccounted() {
  local name
  gym_untimed=()
  [[ -z $1 || -n ${gym_seconds_of[$1.0]-} ]] || gym_untimed+=("$1")
  while read -r name; do
    [[ -z ${gym_seconds_of[$name]-} && $name != "$gym_job_id.$gym_restart" && -e $gym_links/$name/started ]] || continue
    gym_untimed+=("${name%.*}")
  done < <(cd -- "$gym_links" && ls -1dt -- *.*)
}

# Where the time of a run is not known, what the run itself saw of it counts towards the cap until it is.
gym_add_unknown_time() {
  local folder
  for folder in "$gym_links"/*.*; do
    [[ -z ${gym_seconds_of[${folder##*/}]-} && $folder != "$gym_link" ]] || continue
    gym_one "$folder/alive"
    [[ ! $gym_value =~ $gym_number ]] || gym_spent_walltime=$((gym_spent_walltime + 10#$gym_value))
  done
}

# gym_view FILE NUMBER: lets a file show a number that links/ holds. One that is damaged, or shows more than there is, is an
# error; one that shows less was not written any more.
gym_view() {
  local shown=0
  if [[ -e $1 ]]; then
    gym_all "$1"
    shown=$gym_value
    if [[ ! $shown =~ $gym_number ]]; then
      gym_damaged "$1" "it holds no number"
      return 1
    elif ((10#$shown > $2)); then
      gym_damaged "$1" "it says $shown, and the runs of this chain add up to $2"
      return 1
    fi
  fi
  if ! gym_put "$1" "$2"; then
    gym_rule fail failed "$1 cannot be written"
    return 1
  fi
}

gym_damaged() {
  gym_rule fail failed "$1 is damaged: $2; put it right and resubmit the benchmark"
}

# What a resubmission has raised.
gym_raise_limits() {
  local file
  # queued again in place, a job goes on with what is recorded
  [[ ! -e $GYM_JOB_DIR/resubmits ]] || GYM_RESUMES=yes
  for file in "$GYM_JOB_DIR"/resubmits/*/max_retries "$GYM_JOB_DIR"/resubmits/*/max_walltime; do
    gym_one "$file"
    [[ $gym_value =~ $gym_number ]] || continue
    case $file in
      */max_retries) ((10#$gym_value <= GYM_MAX_RETRIES)) || GYM_MAX_RETRIES=$((10#$gym_value)) ;;
      */max_walltime)
        [[ -z $GYM_MAX_WALLTIME ]] || ((10#$gym_value <= GYM_MAX_WALLTIME)) || GYM_MAX_WALLTIME=$((10#$gym_value))
        ;;
    esac
  done
}

# Retries that were counted so far, one per file of that name. The one that an earlier run of this job counted is about the
# decision that is taken now.
gym_count_retries() {
  local file
  for file in "$gym_links"/*/retry; do
    [[ -e $file ]] && ((++gym_spent_retries))
  done
  gym_view "$GYM_JOB_DIR/.gym_infra_retries" "$gym_spent_retries" || return 1
  ! gym_retry_counted || ((--gym_spent_retries)) || :
}

# gym_count_rows: sets gym_rows.
gym_count_rows() {
  gym_rows=0
  { gym_rows=$(wc -l <"$GYM_JOB_DIR/artifacts/rollouts.jsonl"); } 2>/dev/null
  gym_rows=$((gym_rows))
}

# Runs in a row, back from the one before, that recorded nothing new.
gym_count_idle() {
  local run=$gym_before rows=$gym_rows bound=1000
  if [[ -z $run && -n $gym_undecided ]]; then
    gym_newest_run "$gym_undecided"
    run=$gym_found
  fi
  while [[ -n $run ]] && ((bound-- > 0)); do
    gym_one "$run/rows"
    [[ $gym_value =~ $gym_number ]] || gym_value=$rows
    if gym_read_collected "$run"; then
      ((gym_c_new == 0)) || break
    elif ((rows > 10#$gym_value)); then
      break
    fi
    ((++gym_spent_idle))
    rows=$((10#$gym_value))
    gym_run_before "$run"
    run=$gym_found
  done
}
