#!/usr/bin/env bash
# A real evaluation of a real small model: submitted, served, graded and recorded, followed to its end.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"

label=demo=$(date -u +%Y%m%dT%H%M%SZ)-$$
status=0
gym eval submit -c examples/quickstart.yaml --label "$label" --follow "$@" || status=$?

read -r id run_dir < <(gym job list --label "$label" --json | python -c '
import json, sys
for record in json.load(sys.stdin)["submissions"]:
    print(record["gym_job_id"], record["run_dir"])
') || true
if [ -z "${id:-}" ]; then
    exit "$status" # nothing was submitted; why was said above
fi

if [ "$status" != 0 ]; then
    echo "The demo did not end well; everything about it is in $run_dir (logs/ of each benchmark first)." >&2
    exit "$status"
fi

cat <<END

The record:  $run_dir/gym-job.json
Next:
  gym job show $id arithmetic --wrong   # what was asked, answered and expected
  gym job share $id                     # one file to send, with a report for a browser
  gym job results $id --json
  tail -n 3 $run_dir/arithmetic/logs/driver-*.log
  gym eval submit -c examples/quickstart.yaml --only arithmetic --limit 10 --follow
(The programs are in $PWD/.venv/bin: put that folder on your PATH.)
END
