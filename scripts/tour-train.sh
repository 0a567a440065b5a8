#!/usr/bin/env bash
# A training job of the Jobs service on the real Slurm of `make slurm-up`. Its walltime ends, its node fails, and it is
# paused and resumed; the same training runs undisturbed beside it, and both end with the same weights, byte for byte.
# Prints each command and what it says.
# TOUR_FOLDER: where all files are (default: a folder of its own in /tmp, removed when all went well).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
made=
[ -n "${TOUR_FOLDER:-}" ] || made=$(mktemp -d /tmp/baton-tour-train.XXXXXX)
folder=${TOUR_FOLDER:-$made}
patience=200 # seconds that each part may take

# shellcheck source=scripts/tour_lab.sh
. "$root/scripts/tour_lab.sh"
job=long undisturbed=untouched service='' down='' SECONDS=0

say() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }

leave() {
    status=$?
    trap - EXIT
    [ -z "$down" ] || scontrol update nodename="$down" state=resume 2>/dev/null || true
    if [ -n "$service" ]; then
        if [ "$status" != 0 ]; then
            for name in "$job" "$undisturbed"; do nemo jobs cancel "$name" >/dev/null 2>&1 || true; done
            for name in "$job" "$undisturbed"; do
                nemo jobs watch "$name" --no-history --timeout 30 >/dev/null 2>&1 || true
            done
        fi
        kill "$service" 2>/dev/null || true
        wait "$service" 2>/dev/null || true
    fi
    if [ "$status" != 0 ]; then
        echo "tour: it did not end well; everything about it is in $folder" >&2
    elif [ -n "$made" ]; then
        rm -rf "$made"
    fi
    exit "$status"
}
trap leave EXIT
trap 'exit 130' INT TERM

seen() { # seen EXPRESSION: of the job as it is shown now
    nemo jobs get "$job" --json | python -c '
import json, sys
job = json.load(sys.stdin)
details = job["status_details"] or {}
step = details.get("step") or 0
print(eval(sys.argv[1]))' "$1"
}

until_seen() { # until_seen EXPRESSION: wait until it holds
    local end=$((SECONDS + patience))
    until [ "$(seen "$1")" = True ]; do
        if [ "$SECONDS" -ge "$end" ] || [ "$(seen 'job["status"] in ("error", "cancelled")')" = True ]; then
            nemo jobs get "$job" -f table >&2
            return 1
        fi
        sleep 0.5
    done
}

allocation() { # the number and the node of the Slurm job that trains now, as Slurm says it
    squeue -h --me -t R -o "%A %N %j" |
        awk -v name="$(nemo jobs get "$job" --json | field id)-training-" 'index($3, name) == 1 { print $1, $2 }'
}

numbers() { # those of all its Slurm jobs so far, whose names differ by their ends
    sacct -X -n -P --format=JobID,JobName |
        awk -F'|' -v name="$(nemo jobs get "$job" --json | field id)-training-" 'index($2, name) == 1 { print $1 }' |
        paste -sd,
}

field() { python -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

weights() { # weights NAME: bring the final weights of a job here as NAME.json, from where the service keeps its results
    cp "service/jobs/default/$(nemo jobs get "$1" --json | field id)/storage/training/model/weights.json" "$1.json"
}

say "A service whose steps run on the cluster"
cat >settings.yaml <<YAML
jobs:
  executors:
    - provider: cpu
      profile: cluster
      backend: slurm
      config:
        root: $folder/shared
        python: $root/.venv/bin/python
        device: cpu
        time: "00:10:00"
        options: {exclusive: true}
        poll_seconds: 1
YAML
for name in "$job" "$undisturbed"; do
    cat >"$name.yaml" <<YAML
name: $name
source: customization
spec: {backend: example}
platform_spec:
  steps:
    - name: training
      executor:
        provider: cpu
        profile: cluster
        container: {command: [$root/.venv/bin/python, -m, nemo_trainer.example]}
      config: {steps: 500, step_seconds: 0.1, save_every: 50, keep: 3}
      lifecycle: {pause_deadline_seconds: 60}
YAML
done
show cat settings.yaml
nemo services run --port 0 --data-dir "$folder/service" --settings settings.yaml --json >service.json 2>service.log &
service=$!
for _ in $(seq 300); do
    [ -s service.json ] && break
    kill -0 "$service"
    sleep 0.1
done
NHX_BASE_URL=$(python -c 'import json; print(json.load(open("service.json"))["url"])')
export NHX_BASE_URL
show nemo profiles check cpu/cluster

say "The same training twice; one is left alone"
show nemo jobs create --input-file "$job.yaml" -f table
nemo jobs create --input-file "$undisturbed.yaml" >/dev/null
until_seen 'step >= 60'

say "Its walltime ends: an administrator sets its time limit to nothing"
read -r first _ <<<"$(allocation)"
show scontrol update JobId="$first" TimeLimit=0
until_seen "step >= 120"
show nemo jobs get "$job" -f table

say "Its node fails"
read -r _ down <<<"$(allocation)"
show scontrol update NodeName="$down" State=DOWN Reason=tour
until_seen "step >= 200"
scontrol update NodeName="$down" State=RESUME 2>/dev/null || true # Slurm may have taken it back by itself
down=
show nemo jobs get "$job" -f table

say "It is paused, and no allocation is left; then resumed"
show nemo jobs pause "$job" -f table
nemo jobs watch "$job" --no-history --poll-interval 0.5 2>&1 | grep -v ' loss ' || true
show squeue -h -j "$(numbers)"
show nemo jobs resume "$job" -f table
nemo jobs watch "$job" --no-history --poll-interval 1 | grep -v " loss "

say "Its card, and what happened to it"
show nemo jobs get "$job" -f table
show nemo jobs transitions "$job" -f table
printf '$ nemo jobs get-logs %s\n' "$job"
nemo jobs get-logs "$job" --limit 5000 -f json | python -c '
import json, sys
for line in json.load(sys.stdin):
    if not line["message"].startswith("step "):
        print(line["message"])'

say "Its bill, and what Slurm has counted for its allocations"
show nemo jobs bill "$job" -f table
show sacct -X -j "$(numbers)" --format=JobID,State,NodeList,NNodes,ElapsedRaw
sacct -X -n -P -j "$(numbers)" --format=NNodes,ElapsedRaw |
    awk -F'|' '$2 { ran++; used += $1 * $2 } END { printf "%d allocations, %d node-seconds\n", ran, used }'

say "Its weights, and those of the training that was left alone"
nemo jobs watch "$undisturbed" --no-history --poll-interval 1 | tail -n 1
weights "$job"
weights "$undisturbed"
show sha256sum "$job.json" "$undisturbed.json"
show cmp "$job.json" "$undisturbed.json"
echo "The same bytes ($SECONDS s in all)."
