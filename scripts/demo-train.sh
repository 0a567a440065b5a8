#!/usr/bin/env bash
# The full circle with a real small model: evaluate, train, pause, resume, evaluate again, compare.
# Options: --steps N (of training), --tasks N (questions of each evaluation), --folder DIR (for all files).
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"

steps=60 tasks=100 folder=runs/demo-train-$(date -u +%Y%m%dT%H%M%SZ)-$$
while [ $# -gt 0 ]; do
    case $1 in
    --steps) steps=$2 ;;
    --tasks) tasks=$2 ;;
    --folder) folder=$2 ;;
    *)
        echo "usage: $0 [--steps N] [--tasks N] [--folder DIR]" >&2
        exit 2
        ;;
    esac
    shift 2
done
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

say() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }

field() { # field KEY...: of the JSON document on standard input
    python -c '
import functools, json, sys
print(functools.reduce(lambda value, key: value[int(key) if key.isdigit() else key], sys.argv[1:], json.load(sys.stdin)))
' "$@"
}

service=
job=
leave() {
    status=$?
    trap - EXIT
    if [ -n "$job" ] && [ "$status" != 0 ]; then
        nemo jobs cancel "$job" >/dev/null 2>&1 || true
        nemo jobs watch "$job" --no-history --timeout 60 >/dev/null 2>&1 || true
        echo "The demo did not end well; everything about it is in $folder." >&2
    fi
    if [ -n "$service" ]; then
        kill "$service" 2>/dev/null || true
        wait "$service" 2>/dev/null || true
    fi
    exit "$status"
}
trap leave EXIT
trap 'exit 130' INT TERM

engine=$(nemo engines install unsloth) # its interpreter; a download on the first run
SECONDS=0
export_model() { # export_model unpack|gguf ARGUMENT...
    local part=$1
    shift
    PYTHONPATH=$PWD/src "$engine" -P -m "nemo_engines.export.$part" "$@"
}

say "Unpack the model to train on; kept for the next time"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nhx/models
base=$cache/smollm2-135m-instruct
if [ ! -d "$base" ]; then
    packed=$(python -c 'from nemo_gym.serving.models import find_model; print(find_model("smollm2").path)')
    export_model unpack "$packed" "$base" 2>"$folder/unpack.log" || { tail -n 1 "$folder/unpack.log" >&2; exit 1; }
fi
export_model gguf "$base" "$folder/base.gguf" 2>"$folder/base.log"

evaluate() { # evaluate NAME: the model in NAME.gguf
    gym eval submit -c examples/gguf.yaml --label "demo-train=$folder" --label "model=$1" --limit "$tasks" --follow \
        services.model.command="gym serve --model $folder/$1.gguf --model-name $1 --port {port}" \
        services.model.model_name="$1" job.output_path="$folder/evaluations"
}

say "Evaluate it as it is"
evaluate base

say "Write sums to learn from, and the job"
asked=$(gym eval prepare --benchmark arithmetic +prepare_script_args.num_tasks=100 +prepare_script_args.digits=2)
python benchmarks/arithmetic/training.py "$folder/train.jsonl" --without "$asked"
cat >"$folder/job.json" <<END
{
  "model": {"name": "$base", "max_seq_length": 96},
  "dataset": {"path": "$folder/train.jsonl"},
  "training": {
    "finetuning_type": "lora",
    "lora": {"rank": 16, "alpha": 32},
    "use_gradient_checkpointing": "false"
  },
  "schedule": {"max_steps": $steps, "warmup_steps": 4},
  "batch": {"per_device_train_batch_size": 8},
  "optimizer": {"learning_rate": 2e-3, "optim": "adamw_torch"},
  "output": {"name": "sums"}
}
END

wait_for_step() { # wait_for_step N: until the training has done so many steps
    python - "$job" "$1" <<'END'
import sys
import time

from nemo_helix_plugin.client.client import NemoClient

name, wanted = sys.argv[1], int(sys.argv[2])
with NemoClient.from_config() as client:
    while True:
        seen = client.jobs.get_job_status(name=name, workspace="default").json()
        step = (seen["status_details"] or {}).get("step", 0)
        if step >= wanted or seen["status"] in ("completed", "error", "cancelled"):
            break
        time.sleep(0.2)
END
}

say "Start a service and train; pause in the middle"
# Threads that share their cores with others wait for each other: all cores only where nothing else runs.
threads=1
if awk '{ exit $1 > 0.5 }' /proc/loadavg; then threads=$(nproc); fi
OMP_NUM_THREADS=$threads nemo services run --port 0 --data-dir "$folder/service" --json \
    >"$folder/service.json" 2>"$folder/service.log" &
service=$!
for _ in $(seq 600); do
    [ -s "$folder/service.json" ] && break
    kill -0 "$service"
    sleep 0.1
done
NHX_BASE_URL=$(field url <"$folder/service.json")
export NHX_BASE_URL
job=$(nemo customization unsloth --job-json "$folder/job.json" 2>"$folder/submit.log" | field name)
echo "job $job at $NHX_BASE_URL, $threads thread(s)"
wait_for_step $((steps / 3))
nemo jobs pause "$job" >/dev/null
nemo jobs watch "$job" --no-history --poll-interval 0.5 || [ $? = 75 ]
nemo jobs list -f table
nemo jobs checkpoints list "$job" -f table

say "Resume, and wait for the end"
nemo jobs resume "$job" >/dev/null
nemo jobs watch "$job" --no-history --poll-interval 1

say "Get the trained adapter and write it for the server"
nemo models download sums -o "$folder/adapter"
export_model gguf "$folder/adapter" "$folder/tuned.gguf" --base "$base" 2>"$folder/tuned.log"

say "Evaluate the trained model"
evaluate tuned

say "Both scores, and the difference task by task"
gym job results --label "demo-train=$folder"
run_of() {
    gym job list --label "demo-train=$folder" --label "model=$1" --json | field submissions 0 run_dir
}
gym eval compare "$(run_of base)" "$(run_of tuned)"
say "Done"
echo "Everything is in $folder; the trained model answers with"
echo "  gym serve --model $folder/tuned.gguf"
