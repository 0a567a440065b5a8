# shellcheck shell=bash
# The chain of a resumable benchmark: what a job does before its work, beside it and after it, so that the run goes on
# when the job does not end it. What it asks of the scheduler of the job (shell/scheduler_….sh):
#   gym_state_of ID     sets gym_state, the scheduler's text about a job ('': not visible), and gym_state_source
#   gym_elapsed_of ID   sets gym_elapsed: a line "<restart count> <seconds>" for each ended run of a job ('': not known)
#   gym_queue_next      queues this script for the time after this job, with this job's id as its argument; sets gym_next
#                       to "id" or "id;cluster", or returns 1 with gym_queue_error; the successor inherits gym_token
#   gym_drop_next NEXT  takes a queued successor back; fails when nobody heard it
#   gym_find_unheard    sets gym_next to a successor that was queued although queueing it seemed to fail, or returns 1
#   gym_next_waits NEXT 0: it waits for this job, 1: it is gone, 2: that cannot be known now
# Facts about a run are in links/<job id>.<restart count>/, one value a file, each written at once or not at all. The
# files .gym_job_chain, .gym_accumulated_walltime and .gym_infra_retries show them to people.

# Seconds between two lookups of a state that is not visible yet; there are six.
: "${NEMO_GYM_LOOKUP_SECONDS:=10}"
# Seconds between two looks at the successor while this job works.
: "${NEMO_GYM_CHAIN_SECONDS:=30}"
gym_chain_due=''        # second of gym_clock at which the successor is looked at next; empty: there is nothing to see to
gym_links=$GYM_JOB_DIR/links
gym_refused=''          # why the successor could not be queued, as it was reported last

# gym_chain_prologue PREDECESSOR: decides whether this job goes on, before any service starts, and queues the successor
# if so. Returns 1 when this job has nothing to do: gym_status and gym_reason say how it ends.
gym_chain_prologue() {
  gym_put "$gym_link/predecessor" "$1"
  if gym_recall "$1" && gym_claim_succession "$1"; then
    gym_learn_end
    if gym_account "$1" && gym_count_retries; then
      gym_count_idle
      gym_raise_limits
      gym_decide
    fi
  fi
  gym_settle
  [[ $gym_action == go_on ]] || return 1
  if ! gym_note_chain; then
    gym_settle
    return 1
  fi
  gym_chain_later
  gym_chain_queue
}

# gym_claim_succession PREDECESSOR: of several successors of one job (a reply that was lost, a requeued job), the first one that
# comes goes on, and the others end; so does a job that is put back into the queue when another went on after it.
gym_claim_succession() {
  local claim
  if [[ -e $GYM_JOB_DIR/.gym_cancelled ]]; then
    gym_p_cancelled=yes
  fi
  if [[ -n $gym_p_same ]]; then
    for claim in "$gym_links/$gym_job_id".*/successor; do
      gym_one "$claim"
      [[ -z $gym_value ]] || gym_is_continued "$gym_job_id" || return 1
    done
    return 0
  fi
  [[ -n $gym_before ]] || return 0
  claim=$gym_before/successor
  gym_claim "$claim" || gym_one "$claim"
  [[ -z $gym_value || $gym_value == "$gym_job_id" ]] || gym_is_continued "$1"
}

# gym_claim FILE: makes FILE with this job's id in it, in one step, so that nobody ever reads an empty one; fails when it is there.
gym_claim() {
  gym_value=''
  gym_put "$gym_link/claim" "$gym_job_id"
  ln -- "$gym_link/claim" "$1" 2>/dev/null && return
  # a file system without hard links
  [[ ! -e $1 ]] && gym_create "$1" "$gym_job_id"
}

gym_is_continued() {
  gym_rule stop running "job $gym_value goes on after job $1 already"
  return 1
}

