"""What the one writer of a training folder does besides training: taking hold of it, naming its outputs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from nemo_runs.durable.files import replace_file
from nemo_runs.errors import RunsError
from nemo_runs.processes import trees
from nemo_trainer.contract import JobContext, Outputs, TrainerError, write_outputs
from nemo_trainer.contract.files import files_below, seal, sync_folders


def take_hold(context: JobContext) -> None:
    """Become the writer of the trainer path; raises `TrainerError` while another process is."""
    context.paths.checkpoints.mkdir(parents=True, exist_ok=True)
    me, path = trees.identify(), context.paths.writer
    try:
        other = trees.ProcessIdentity.from_json(json.loads(path.read_bytes()))
    except (OSError, ValueError, RunsError):
        other = me
    if other != me and trees.liveness(other) is trees.Liveness.ALIVE:
        raise TrainerError(f"{context.trainer_path}: process {other.pid} trains here already; end it first")
    replace_file(path, json.dumps(me.to_json()).encode("ascii") + b"\n")


def record_outputs(context: JobContext, paths: Sequence[Path]) -> None:
    """Make files, and all files in folders, durable and name them in ``OUTPUTS.json``."""
    storage, files = context.storage.resolve(), list[Path]()
    for path in (context.trainer_path / path for path in paths):
        if not path.resolve().is_relative_to(storage):
            raise TrainerError(f"{path}: lies outside the job's storage {storage}, which is all that is kept")
        if path.is_dir():
            files += files_below(path)
            sync_folders(path)
        elif path.is_file():
            files.append(path)
        else:
            raise TrainerError(f"{path}: is missing, so it cannot be an output")
    entries = seal(context.trainer_path, dict.fromkeys(files))
    write_outputs(context.trainer_path, Outputs(context.task, time.time(), entries))
