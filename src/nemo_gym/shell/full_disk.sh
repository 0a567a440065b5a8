# shellcheck shell=bash
# A disk that is full, or a quota that is used up: waited for, within a bound, and then reported without space for one byte more.
# What must be reported then has its space from the start, in two files in the folder of this run: `full_disk`, whose first word
# is `no`, `waiting` (and since when), `told` (by the driver: it has waited itself) or, at the end, how many jobs in a row
# ended so, then `about` and the id of the job of which nobody has decided yet what its end means, then `unqueued` where no
# successor could be queued; and `end.room`, which becomes the end marker.

# How long a job waits for disk space, in seconds.
: "${NEMO_GYM_FULL_DISK_SECONDS:=1800}"
gym_full_disk=''         # the disk stayed full, and this run ends for it
gym_awaiting_space=''
gym_full_disks_before=0  # so many jobs in a row before this one ended so
gym_undecided=''         # the job about whose end those have not decided: it is this one's to decide
gym_follows=''           # the job that this one follows
gym_handed=''            # the second argument of a successor, since it may be written nowhere

# gym_learn_full_disks PREDECESSOR HANDED: HANDED is what a job that had no space for a file has passed to its successor.
gym_learn_full_disks() {
  gym_follows=$1
  gym_newest_run "$gym_job_id" "$gym_restart"
  [[ -n $gym_found || -z $1 ]] || gym_newest_run "$1"
  gym_read_full_disks "${gym_found:-$gym_link}"
  if ((gym_number_of == 0)) && [[ $2 =~ ^full-disk:([0-9]{1,4}):([A-Za-z0-9_+-]*)$ ]]; then
    gym_number_of=$((10#${BASH_REMATCH[1]})) gym_about_of=${BASH_REMATCH[2]}
  fi
  gym_full_disks_before=$gym_number_of gym_undecided=$gym_about_of
}

# gym_read_full_disks FOLDER: sets gym_number_of to how many jobs in a row, that run the last, ended for a full disk, and
# gym_about_of to the job of which they have not decided what its end means.
gym_read_full_disks() {
  gym_number_of=0 gym_about_of=''
  gym_one "$1/full_disk"
  if [[ $gym_value =~ ^([0-9]{1,4})(\ about\ ([A-Za-z0-9_+-]{1,30}))?(\ unqueued)?\ *$ ]]; then
    gym_number_of=$((10#${BASH_REMATCH[1]})) gym_about_of=${BASH_REMATCH[3]}
  fi
}

# gym_reserve_space FOLDER: the space for the end record, unless the maker of the folder has reserved it.
gym_reserve_space() {
  local no='' space=''
  printf -v no '%-63s' no
  printf -v space '%-2047s' ''
  [[ -e $1/full_disk ]] || gym_put "$1/full_disk" "$no"
  [[ -e $1/end.room ]] || gym_put "$1/end.room" "$space"
}

# gym_overwrite FILE LENGTH TEXT: in the space that the file has already.
gym_overwrite() {
  local LC_ALL=C
  [[ -f $1 ]] || return 1
  { printf "%-$2.$2s\n" "$3" 1<>"$1"; } 2>/dev/null
}

# gym_is_full: whether nothing more can be written beside the files of the job. Written through to the disk: a quota of a
# network file system is heard of then.
gym_is_full() {
  local file="$GYM_JOB_DIR/.gym_room.$gym_job_id.$gym_restart" said full=1
  if ! said=$(LC_ALL=C dd if=/dev/zero of="$file" bs=65536 count=1 conv=fsync 2>&1); then
    [[ $said != *'No space left on device'* && $said != *'quota exceeded'* ]] || full=0
  fi
  rm -f -- "$file"
  return "$full"
}

# gym_await_space: after something could not be written. Returns 0 when there is space now, 1 when the disk was not the cause, or
# somebody asked for a stop meanwhile. In the script itself, it does not return when the disk stays full.
gym_await_space() {
  local until since due=${gym_chain_due-} now full=''
  [[ -z $gym_awaiting_space && -z $gym_full_disk && -z $gym_asked ]] || return 1
  gym_is_full || return 1
  # What the chain does meanwhile would have to be written down as well.
  gym_awaiting_space=yes gym_chain_due=''
  gym_look_at_clock
  since=$gym_clock until=$((gym_clock + NEMO_GYM_FULL_DISK_SECONDS))
  printf -v now '%(%s)T' -1
  gym_overwrite "$gym_link/full_disk" 63 "waiting $now"
  gym_say "the disk of $GYM_JOB_DIR is full, or a quota is used up; waiting up to $NEMO_GYM_FULL_DISK_SECONDS s for disk space"
  while gym_is_full && gym_is_before "$until" && [[ -z $gym_asked && ! -e $GYM_JOB_DIR/.gym_cancelled ]]; do
    gym_wait_a_second "$until"
  done
  ! gym_is_full || full=yes
  gym_awaiting_space=''
  [[ -z $due ]] || gym_chain_later
  gym_look_at_clock
  if [[ -z $full ]]; then
    gym_overwrite "$gym_link/full_disk" 63 no
    gym_say "there is disk space again after $((gym_clock - since)) s"
    gym_event room_awaited seconds "$((gym_clock - since))"
    return 0
  elif [[ -z $gym_asked && $BASHPID == "$$" ]]; then
    gym_leave_full_disk
  fi
  return 1
}

# gym_wait_a_second UNTIL: and not beyond that second of the script.
gym_wait_a_second() {
  local until
  gym_look_at_clock
  until=$((gym_clock + 1))
  ((until <= $1)) || until=$1
  gym_tick
  while gym_is_before "$until" && [[ -z $gym_asked ]]; do
    gym_tick
  done
}

# Before something starts that writes.
gym_require_space() {
  ! gym_is_full || gym_await_space
}

# gym_with_space COMMAND…: a command of the job's own that writes; tried again once there is space.
gym_with_space() {
  until "$@"; do
    gym_await_space || return 1
  done
}

# Ends the job at once, wherever the script is.
gym_leave_full_disk() {
  local pid
  gym_full_disk=yes
  gym_stop_collector
  gym_stop_services
  for pid in "${gym_step_pids[@]}"; do
    gym_end_step "$pid"
  done
  gym_end
}

# gym_see_full_disk: whether the disk is to blame for what failed: then nothing of the user's is.
gym_see_full_disk() {
  # what the driver knows for certain does not depend on free space
  if gym_read_collected "$gym_link" && { [[ -n $gym_c_hopeless ]] || ((gym_c_status == 0 || gym_c_status == 76)); }; then
    return 1
  fi
  if [[ -z $gym_full_disk ]]; then
    [[ -z $gym_asked && $gym_outcome != decided ]] && ((gym_status != 0)) || return 1
    gym_one "$gym_link/full_disk"
    [[ $gym_value == told* ]] || gym_is_full || return 1
    gym_full_disk=yes
  fi
  gym_status=1 gym_outcome=full_disk
  gym_reason="the disk of $GYM_JOB_DIR stayed full, or a quota used up${gym_reason:+ ($gym_reason)}"
}

# Writes down that the disk ended this run, and sees to it that somebody goes on, unless that has failed too often.
gym_end_full_disk() {
  local number=$((gym_full_disks_before + 1)) about=''
  gym_chain_due=''
  gym_one "$gym_link/decision"
  [[ -n $gym_value ]] || about=${gym_undecided:-$gym_follows}
  gym_overwrite "$gym_link/full_disk" 63 "$number${about:+ about $about}"
  [[ -n $GYM_RESUMABLE && ! -e $GYM_JOB_DIR/.gym_cancelled ]] || return 0
  gym_one "$gym_link/queued"
  if ((number >= gym_full_disks_allowed)); then
    gym_reason="the disk stayed full in $number jobs in a row; free disk space, then resubmit the benchmark"
    [[ -z $gym_value ]] || gym_chain_drop "$gym_value"
  elif [[ -z $gym_value ]] || gym_is_gone "$gym_value"; then
    gym_overwrite "$gym_link/full_disk" 63 "$number${about:+ about $about} unqueued"
    gym_handed="full-disk:$number:$about"
    gym_next='' gym_queue_error=''
    if gym_queue_next && [[ -n $gym_next ]]; then
      gym_try_put "$gym_link/queued" "$gym_next" 2>/dev/null
      gym_overwrite "$gym_link/full_disk" 63 "$number${about:+ about $about}"
      gym_event successor_queued successor "${gym_next%%;*}"
      gym_say "job ${gym_next%%;*} is queued and continues once there is disk space"
    else
      gym_tell_refusal "${gym_queue_error:-no reason was given}"
    fi
  fi
}

# gym_put_end TEXT: the end marker.
gym_put_end() {
  if gym_put "$gym_link/end" "$1"; then
    rm -f -- "$gym_link/end.room"
  elif gym_overwrite "$gym_link/end.room" 2047 "$1"; then
    mv -f -- "$gym_link/end.room" "$gym_link/end"
  fi
}
