#!/usr/bin/env bash
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
GYM_WALLTIME=''
GYM_DRAIN_LEAD=''
GYM_RESUMABLE=''
GYM_MAX_RETRIES='3'
GYM_MAX_WALLTIME=''
GYM_MAX_LINKS_WITHOUT_PROGRESS=''
GYM_RESUMES='yes'
GYM_DRIVER_ENV=()
GYM_PREPARE=''
GYM_PREPARE_ARGS=()
GYM_COMMAND='echo '\''it'\'''\''s'\''
exit 3
'
GYM_POLICY=''
GYM_POLICY_HOST='localhost'
GYM_POLICY_ARGS=()
GYM_OTEL_BINARY=''
GYM_OTEL_TOKEN_ENV=''
GYM_OTEL_TIMEOUT=''
GYM_OTEL_PAUSE=''
GYM_SERVICE_NAMES=()
GYM_SERVICE_PORTS=()
GYM_SERVICE_HEALTH_PORTS=()
GYM_SERVICE_MODELS=()
GYM_SERVICE_PATHS=()
GYM_SERVICE_TIMEOUTS=()

cd -- '/runs/gym-job-20270115T080000Z-00abcd/arithmetic' || exit 1
. shell/header.sh
. shell/scheduler_local.sh
. shell/full_disk.sh
. shell/services.sh
. shell/driver.sh
. shell/decide.sh
. shell/chain_facts.sh
. shell/chain.sh
. shell/end_marker.sh

# Never returns, so that nothing is read from this file any more while the job runs.
gym_main "$@"
