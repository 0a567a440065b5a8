# shellcheck shell=bash
# The job's own `gym`, made of a git repository: once for each commit and Python, in a folder beside the runs. Nobody waits for
# anybody: each job that finds none makes its own under another name, the first that is complete is published by a symbolic
# link, which is made in one step, and the second one takes that and removes what it made.

# Makes GYM_PROGRAM the program of driver.gym_install, before anything else of the job needs it. Returns 1 when there is none.
gym_install() {
  local log="logs/install-$gym_job_id.log" commit='' program='' version
  gym_event install_started repo "$GYM_INSTALL_REPO" ref "$GYM_INSTALL_REF"
  gym_watch install gym_become_install
  { { read -r commit && read -r program; } <"$gym_link/installed"; } 2>/dev/null
  if ((gym_status == 0)) && [[ -n $program ]]; then
    gym_status=1
    GYM_PROGRAM=$program
    version=$(gym_own_environment && "$GYM_PROGRAM" --version 2>/dev/null)
    gym_put "$gym_link/gym" "$version"
    gym_event install_ended status 0 commit "$commit" gym "$version"
    [[ -z $gym_asked ]]
    return
  fi
  gym_event install_ended status "$gym_status"
  if [[ -z $gym_asked ]]; then
    gym_own_words "$log"
    gym_fail "gym could not be installed${gym_words:+: $gym_words}; see $log"
    ((gym_status != 3)) || gym_install_hopeless
  fi
  gym_status=1
  return 1
}

# What a later job of the chain cannot find either ends the chain, reported as a driver reports it.
gym_install_hopeless() {
  gym_put "$gym_link/collected" $'state failed\nstatus 1\nexpected 0\nrecorded 0\nnew 0\nhopeless '"${gym_reason//$'\n'/ }"
}

# gym_become_install: sets gym_made, the folder of what is being made. The step ends with 0 and the commit and the program in the link's folder, with 3 when repository or ref do not exist, else 1.
gym_become_install() {
  local _key _python
  gym_made='' gym_commit=''
  gym_own_environment
  gym_child install
  gym_export driver "${GYM_DRIVER_ENV[@]}" || exit 1
  # Nothing may ask a person, and what git says is looked at.
  export LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_SSH_COMMAND="${GIT_SSH_COMMAND:-ssh -o BatchMode=yes}"
  unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
  command -v git >/dev/null || gym_give_up 1 "there is no git on this machine"
  # shellcheck disable=SC2016
  _python=$(python3 -I -c 'import platform as p; print("python" + p.python_version() + "-" + p.machine())') ||
    gym_give_up 1 "there is no python3 on this machine"
  gym_made="$GYM_INSTALL_FOLDER/by-$GYM_JOB-$GYM_BENCHMARK-${gym_link##*/}"
  if ! mkdir -p -- "$GYM_INSTALL_FOLDER" || ! mkdir -- "$gym_made"; then
    printf 'gym: the folder %s cannot be made\n' "$gym_made"
    exit 1
  fi
  trap 'gym_give_up 143 "the installation was stopped"' TERM
  gym_install_clone "$gym_made/source" "$gym_made/clone-errors"
  gym_install_resolve "$gym_made/source"
  gym_install_same_commit "$gym_commit"
  _key=$(printf '%s\n' "$GYM_INSTALL_REPO" "$gym_commit" "$_python" | sha256sum)
  _key="$GYM_INSTALL_FOLDER/installed-${gym_commit:0:12}-$_python-${_key:0:12}"
  if [[ -x $_key/env/bin/gym ]]; then
    echo "commit $gym_commit is installed in $_key already"
    rm -rf -- "$gym_made"
  else
    gym_install_make "$gym_commit"
    gym_install_publish "$gym_made" "$_key"
  fi
  gym_put "$gym_link/installed" "$gym_commit"$'\n'"$_key/env/bin/gym"
}

