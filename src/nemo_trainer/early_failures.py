"""What the progress says of a start that ends before it has a session, which would say it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from nemo_runs.errors import RunsError
from nemo_trainer.contract import (
    JobContext,
    NotWriterError,
    TrainerPaths,
    generations,
    read_progress,
    write_progress,
)
from nemo_trainer.contract.generations import GENERATION
from nemo_trainer.holding import claimed_for


def record(context: JobContext, error: Exception) -> None:
    """Write the sentence where readers look, unless the progress is another process's to write."""
    if not context.writes or isinstance(error, NotWriterError):
        return
    said = {
        "phase": "failed",
        "message": str(error),
        "error_type": type(error).__name__,
        "attempt": context.attempt,
        "task": context.task,
        "updated_at": time.time(),
    }
    try:
        context.trainer_path.mkdir(parents=True, exist_ok=True)
        before = read_progress(TrainerPaths(context.trainer_path).progress)
        claimed = claimed_for(context)
        if claimed is not None:
            held = context.holding(claimed.number, own_names=claimed.own_names)
            place: Path = held.paths.progress
            said[GENERATION] = claimed.number
        else:
            writer = generations.read_writer(context.trainer_path)
            if writer is not None and not writer.is_over:
                return
            place = generations.newest_file(TrainerPaths(context.trainer_path).progress)
        write_progress(place, {**before, **said}, durable=True)
    except NotWriterError:
        return
    except (OSError, RunsError) as failure:
        sys.stderr.write(f"the progress could not be written: {failure}\n")
