"""``progress.json``: how far training is, replaced as a whole by rename."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_runs.durable.disk import read_regular
from nemo_runs.durable.files import replace_file
from nemo_trainer.contract.generations import newest_file

SEQ_SEEN = "seq_seen"
"""The number of the last request that the trainer has seen."""
STOPS_AT = "stops_at"
"""The step at which a pause takes effect; null without one."""
PASSED_OVER = "passed_over"
"""Sentences about the damaged checkpoints that were newer than the one training went on from."""
SAVING = "saving"
"""How long saving takes: ``seconds``, ``bytes``, and whether that is ``measured``."""
INTERVAL = "checkpoint_interval"
"""The time between two periodic checkpoints in ``seconds``, and for a chosen one what it was chosen from."""
TRAINING_SINCE = "training_since"
"""When this start had finished its first step, in seconds since the epoch."""
LEAVES_BECAUSE = "leaves_because"
"""Why training saves and leaves with 75 although nobody asked for a pause: a clause; null without that."""
FINAL_STEP = "final_step"
"""The last finished step; written by the trainer itself as it leaves."""


def read_progress(path: Path, *, within: Path | None = None) -> dict[str, Any]:
    """What the trainer said last; empty when there is no such file in ``within``, or it is something else.

    ``path`` is the ``progress.json`` that all share; where generations have their own, the newest counts.
    """
    try:
        value = json.loads(read_regular(newest_file(path), within=within))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write_progress(path: Path, fields: Mapping[str, Any], *, durable: bool) -> None:
    """Replace the file; only a ``durable`` one waits for the disk."""
    data = json.dumps(fields, separators=(",", ":"), default=str).encode("ascii") + b"\n"
    if durable:
        replace_file(path, data, mode=None)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.replace(path)
