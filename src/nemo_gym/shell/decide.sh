# shellcheck shell=bash
# Whether a chain goes on, by the order of witnesses that `gym job status` follows too (nemo_gym/chain/run_end.py). A test
# feeds this and a model of it in Python with the same cases. Nothing here acts or asks; the table of states is the file
# states.tsv, which Python reads too.
#
# What is known about the run before is in gym_p_*: gym_p_first (there is none), gym_p_marker (it left an end record),
# gym_p_complete, gym_p_status, gym_p_asked (nobody, early, cancel, term, person), gym_p_hopeless, gym_p_cancelled (the tombstone
# of `gym job cancel` is there), gym_p_same (an earlier run of this very job), each empty for no, gym_p_full_disks: so
# many jobs in a row, that one the last, ended because their disk stayed full, gym_p_undecided (those had not decided: all
# else is about the run before them), and gym_p_owner: number of the user who
# owns the jobs, empty when it is not known. What the chain has used
# is in gym_spent_retries, gym_spent_walltime (seconds) and gym_spent_idle; its limits in GYM_MAX_RETRIES,
# GYM_MAX_WALLTIME (seconds) and GYM_MAX_LINKS_WITHOUT_PROGRESS, empty for none; gym_rows are recorded, and GYM_RESUMES is
# empty where a job refuses to go on with them (resume_from_cache is false).

# How often a state that is not visible yet is looked up: with ten seconds in between, for about a minute.
gym_looks_allowed=6
# How many jobs in a row may end because their disk stayed full.
gym_full_disks_allowed=10

