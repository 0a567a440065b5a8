#!/usr/bin/env bash
# A tour on the real Slurm of `make slurm-up`: one benchmark as a chain of jobs of one minute each, answered by the real
# small model; submitted, watched, certified and billed. Prints each command and what it says.
# TOUR_FOLDER: where it runs and leaves its run directory (default /tmp/baton-tour).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${TOUR_FOLDER:-/tmp/baton-tour}
patience=600 # seconds that the chain may take

# shellcheck source=scripts/tour_lab.sh
. "$root/scripts/tour_lab.sh"
cp "$root/examples/resumable-slurm.yaml" chain.yaml

chain_ended() {
    gym job status latest --json | python -c '
import json, sys
states = {found["state"] for found in json.load(sys.stdin)["submissions"]}
sys.exit(not states or bool(states & {"queued", "running", "unknown"}))'
}

links() {
    sort -u runs/"$id"/arithmetic/.gym_job_chain 2>/dev/null | grep -c . || true
}

show gym eval submit -c chain.yaml
id=$(gym job list --json | python -c 'import json, sys; print(json.load(sys.stdin)["submissions"][0]["gym_job_id"])')
until [ "$(links)" -ge 2 ] || chain_ended; do sleep 1; done
sleep 5
show gym job status latest
until chain_ended; do
    if [ "$SECONDS" -ge "$patience" ]; then
        echo "tour: the chain did not end within $patience s; gym job status $id says more" >&2
        exit 1
    fi
    sleep 2
done
show gym job status latest
show gym job results latest
show gym job verify latest
show gym job bill latest
