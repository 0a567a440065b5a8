"""The benchmark that a training asks its checkpoints: its rows and configuration, made beside the data."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_helix_server.customizer.steps.reporting import StepError

_MODULE = "nemo_gym.rollouts.data.for_training"
_SECONDS = 6 * 3600


def bring(wanted: Mapping[str, Any], storage: Path) -> Path:
    """Make the folder that the training reads; raises `StepError` with the sentence of what is wrong."""
    folder = storage / str(wanted["into"])
    staging = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(staging, ignore_errors=True)
    named = ["--benchmark", str(wanted["benchmark"])]
    if wanted["benchmark"] is None:
        named = ["--config", str(storage / wanted["folder"] / "config.yaml")]
    argv = [sys.executable, "-P", "-m", _MODULE, *named]
    argv += ["--limit", str(wanted["limit"]), "--into", str(staging)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StepError(f"eval.benchmark: its rows could not be made: {error}") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
        raise StepError(f"eval.benchmark: {said.removeprefix('--benchmark: ')}")
    shutil.rmtree(folder, ignore_errors=True)
    staging.rename(folder)
    return folder