# gym_give_up STATUS SENTENCE: the end of the step, which removes gym_made and leaves nothing behind but its log.
gym_give_up() {
  printf 'gym: %s\n' "$2"
  [[ -z $gym_made ]] || rm -rf -- "$gym_made"
  exit "$1"
}

# gym_install_clone FOLDER ERRORS: git reports in words alone whether a repository is not there or cannot be reached now.
gym_install_clone() {
  local _absent='repository .*not (found|exist)|does not appear to be a git repository'
  echo "cloning $GYM_INSTALL_REPO"
  if ! git clone --no-checkout -- "$GYM_INSTALL_REPO" "$1" 2>"$2"; then
    cat -- "$2"
    if grep -qiE "$_absent" "$2"; then
      gym_give_up 3 "driver.gym_install.repo: there is no git repository $GYM_INSTALL_REPO"
    fi
    gym_give_up 1 "driver.gym_install.repo: $GYM_INSTALL_REPO could not be cloned"
  fi
  cat -- "$2"
}

# gym_install_resolve CLONE: sets gym_commit to what the ref names: a tag, else a branch, else a commit or its beginning.
gym_install_resolve() {
  local _name _hex='^[0-9a-f]{4,64}$'
  local -a _names=("refs/tags/$GYM_INSTALL_REF" "refs/remotes/origin/$GYM_INSTALL_REF")
  if [[ $GYM_INSTALL_REF =~ $_hex ]]; then
    _names+=("$GYM_INSTALL_REF")
    # a commit of no branch and no tag has to be asked for
    if ((${#GYM_INSTALL_REF} >= 40)) && ! git -C "$1" cat-file -e "$GYM_INSTALL_REF^{commit}" 2>/dev/null; then
      git -C "$1" fetch --quiet origin "$GYM_INSTALL_REF"
    fi
  fi
  for _name in "${_names[@]}"; do
    gym_commit=$(git -C "$1" rev-parse --quiet --verify "$_name^{commit}") && return 0
  done
  gym_give_up 3 "driver.gym_install.ref: $GYM_INSTALL_REPO has no tag, branch or commit $GYM_INSTALL_REF"
}

# gym_install_same_commit COMMIT: all jobs of a run use one commit, whatever becomes of a branch meanwhile.
gym_install_same_commit() {
  local _first=''
  gym_put "$gym_link/commit" "$1"
  ln -- "$gym_link/commit" "$GYM_JOB_DIR/.gym_installed_commit" 2>/dev/null && return 0
  # a file system without hard links
  [[ ! -e $GYM_JOB_DIR/.gym_installed_commit ]] && gym_create "$GYM_JOB_DIR/.gym_installed_commit" "$1" && return 0
  { read -r _first <"$GYM_JOB_DIR/.gym_installed_commit"; } 2>/dev/null
  [[ $_first == "$1" ]] ||
    gym_give_up 1 "driver.gym_install.ref: $GYM_INSTALL_REF was commit ${_first:-(unknown)} when this run began and is $1 now"
}

# gym_install_make COMMIT: in gym_made.
gym_install_make() {
  git -C "$gym_made/source" checkout --quiet --detach "$1" || gym_give_up 1 "commit $1 could not be checked out"
  python3 -I -m venv -- "$gym_made/env" || gym_give_up 1 "python3 -m venv failed"
  # isolated, so that PYTHONPATH does not replace what is needed; pip learns its indexes from PIP_… variables
  "$gym_made/env/bin/python" -I -m pip install --disable-pip-version-check --no-input "$gym_made/source" ||
    gym_give_up 1 "pip could not install commit $1"
  [[ -x $gym_made/env/bin/gym ]] || gym_give_up 1 "commit $1 brings no program gym"
}

# gym_install_publish FOLDER NAME
gym_install_publish() {
  if ln -sT -- "${1##*/}" "$2" 2>/dev/null; then
    echo "installed in $2"
  elif [[ -x $2/env/bin/gym ]]; then
    echo "another job was quicker; taking $2"
    rm -rf -- "$1"
  else
    gym_give_up 1 "$2 is there and holds no program gym; remove it"
  fi
}
