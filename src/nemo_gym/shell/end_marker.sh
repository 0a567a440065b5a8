# shellcheck shell=bash
# The job from its first line to its end record.

# gym_main [PREDECESSOR [HANDED]]: the id of the job that this one follows in its chain, and what that could write nowhere.
gym_main() {
  gym_identify
  gym_learn_full_disks "${1-}" "${2-}"
  gym_make_key
  gym_take_token
  gym_claim_link
  if [[ -z $GYM_RESUMABLE ]] || gym_chain_prologue "${1-}"; then
    gym_work
    gym_stop_collector
    gym_stop_services
  fi
  gym_end
}

# The folder of this run of the job. One that is there already belongs to an earlier run, however the scheduler counts,
# unless the process that started this script has made it already.
gym_claim_link() {
  local now version
  gym_with_space mkdir -p -- "${gym_link%/*}" logs
  if [[ ! -d $gym_link || -e $gym_link/started ]]; then
    until mkdir -- "$gym_link" 2>/dev/null; do
      if [[ ! -d $gym_link ]]; then
        gym_await_space && continue
        gym_say "the folder $gym_link cannot be made"
        exit 1
      fi
      ((++gym_restart))
      gym_link="${gym_link%.*}.$gym_restart"
    done
  fi
  printf -v now '%(%s)T' -1
  gym_put "$gym_link/started" "$now"
  gym_reserve_space "$gym_link"
  [[ -z ${GYM_WALLTIME-} ]] || gym_put "$gym_link/walltime" "$GYM_WALLTIME"
  version=''
  # one that is still to be installed says it then
  [[ -n ${GYM_INSTALL_REPO-} ]] || version=$(gym_own_environment && "$GYM_PROGRAM" --version 2>/dev/null)
  gym_put "$gym_link/gym" "$version"
  gym_event job_started gym "$version"
}

gym_work() {
  [[ -z $gym_asked ]] || return
  gym_setup
  ((gym_setup_status == 0)) || return
  if [[ -n ${GYM_INSTALL_REPO-} ]]; then
    gym_install || return
  fi
  gym_prepare && gym_choose_ports && gym_start_collector || return
  gym_start_services
  gym_await_services || return
  if [[ -z $gym_asked ]]; then
    gym_drive
    gym_last_scrape
  fi
}

# The end marker: what happened, the exit status and who asked, then a sentence. The exit status is the driver's.
gym_end() {
  local who by
  gym_who
  who=$gym_asker by=$who
  if [[ $who == person ]]; then
    gym_person
    by=$gym_asker_name
  fi
  if [[ -n $gym_dead ]]; then
    gym_status=1
  elif [[ -n $gym_asked && $gym_outcome == failed ]]; then
    gym_status=75
    gym_fail "asked to stop ($by) before the driver had started"
  elif [[ $who == person && $gym_status == 75 ]]; then
    gym_fail "drained at the request of $by; everything recorded is kept"
  elif [[ -n $gym_asked && $gym_status == 75 ]]; then
    gym_fail "asked to stop ($who); the driver saved what was done and left with work to do (exit status 75)"
  elif ((gym_status != 0)); then
    gym_own_words "logs/driver-$gym_job_id.log"
    gym_reason=${gym_reason:-"the driver ended with exit status $gym_status${gym_words:+: $gym_words}; see $GYM_JOB_DIR/logs/driver-$gym_job_id.log"}
  fi
  if [[ $gym_outcome != service_died && $gym_outcome != decided ]]; then
    case $gym_asked in
      drain) gym_outcome=drained ;;
      stop) gym_outcome=stopped ;;
    esac
  fi
  if gym_see_full_disk; then
    gym_end_full_disk
  else
    gym_chain_epilogue
  fi
  gym_put_end "$gym_outcome $gym_status $who"$'\n'"$gym_reason"
  gym_event job_ended outcome "$gym_outcome" status "$gym_status" asked "$who"
  [[ -z ${GYM_NOTIFY-} ]] || gym_notify end
  exit "$gym_status"
}