# gym_read_state TEXT: what a scheduler's text says. Sets gym_s_name (empty: nothing), gym_s_meaning, gym_s_reason,
# gym_s_author and gym_s_known.
gym_read_state() {
  local LC_ALL=C text=$1 name cut row_name row_meaning row_reason beginnings=0 form='^([A-Z_]+)(\+?)( by ([0-9]+))?$'
  text=${text#"${text%%[![:space:]]*}"}
  text=${text%"${text##*[![:space:]]}"}
  gym_s_name=$text gym_s_meaning='' gym_s_reason='' gym_s_author='' gym_s_known=yes
  [[ -n $text ]] || return 0
  if [[ $text =~ $form ]]; then
    name=${BASH_REMATCH[1]} cut=${BASH_REMATCH[2]} gym_s_author=${BASH_REMATCH[4]}
    while IFS=$'\t' read -r row_name row_meaning row_reason; do
      [[ -n $row_name && $row_name != '#'* ]] || continue
      if [[ $row_name == "$name" ]]; then
        gym_s_name=$row_name gym_s_meaning=$row_meaning gym_s_reason=$row_reason beginnings=1
        break
      elif [[ -n $cut && $row_name == "$name"* && $row_meaning != "$gym_s_meaning" ]]; then
        ((++beginnings))
        gym_s_name=$row_name gym_s_meaning=$row_meaning gym_s_reason=$row_reason
      fi
    done <"$GYM_SEALED/states.tsv"
  fi
  if ((beginnings != 1)); then
    gym_s_name=$text gym_s_meaning=other gym_s_reason='a state that is not in the table' gym_s_author='' gym_s_known=''
  elif [[ -n $gym_s_author ]]; then
    gym_s_author=$((10#$gym_s_author))
  fi
}

# gym_look_again LOOKS: whether to ask the scheduler once more after so many looks. Nothing is gained by it when the
# end record or the tombstone has decided already.
gym_look_again() {
  (($1 < gym_looks_allowed)) || return 1
  [[ -z $gym_p_same && -z $gym_p_cancelled && -z $gym_p_complete ]] || return 1
  [[ -z $gym_s_name || $gym_s_meaning == lag ]]
}

# gym_decide: sets gym_action (go_on, stop, fail), gym_fate (what becomes of the chain), gym_counts (yes: one retry is
# counted) and gym_why, from everything above. gym_read_state comes first.
gym_decide() {
  gym_counts=''
  if [[ -n $gym_p_first && -z $gym_p_cancelled ]]; then
    gym_rule go_on running "the first job of its chain"
    return
  fi
  gym_decide_final || gym_decide_last_word || gym_decide_by_scheduler
  [[ $gym_action != go_on ]] || gym_hold_against_budgets
}

# gym_rule ACTION FATE WHY: sets gym_action, gym_fate and gym_why.
gym_rule() {
  gym_action=$1 gym_fate=$2 gym_why=$3
}

# Proof of completeness and a cancellation: nothing outranks them.
gym_decide_final() {
  if [[ -n $gym_p_complete ]]; then
    gym_rule stop succeeded "every rollout is recorded"
  elif [[ -n $gym_p_cancelled || $gym_p_asked == cancel ]]; then
    gym_rule stop cancelled "the chain was cancelled"
  elif [[ -z $gym_p_same && $gym_s_meaning == cancelled ]]; then
    gym_name_author
    gym_rule stop cancelled "the job before was cancelled${gym_by:+ by $gym_by}"
  else
    return 1
  fi
}

# gym_name_author: sets gym_by to who cancelled the job before, and gym_stranger to yes where that was not its owner.
gym_name_author() {
  gym_by=${gym_s_author:+user $gym_s_author} gym_stranger=''
  [[ -n $gym_s_author && $gym_s_author != "$gym_p_owner" ]] || return 0
  if ((gym_s_author == 0)); then
    gym_by+=" (an administrator, or Slurm itself)" gym_stranger=yes
  elif [[ -n $gym_p_owner ]]; then
    gym_by+=" (not its owner, user $gym_p_owner)" gym_stranger=yes
  fi
}

# What the job before said itself, where that outranks the scheduler's other states.
gym_decide_last_word() {
  [[ -n $gym_p_marker ]] || return 1
  if [[ -n $gym_p_hopeless ]]; then
    gym_rule fail failed "no retry can help: $gym_p_hopeless"
  elif ((gym_p_status == 76)); then
    gym_rule fail failed "rollouts are missing and none of them may be tried again"
  elif [[ $gym_p_asked == person ]]; then
    gym_rule stop stopped "a person asked the job before to drain"
  elif ((${gym_p_full_disks:-0} >= gym_full_disks_allowed)); then
    gym_rule fail failed "the disk stayed full in $gym_p_full_disks jobs in a row; free disk space, then resubmit the benchmark"
  elif ((${gym_p_full_disks:-0})) && [[ -z ${gym_p_undecided-} ]]; then
    gym_rule go_on running "the job before ended because its disk stayed full"
  elif ((gym_p_status == 75)) && [[ $gym_p_asked == early ]]; then
    gym_rule go_on running "the job before drained ahead of its time limit"
  else
    return 1
  fi
}

gym_decide_by_scheduler() {
  if [[ -n $gym_p_same ]]; then
    gym_rule go_on running "the scheduler put this job back into its queue"
  elif [[ -z $gym_s_name || $gym_s_meaning == lag ]]; then
    gym_rule go_on running "nobody saw how the job before ended"
  elif [[ $gym_s_meaning == complete ]]; then
    gym_rule stop failed "the scheduler says COMPLETED of the job before, but nothing proves that every rollout is recorded"
  else
    gym_rule go_on running "the job before ended as $gym_s_name ($gym_s_reason)"
    [[ $gym_s_meaning != other ]] || gym_counts=yes
  fi
}

# The walltime cap applies after a time limit or a drain before it, a preemption, a lost node or a full disk.
gym_hold_against_budgets() {
  local cap=$GYM_MAX_WALLTIME limit=$GYM_MAX_LINKS_WITHOUT_PROGRESS used
  if [[ -z $GYM_RESUMES ]] && ((gym_rows > 0)); then
    gym_counts=''
    gym_rule fail failed "$gym_why, and no retry can help: resume_from_cache is false, and rollouts are recorded"
  elif [[ -n $cap ]] && ((gym_spent_walltime >= cap)) && gym_ran_out_of_time; then
    gym_counts=''
    gym_format_duration "$gym_spent_walltime"
    used=$gym_duration
    gym_format_duration "$cap"
    gym_rule stop stopped "$gym_why, and $used of walltime are used (max_walltime is $gym_duration)"
  elif [[ -n $gym_counts ]] && ((gym_spent_retries >= GYM_MAX_RETRIES)); then
    gym_counts='' # what is not granted is not a retry
    gym_rule fail failed "$gym_why, and max_retries ($GYM_MAX_RETRIES) are used up"
  elif [[ -n $limit ]] && ((gym_spent_idle >= limit)); then
    gym_counts=''
    used="$gym_spent_idle jobs in a row recorded nothing new"
    ((gym_spent_idle != 1)) || used="1 job recorded nothing new"
    gym_rule fail failed "$gym_why, and $used (max_links_without_progress is $limit)"
  fi
}

gym_ran_out_of_time() {
  [[ -n $gym_p_same || $gym_s_meaning == infrastructure ]] || ((${gym_p_full_disks:-0})) || [[ -n $gym_p_marker && $gym_p_asked == early ]]
}

# gym_format_duration SECONDS: sets gym_duration to HH:MM:SS, from one day on D-HH:MM:SS.
gym_format_duration() {
  local days=$(($1 / 86400)) rest=$(($1 % 86400))
  printf -v gym_duration '%02d:%02d:%02d' $((rest / 3600)) $((rest / 60 % 60)) $((rest % 60))
  ((days == 0)) || gym_duration="$days-$gym_duration"
}
