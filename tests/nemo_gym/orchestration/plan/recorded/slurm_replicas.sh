#!/usr/bin/env bash
#SBATCH --job-name=gym-arithmetic
#SBATCH --account=physics
#SBATCH --signal=B:USR1@120
#SBATCH --no-requeue
# Job script of one benchmark, written by `gym eval submit`. It may hold secret values: keep it to its owner.
# shellcheck source-path=SCRIPTDIR disable=SC1003,SC1112,SC2016,SC2034
# (quoted values may look like anything, and some are read by name in shell/services.sh)
trap 'gym_asked=${gym_asked:-drain}' USR1
trap 'gym_asked=stop' TERM

GYM_JOB='gym-job-20270115T080000Z-00abcd'
GYM_BENCHMARK='arithmetic'
GYM_JOB_DIR='/runs/gym-job-20270115T080000Z-00abcd/arithmetic'
GYM_PROGRAM='/opt/gym/bin/gym'
GYM_KEEPS=''
GYM_WALLTIME='3600'
GYM_DRAIN_LEAD=''
GYM_RESUMABLE=''
GYM_MAX_RETRIES='3'
GYM_MAX_WALLTIME=''
GYM_MAX_LINKS_WITHOUT_PROGRESS=''
GYM_RESUMES='yes'
GYM_DRIVER_ENV=(
  'JUDGE_KEY'
  'secret'
  'JUDGE_KEY'
  'LOUD'
  'lit'
  'a  b'\''s "c" $(touch pwned) `d` ${e} *;
'\''; echo pwned #\'
  'TOKEN'
  'secret'
  'MY_HF_TOKEN'
)
GYM_PREPARE=''
GYM_PREPARE_ARGS=(
  '--config'
  '/runs/gym-job-20270115T080000Z-00abcd/arithmetic/sealed/ce4a2579fa8d6ba8/run.yaml'
)
GYM_COMMAND=''
GYM_POLICY='0'
GYM_POLICY_HOST='localhost'
GYM_POLICY_ARGS=(
  '+policy_model_name="org/model"'
  '+policy_service_name="policy"'
)
GYM_OTEL_BINARY=''
GYM_OTEL_TOKEN_ENV=''
GYM_OTEL_TIMEOUT=''
GYM_OTEL_PAUSE=''
GYM_SERVICE_NAMES=(
  'policy-0'
  'policy-0-node-1'
  'policy-1'
  'policy-1-node-1'
  'judge-0'
  'judge-1'
)
GYM_SERVICE_PORTS=(
  '0'
  '0'
  '0'
  '0'
  '0'
  '0'
)
GYM_SERVICE_HEALTH_PORTS=(
  '0'
  '0'
  '0'
  '0'
  '0'
  '0'
)
GYM_SERVICE_MODELS=(
  'org/model'
  'org/model'
  'org/model'
  'org/model'
  'org/model'
  'org/model'
)
GYM_SERVICE_PATHS=(
  '/health'
  ''
  '/health'
  ''
  '/health'
  '/health'
)
GYM_SERVICE_TIMEOUTS=(
  '900'
  '900'
  '900'
  '900'
  '900'
  '900'
)
GYM_SERVICE_OF=(
  'policy'
  'policy'
  'policy'
  'policy'
  'judge'
  'judge'
)
GYM_SERVICE_PLACES=(
  '0'
  '1'
  '2'
  '3'
  '0'
  '0'
)
GYM_SERVICE_HEADS=(
  '0'
  '0'
  '2'
  '2'
  '4'
  '5'
)
GYM_SERVICE_REPLICAS=(
  '0'
  '0'
  '1'
  '1'
  '0'
  '1'
)
GYM_SERVICE_FIRST_GPUS=(
  ''
  ''
  ''
  ''
  '0'
  '1'
)
GYM_SERVICE_GPUS=(
  '4'
  '4'
  '4'
  '4'
  '1'
  '1'
)
GYM_SETUP='module load cuda
export IT='\''s'\'''
GYM_KILL_ON_INVALID_DEP='yes'
GYM_QUEUE_FROM='job'
GYM_RUNTIME='none'
GYM_DRIVER_IMAGE=''
GYM_DRIVER_MOUNTS=()
GYM_OTEL_IMAGE=''
GYM_OTEL_MOUNTS=()

GYM_SERVICE_0_ENV=(
  'HF_TOKEN'
  'secret'
  'MY_HF_TOKEN'
  'HF_HOME'
  'runtime'
  'SCRATCH'
)
GYM_SERVICE_0_ARGV=(
  'vllm'
  'serve'
  'm'
  '--port'
  '{port}'
  '--master-addr'
  '{head}'
  '--master-port'
  '{rpc_port}'
)
GYM_SERVICE_0_SHELL=''
GYM_SERVICE_0_PRE=''
GYM_SERVICE_0_IMAGE=''
GYM_SERVICE_0_MOUNTS=()