# Writes the decision down: the retry first, since one that was counted by an earlier run of this job is not counted again.
gym_settle() {
  local evidence
  # one that goes on has not succeeded at anything yet
  gym_status=1
  [[ $gym_action != stop ]] || gym_status=0
  if [[ -n $gym_counts ]]; then
    gym_retry_counted || gym_put "$gym_link/retry" "$gym_why"
    ((++gym_spent_retries))
    gym_put "$GYM_JOB_DIR/.gym_infra_retries" "$gym_spent_retries"
    gym_counts=''
  fi
  evidence="scheduler=${gym_s_name// /_} source=$gym_state_source marker=${gym_p_marker:+$gym_p_status/$gym_p_asked}"
  evidence+=" complete=${gym_p_complete:-no} same_job=${gym_p_same:-no} looks=$gym_looks retries=$gym_spent_retries"
  evidence+=" walltime=$gym_spent_walltime without_progress=$gym_spent_idle stranger=${gym_stranger:-no}"
  evidence+=" full_disks=$gym_full_disks_before about=${gym_about:-nobody}"
  gym_put "$gym_link/decision" "$gym_action $gym_fate"$'\n'"${gym_why//$'\n'/ }"$'\n'"$evidence"
  gym_event job_decided action "$gym_action" chain "$gym_fate" reason "$gym_why" evidence "$evidence"
  case $gym_action in
    go_on) gym_say "going on: $gym_why" ;;
    stop) gym_say "not going on: $gym_why" ;;
    fail) gym_say "the chain ends here: $gym_why" ;;
  esac
  [[ $gym_action != go_on ]] || return 0
  gym_outcome=decided gym_reason=$gym_why
  gym_drop_queued_before
}

# Whether a retry was counted for the end that is decided about now: by an earlier run of this job, or by a job that had no
# space for its decision.
gym_retry_counted() {
  local folder
  for folder in "$gym_links"/*/retry; do
    [[ -e $folder ]] || continue
    folder=${folder%/retry}
    [[ ${folder##*/} != "$gym_job_id".* ]] || return 0
    [[ -n $gym_undecided ]] || continue
    gym_read_full_disks "$folder"
    [[ $gym_about_of != "$gym_undecided" ]] || return 0
  done
  return 1
}

# What an earlier run of this job queued must not start either when this one finds that the chain is over.
gym_drop_queued_before() {
  [[ -n $gym_earlier && $gym_fate != running ]] || return 0
  gym_one "$gym_earlier/queued"
  [[ -z $gym_value ]] || gym_chain_drop "$gym_value"
}

# The id of this job in .gym_job_chain, once.
gym_note_chain() {
  local file=$GYM_JOB_DIR/.gym_job_chain line text='' seen=''
  gym_all "$file"
  if [[ -n $gym_value ]]; then
    while IFS= read -r line || [[ -n $line ]]; do
      if [[ ! $line =~ ^[A-Za-z0-9_+-]+$ ]]; then
        gym_damaged "$file" "a line of it is not a job id"
        return 1
      fi
      [[ $line != "$gym_job_id" ]] || seen=yes
      text+=$line$'\n'
    done <<<"$gym_value"
  fi
  [[ -n $seen ]] || gym_put "$file" "$text$gym_job_id" || gym_say "warning: $file cannot be written"
}

# Queues the successor unless one waits already. A cancelled chain gets none, and one that went on without this run.
gym_chain_queue() {
  local earlier=''
  [[ ! -e $GYM_JOB_DIR/.gym_cancelled ]] || return 0
  ! gym_notice_succession || return 0
  if [[ -n $gym_earlier && ! -e $gym_link/queued ]]; then
    gym_one "$gym_earlier/queued"
    earlier=$gym_value
    if [[ -n $earlier ]] && ! gym_is_gone "$earlier"; then
      gym_put "$gym_link/queued" "$earlier"
      gym_say "job ${earlier%%;*} waits for the end of this one already"
      return 0
    fi
  fi
  gym_next='' gym_queue_error=''
  if gym_queue_next && [[ -n $gym_next ]]; then
    gym_put "$gym_link/queued" "$gym_next"
    rm -f -- "$gym_link/queue_error"
    gym_refused=''
    gym_event successor_queued successor "${gym_next%%;*}"
    gym_say "job ${gym_next%%;*} is queued and goes on if this one does not finish"
    # a cancellation between the look above and now has not seen it
    [[ ! -e $GYM_JOB_DIR/.gym_cancelled ]] || gym_chain_drop "$gym_next"
  else
    gym_tell_refusal "${gym_queue_error:-no reason was given}"
  fi
}

gym_tell_refusal() {
  [[ $gym_refused != "$1" ]] || return 0
  gym_refused=$1
  rm -f -- "$gym_link/queued"
  gym_put "$gym_link/queue_error" "$1"
  gym_event successor_failed error "$1"
  gym_say "warning: the successor could not be queued ($1). Chain will NOT continue on failure."
  gym_say "queueing it is tried again every $NEMO_GYM_CHAIN_SECONDS s while this job runs"
}

# gym_is_gone ID: whether a successor that was queued has left the queue. One whose state cannot be known counts as queued.
gym_is_gone() {
  gym_next_waits "$1"
  (($? == 1))
}

