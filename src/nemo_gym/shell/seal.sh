# shellcheck shell=bash
# A part of job.sh itself, which reads everything else: a job does what was queued, whatever was done to its folder since. The
# files lie in a folder that is named by their content, so nothing has a reason to write there; where they are changed all
# the same, or gone, the job ends at once and says so: what it would do is not what was asked for, and no retry helps.

# gym_check_seal [PREDECESSOR]: ends the job unless everything is as it was queued. A file that is being replaced, or cannot
# be read for a moment, is looked at again.
gym_check_seal() {
  local look
  gym_differing=''
  for look in 1 2 3; do
    ((look == 1)) || sleep 2
    command -v sha256sum >/dev/null && gym_find_differing && gym_tell_changed_data && return 0
  done
  if [[ -n $gym_differing ]]; then
    gym_end_unsealed "${1-}" "$gym_differing"
  fi
  printf 'gym job: warning: it is not known whether %s is as it was queued; continuing\n' "$GYM_SEALED" >&2
}

# gym_find_differing: sets gym_differing to the names of what is not as it was queued; fails where there is something, or
# that cannot be known.
gym_find_differing() {
  local status
  gym_differing='' gym_digest=$GYM_SCRIPT
  # the script of a scheduler that copies it is the one that was queued
  [[ $GYM_SCHEDULER != local ]] || gym_digest_script "$0"
  if [[ $gym_digest != "$GYM_SCRIPT" ]]; then
    gym_differing=$0
    return 1
  elif [[ ! -d $GYM_SEALED ]]; then
    gym_differing=$GYM_SEALED
    return 1
  fi
  gym_compare "$GYM_SEALED" "${GYM_SEALED#"$GYM_JOB_DIR/"}/" "$GYM_SEALED_FILES"
  status=$?
  gym_compare "$GYM_JOB_DIR" '' "$GYM_INPUT_FILES" && return "$status"
}

# gym_compare FOLDER SHOWN LINES: adds to gym_differing the names, behind SHOWN, of the files whose digest is not that of LINES;
# fails when there is one, or that cannot be known.
gym_compare() {
  local said status line
  [[ -n $3 ]] || return 0
  said=$(cd -- "$1" && printf '%s\n' "$3" | LC_ALL=C sha256sum --check --quiet 2>/dev/null)
  status=$?
  while IFS= read -r line; do
    [[ $line != *': FAILED'* ]] || gym_differing+="${gym_differing:+, }$2${line%: FAILED*}"
  done < <(printf '%s\n' "$said")
  return "$status"
}

# Data that stays where it is belongs to others, who may change it: a job that reads something else reports it.
gym_tell_changed_data() {
  gym_differing=''
  gym_compare / '' "$GYM_DATA_FILES" || [[ -z $gym_differing ]] ||
    printf 'gym job: warning: changed since this job was queued: %s; it reads what is there now\n' "$gym_differing" >&2
}

# gym_digest_script FILE: sets gym_digest to the digest of a job script without what is not sealed in it: the values of secrets.
gym_digest_script() {
  gym_digest=$({ LC_ALL=C sed '/^# Not sealed:/,/^# Sealed again\.$/d' <"$1"; } 2>/dev/null | sha256sum)
  gym_digest=${gym_digest%% *}
}

# gym_end_unsealed PREDECESSOR NAMES: the end of the chain and of this job, recorded in the folder of this run.
gym_end_unsealed() {
  local id restart link now at reason
  reason="$2: not as it was when this job was queued; put it back as it was and resubmit the benchmark, or submit the run that is wanted"
  printf 'gym job: the chain ends here: %s\n' "$reason" >&2
  if [[ $GYM_SCHEDULER == slurm ]]; then
    id=$SLURM_JOB_ID restart=${SLURM_RESTART_COUNT:-0}
  else
    id=$NEMO_GYM_JOB_ID restart=$NEMO_GYM_RESTART
  fi
  while link="$GYM_JOB_DIR/links/$id.$restart" && [[ -e $link/started ]]; do
    ((++restart))
  done
  printf -v now '%(%s)T' -1
  TZ=UTC printf -v at '%(%Y-%m-%dT%H:%M:%S)T.000Z' "$now"
  mkdir -p -- "$link"
  printf '%s\n' "$1" >"$link/predecessor"
  printf '%s\n' "$now" >"$link/started"
  printf '%s\n' 'fail failed' "$reason" 'scheduler= source= seal=broken' >"$link/decision"
  printf '%s\n' 'decided 1 none' "$reason" >"$link/end"
  printf '{"at":"%s","event":"job_ended","job_id":"%s","restart":%s,"outcome":"decided","status":1,"asked":"none"}\n' \
    "$at" "$id" "$restart" >>"$GYM_JOB_DIR/.gym_events.jsonl"
  exit 1
}