GYM_SERVICE_1_ENV=(
  'HF_TOKEN'
  'secret'
  'MY_HF_TOKEN'
  'HF_HOME'
  'runtime'
  'SCRATCH'
)
GYM_SERVICE_1_ARGV=(
  'vllm'
  'serve'
  'm'
  '--port'
  '{port}'
  '--master-addr'
  '{head}'
  '--master-port'
  '{rpc_port}'
)
GYM_SERVICE_1_SHELL=''
GYM_SERVICE_1_PRE=''
GYM_SERVICE_1_IMAGE=''
GYM_SERVICE_1_MOUNTS=()

GYM_SERVICE_2_ENV=(
  'HF_TOKEN'
  'secret'
  'MY_HF_TOKEN'
  'HF_HOME'
  'runtime'
  'SCRATCH'
)
GYM_SERVICE_2_ARGV=(
  'vllm'
  'serve'
  'm'
  '--port'
  '{port}'
  '--master-addr'
  '{head}'
  '--master-port'
  '{rpc_port}'
)
GYM_SERVICE_2_SHELL=''
GYM_SERVICE_2_PRE=''
GYM_SERVICE_2_IMAGE=''
GYM_SERVICE_2_MOUNTS=()

GYM_SERVICE_3_ENV=(
  'HF_TOKEN'
  'secret'
  'MY_HF_TOKEN'
  'HF_HOME'
  'runtime'
  'SCRATCH'
)
GYM_SERVICE_3_ARGV=(
  'vllm'
  'serve'
  'm'
  '--port'
  '{port}'
  '--master-addr'
  '{head}'
  '--master-port'
  '{rpc_port}'
)
GYM_SERVICE_3_SHELL=''
GYM_SERVICE_3_PRE=''
GYM_SERVICE_3_IMAGE=''
GYM_SERVICE_3_MOUNTS=()

GYM_SERVICE_4_ENV=(
  'HF_TOKEN'
  'secret'
  'MY_HF_TOKEN'
  'HF_HOME'
  'runtime'
  'SCRATCH'
)
GYM_SERVICE_4_ARGV=(
  'serve'
  '{port}'
)
GYM_SERVICE_4_SHELL=''
GYM_SERVICE_4_PRE=''
GYM_SERVICE_4_IMAGE=''
GYM_SERVICE_4_MOUNTS=()

GYM_SERVICE_5_ENV=(
  'HF_TOKEN'
  'secret'
  'MY_HF_TOKEN'
  'HF_HOME'
  'runtime'
  'SCRATCH'
)
GYM_SERVICE_5_ARGV=(
  'serve'
  '{port}'
)
GYM_SERVICE_5_SHELL=''
GYM_SERVICE_5_PRE=''
GYM_SERVICE_5_IMAGE=''
GYM_SERVICE_5_MOUNTS=()

GYM_SCHEDULER='slurm'
GYM_SEALED='/runs/gym-job-20270115T080000Z-00abcd/arithmetic/sealed/ce4a2579fa8d6ba8'
GYM_SEALED_FILES='d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  chain.sh
d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  chain_facts.sh
d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  clean_environment.sh
d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  decide.sh
d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  driver.sh
d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  end_marker.sh
d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  full_disk.sh
d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  header.sh
d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  run.yaml
d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  scheduler_slurm.sh
d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  services.sh
d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  slurm_queue.sh
d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  slurm_steps.sh
d8890eab79613da3d5cf27e6d7a4f6a87fade238331fa91a37917ffce3cd1f55  states.tsv'
GYM_INPUT_FILES=''
GYM_DATA_FILES=''
# Not sealed: this digest of all else, and secrets, of which one that has expired may be replaced.
GYM_SCRIPT='7dd28bf1833148b431f01663c88c19f5790e0bb269d6513f8abaf508711d5931'
GYM_SECRET_MY_HF_TOKEN='hf'\''1
$x'
GYM_SECRET_JUDGE_KEY='judge-key'
# Sealed again.

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

cd -- '/runs/gym-job-20270115T080000Z-00abcd/arithmetic' || exit 1
gym_check_seal "${1-}"
. sealed/ce4a2579fa8d6ba8/header.sh
. sealed/ce4a2579fa8d6ba8/clean_environment.sh
. sealed/ce4a2579fa8d6ba8/slurm_steps.sh
. sealed/ce4a2579fa8d6ba8/slurm_queue.sh
. sealed/ce4a2579fa8d6ba8/scheduler_slurm.sh
. sealed/ce4a2579fa8d6ba8/full_disk.sh
. sealed/ce4a2579fa8d6ba8/services.sh
. sealed/ce4a2579fa8d6ba8/driver.sh
. sealed/ce4a2579fa8d6ba8/decide.sh
. sealed/ce4a2579fa8d6ba8/chain_facts.sh
. sealed/ce4a2579fa8d6ba8/chain.sh
. sealed/ce4a2579fa8d6ba8/end_marker.sh

# Never returns, so that nothing is read from this file any more while the job runs.
gym_main "$@"
