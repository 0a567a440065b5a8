#!/bin/sh
# `gym`, brought here by `gym eval submit` from the machine of the submission. Values: python.
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit
unset PYTHONHOME PYTHONSTARTUP PYTHONINSPECT PYTHONUSERBASE
export PYTHONPATH="$here/lib${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1
exec "${python:?}" -P -c 'from nemo_gym.cli.main import main; main()' "$@"
