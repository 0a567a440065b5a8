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
GYM_SECRET_MY_HF_TOKEN='<host:MY_HF_TOKEN>'
GYM_SECRET_JUDGE_KEY='<host:JUDGE_KEY>'
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
GYM_PREPARE='yes'
GYM_PREPARE_ARGS=(
  '--config'
  '/runs/gym-job-20270115T080000Z-00abcd/arithmetic/run.yaml'
  '+prepare_script_args.num_tasks=40'
  '+prepare_script_args.operators=["+", "-"]'
  '+split=null'
)
GYM_COMMAND=''
GYM_POLICY='0'
GYM_POLICY_HOST='localhost'
GYM_POLICY_ARGS=(
  '+policy_model_name="org/model"'
  '+policy_service_name="policy"'
)
GYM_OTEL_BINARY='otelcol-contrib'
GYM_OTEL_TOKEN_ENV='OTEL_TOKEN'
GYM_OTEL_TIMEOUT='300'
GYM_OTEL_PAUSE='16'
GYM_SERVICE_NAMES=(
  'policy'
  'a judge'
)
GYM_SERVICE_PORTS=(
  '0'
  '8001'
)
GYM_SERVICE_HEALTH_PORTS=(
  '0'
  '8002'
)
GYM_SERVICE_MODELS=(
  'org/model'
  'judge'
)
GYM_SERVICE_PATHS=(
  '/health'
  '/ready'
)
GYM_SERVICE_TIMEOUTS=(
  '900'
  '60'
)
GYM_SETUP='module load cuda
export IT='\''s'\'''
GYM_KILL_ON_INVALID_DEP='yes'
GYM_QUEUE_FROM='job'
GYM_RUNTIME='apptainer'
GYM_DRIVER_IMAGE='/images/gym.sqsh'
GYM_DRIVER_MOUNTS=(
  '/runs/gym-job-20270115T080000Z-00abcd/arithmetic:/runs/gym-job-20270115T080000Z-00abcd/arithmetic'
)
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
  'org/model'
  '--host'
  '127.0.0.1'
  '--port'
  '{port}'
)
GYM_SERVICE_0_SHELL=''
GYM_SERVICE_0_PRE='module load cuda
ulimit -n 65536'
GYM_SERVICE_0_IMAGE='registry.example/vllm:1'
GYM_SERVICE_0_MOUNTS=(
  '/models:/models'
  '/data:/in:ro'
)

GYM_SERVICE_1_ENV=()
GYM_SERVICE_1_ARGV=()
GYM_SERVICE_1_SHELL='exec serve --port {port} --name '\''it'\'''\''s'\'''
GYM_SERVICE_1_PRE=''
GYM_SERVICE_1_IMAGE='registry.example/vllm:1'
GYM_SERVICE_1_MOUNTS=(
  '/models:/models'
  '/data:/in:ro'
)

cd -- '/runs/gym-job-20270115T080000Z-00abcd/arithmetic' || exit 1
. shell/header.sh
. shell/clean_environment.sh
. shell/slurm_steps.sh
. shell/slurm_queue.sh
. shell/scheduler_slurm.sh
. shell/full_disk.sh
. shell/services.sh
. shell/driver.sh
. shell/decide.sh
. shell/chain_facts.sh
. shell/chain.sh
. shell/end_marker.sh

# Never returns, so that nothing is read from this file any more while the job runs.
gym_main "$@"
