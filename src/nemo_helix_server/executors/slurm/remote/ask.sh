# shellcheck shell=bash
# One request for our program on this host. Values: python, code (the folder of our sources), request (a line of JSON),
# setup (lines of bash that make the interpreter reachable).
: "${python:?}" "${code:?}" "${request:?}" "${setup=}"
umask 077
# what setup lines print belongs to nobody's answer
eval "$setup" >/dev/null 2>&1
printf 'baton: setup lines are over\n' >&2
printf '%s\n' "$request" | env -u PYTHONHOME PYTHONPATH="$code" PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1 \
  "$python" -P -m nemo_helix_server.executors.slurm.on_cluster.requests