# Takes a successor out of the queue; what the scheduler does not hear is said again a few times, as long as there is time.
gym_chain_drop() {
  local tries
  for tries in 1 2 3; do
    if gym_is_gone "$1"; then
      gym_say "job ${1%%;*} is not in the queue any more"
      rm -f -- "$gym_link/queued"
      return 0
    elif gym_drop_next "$1"; then
      gym_event successor_dropped successor "${1%%;*}"
      gym_say "job ${1%%;*} was taken out of the queue again"
      rm -f -- "$gym_link/queued"
      return 0
    fi
    [[ $gym_asked != stop && $tries != 3 ]] || break
    sleep 1
  done
  gym_event successor_failed error "job ${1%%;*} could not be taken out of the queue"
  gym_say "warning: job ${1%%;*} could not be taken out of the queue; it has nothing to do, cancel it by hand"
  return 1
}

# The next look at the successor is NEMO_GYM_CHAIN_SECONDS from now.
gym_chain_later() {
  gym_look_at_clock
  gym_chain_due=$((gym_clock + NEMO_GYM_CHAIN_SECONDS))
}

# Called a few times a second while the job waits for anything; acts every NEMO_GYM_CHAIN_SECONDS.
gym_chain_tick() {
  [[ -n $gym_chain_due ]] && ! gym_is_before "$gym_chain_due" || return 0
  gym_chain_later
  gym_try_put "$gym_link/alive" "$gym_clock"
  if [[ -e $GYM_JOB_DIR/.gym_cancelled ]]; then
    gym_chain_due=''
    gym_say "the run was cancelled; ending it"
    gym_try_put "$gym_link/drain" cancel
    gym_asked=stop
    gym_one "$gym_link/queued"
    [[ -z $gym_value ]] || gym_chain_drop "$gym_value"
    return 0
  fi
  gym_notice_succession || gym_chain_see_to_successor
  # counted from here: a scheduler that answers slowly must not keep this script from everything else
  [[ -z $gym_chain_due ]] || gym_chain_later
}

# A job whose node was lost for the scheduler may live on beside the one that goes on after it: it leaves the results to that.
gym_notice_succession() {
  gym_one "$gym_link/successor"
  gym_newest_run "$gym_job_id"
  [[ -n $gym_value || $gym_found != "$gym_link" ]] || return 1
  gym_chain_due=''
  gym_say "${gym_value:-${gym_found##*/}} goes on after this run already; ending it"
  gym_try_put "$gym_link/drain" continued
  gym_asked=stop
}

# A successor that was refused is asked for again, one that vanished is replaced.
gym_chain_see_to_successor() {
  local next
  gym_one "$gym_link/queued"
  next=$gym_value
  if [[ -n $next ]]; then
    gym_is_gone "$next" || return 0
    gym_say "job ${next%%;*}, which was to go on after this one, is no longer in the queue; queueing another"
    gym_event successor_failed error "job ${next%%;*} is no longer in the queue"
    rm -f -- "$gym_link/queued"
    gym_earlier=''
  fi
  gym_chain_queue
}

# After the work, before the end marker. The chain is over when everything is recorded, when no retry can help, and when it
# was cancelled or drained by a person: then nothing of it stays in the queue. Else somebody must be there to go on.
gym_chain_epilogue() {
  [[ -n $gym_chain_due ]] || return 0
  gym_chain_due=''
  gym_look_at_clock
  gym_try_put "$gym_link/alive" "$gym_clock"
  if gym_chain_is_over; then
    gym_one "$gym_link/queued"
    [[ -z $gym_value ]] || gym_chain_drop "$gym_value"
    # one that was refused may have been accepted without saying so
    while gym_find_unheard && gym_chain_drop "$gym_next"; do :; done
  elif ! gym_notice_succession && [[ $gym_asked != stop || -e $gym_link/queue_error ]]; then
    gym_chain_see_to_successor
  fi
}

# Proved by what the driver counted, and by nothing else: a step can end with status 0 and have been killed.
gym_chain_is_over() {
  if gym_read_collected "$gym_link"; then
    if ((gym_c_status == 0)); then
      gym_status=0
      return 0
    elif [[ -n $gym_c_hopeless ]]; then
      gym_reason="no retry can help: $gym_c_hopeless"
      return 0
    elif ((gym_c_status == 76)); then
      gym_reason="rollouts are missing and none of them may be tried again"
      return 0
    fi
  fi
  if ((gym_status == 0)); then
    gym_status=1
    gym_fail "the driver ended with exit status 0, but nothing proves that every rollout is recorded"
  fi
  gym_who
  [[ -e $GYM_JOB_DIR/.gym_cancelled || $gym_asker == @(cancel|person) ]]
}
