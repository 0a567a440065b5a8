# shellcheck shell=bash
# How the steps of a job of Slurm run: the lines of the cluster's own setup, and containers.

# Shell lines of the cluster's configuration, once, in this shell: what they change holds for all steps. Sets
# gym_setup_status. Not called as part of a condition, where their own `set -e` would mean nothing.
gym_setup() {
  [[ -n $GYM_SETUP ]] || return 0
  # Nothing in a trap's function may come before `set +e`: bash 5.2 loses its place otherwise.
  trap 'gym_setup_status=$?; trap - EXIT; set +e -u; gym_setup_left' EXIT
  set +u
  gym_init_modules
  eval "$GYM_SETUP"
  gym_setup_status=$?
  set +e -u
  trap - EXIT
  if ((gym_setup_status != 0)); then
    gym_fail "the lines of compute.setup ended with exit status $gym_setup_status; their output is above"
  fi
}

# Called when the lines of setup left the script.
gym_setup_left() {
  gym_fail "the lines of compute.setup left the job with exit status $gym_setup_status; their output is above"
  gym_end
}

# A job script is not a login shell: the command `module` may have to be made known.
gym_init_modules() {
  local _file
  for _file in "${MODULESHOME:+$MODULESHOME/init/bash}" "${LMOD_PKG:+$LMOD_PKG/init/bash}" \
    /etc/profile.d/modules.sh /etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh /etc/profile.d/z01_lmod.sh \
    /usr/share/lmod/lmod/init/bash /usr/share/modules/init/bash; do
    if declare -F module >/dev/null; then
      return 0
    fi
    # shellcheck disable=SC1090  # which of them there is, the site decides
    [[ -n $_file && -r $_file ]] && . "$_file"
  done
  return 0
}

# gym_run_step NAME COMMAND…: becomes the step, in its container if it has one. Called in a subshell whose environment
# is complete. NAME is a service's name, otel_collector, prepare, driver, or :step for a small program of ours.
gym_run_step() {
  local _name=$1 _mark=''
  shift
  gym_find_container "$_name"
  if [[ -n $gym_image && $GYM_RUNTIME == apptainer ]]; then
    gym_put_into_apptainer "$@"
    set -- "${gym_contained[@]}"
    gym_image=''
  fi
  if [[ -z $gym_image && -n ${gym_at:-} ]]; then
    exec srun --overlap --nodes=1 --ntasks=1 "--nodelist=$gym_at" --cpu-bind=none --export=ALL -- "$@"
  elif [[ -z $gym_image ]]; then
    exec -- "$@"
  fi
  if [[ $_name == driver || $_name == prepare ]]; then
    _mark="$gym_link/began-$_name"
  fi
  gym_become_srun "$_mark" "$@"
}

# gym_find_container NAME: sets gym_image to the image of a step, '' where it has none, and gym_mounts.
gym_find_container() {
  local _index
  gym_image='' gym_mounts=()
  case $1 in
    driver | prepare | :step)
      gym_image=$GYM_DRIVER_IMAGE
      gym_mounts=("${GYM_DRIVER_MOUNTS[@]}")
      ;;
    otel_collector)
      gym_image=$GYM_OTEL_IMAGE
      gym_mounts=("${GYM_OTEL_MOUNTS[@]}")
      ;;
    *)
      for _index in "${!GYM_SERVICE_NAMES[@]}"; do
        [[ ${GYM_SERVICE_NAMES[_index]} == "$1" ]] || continue
        local -n _its_image="GYM_SERVICE_${_index}_IMAGE" _its_mounts="GYM_SERVICE_${_index}_MOUNTS"
        gym_image=$_its_image
        gym_mounts=("${_its_mounts[@]}")
      done
      ;;
  esac
}

# gym_find_hosts: sets gym_hosts to the names of the allocation's nodes, of which this one is the first, and
# gym_addresses to where Slurm itself reaches them: a node's name need not be one that resolves.
gym_find_hosts() {
  local answer line name address host
  local -A known=()
  if ! answer=$(gym_slurm_aloud scontrol show hostnames "$SLURM_JOB_NODELIST"); then
    gym_fail "the names of this job's nodes could not be had: $answer"
    return 1
  fi
  mapfile -t gym_hosts <<<"$answer"
  if ! answer=$(gym_slurm_aloud scontrol -o show node "$SLURM_JOB_NODELIST"); then
    gym_fail "the addresses of this job's nodes could not be had: $answer"
    return 1
  fi
  while read -r line; do
    name=${line#*NodeName=} address=${line#*NodeAddr=}
    known[${name%% *}]=${address%% *}
  done <<<"$answer"
  gym_addresses=()
  for host in "${gym_hosts[@]}"; do
    gym_addresses+=("${known[$host]:-$host}")
  done
}

# gym_put_into_apptainer COMMAND…: sets gym_contained to a command that runs it. The container is of gym_image, and
# has gym_mounts.
gym_put_into_apptainer() {
  local _mount
  local -a _binds=()
  for _mount in "${gym_mounts[@]}"; do
    _binds+=(--bind "$_mount")
  done
  gym_contained=(apptainer exec --nv "${_binds[@]}" "$gym_image" "$@")
}

# gym_become_srun MARK COMMAND…: a step of Slurm with the options of Pyxis, in gym_image, with gym_mounts. It may use
# all CPUs of the job, and what its image sets in the environment gives way to what was asked for. srun ends with 0
# also when the container could not be made (22.05): the driver leaves the file MARK where that is not empty. It
# ignores an early signal until it handles it, as without a container.
gym_become_srun() {
  # shellcheck disable=SC2016  # for the shell in the container
  local IFS=, _begin='trap "" USR1; [ -z "$1" ] || : >"$1"; shift; exec "$@"'
  local -a _options=(--overlap --nodes=1 --ntasks=1 "--nodelist=${gym_at:-$SLURMD_NODENAME}" --cpu-bind=none --export=ALL)
  _options+=(--no-container-mount-home "--container-image=$gym_image")
  if ((${#gym_mounts[@]})); then
    _options+=("--container-mounts=${gym_mounts[*]}")
  fi
  if ((${#gym_exported[@]})); then
    _options+=("--container-env=${gym_exported[*]}")
  fi
  exec srun "${_options[@]}" -- sh -c "$_begin" sh "$@"
}

# gym_step_ran NAME: whether a step that ended with 0 has run at all.
gym_step_ran() {
  [[ $GYM_RUNTIME != pyxis || -z $GYM_DRIVER_IMAGE || -e $gym_link/began-$1 ]]
}
