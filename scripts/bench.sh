#!/usr/bin/env bash
# Run every measurement of bench/ and end with 1 if one of them is above its limit.
# PYTHONDONTWRITEBYTECODE would make Python compile the program again at every start.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
unset PYTHONDONTWRITEBYTECODE

status=0
for measurement in bench/*.py; do
    echo "== $measurement"
    .venv/bin/python "$measurement" || status=1
done
exit $status
