"""What the step programs share: their config, their progress, their outputs, and one sentence on failure."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from nemo_helix_server.errors import ServerError
from nemo_runs.errors import RunsError
from nemo_trainer.contract import (
    EXIT_BAD_SPEC,
    JobContext,
    Outputs,
    TrainerError,
    read_progress,
    write_outputs,
    write_progress,
)
from nemo_trainer.contract.files import files_below, seal, sync_folders

_BETWEEN = 0.5


class StepError(ServerError):
    """The step cannot do what was requested; the message says what would be right."""


@dataclass(slots=True)
class TransferReport:
    """The progress of a step that moves files."""

    context: JobContext
    _fields: dict[str, Any] = field(default_factory=dict)
    _written_at: float = 0.0

    def update(self, *, now: bool = False, **fields: Any) -> None:
        """Merge fields and write them, at most twice a second."""
        self._fields |= fields
        moment = time.monotonic()
        if not now and moment - self._written_at < _BETWEEN:
            return
        self._written_at = moment
        path = self.context.paths.progress
        path.parent.mkdir(parents=True, exist_ok=True)
        write_progress(path, {**self._fields, "task": self.context.task}, durable=False)

    def add(self, name: str, number: int) -> None:
        """Count something."""
        counted: dict[str, Any] = {name: int(self._fields.get(name) or 0) + number}
        self.update(**counted)

    def outputs(self, paths: Sequence[Path]) -> None:
        """Name files, and all files in folders, as what this step has made, with digests."""
        files: list[Path] = []
        for path in paths:
            if path.is_dir():
                files += files_below(path)
                sync_folders(path)
            else:
                files.append(path)
        trainer = self.context.trainer_path
        write_outputs(trainer, Outputs(self.context.task, time.time(), seal(trainer, dict.fromkeys(files))))


def main(work: Callable[[dict[str, Any], TransferReport], None]) -> NoReturn:
    """Run a step's program; what it cannot do is the last line of its log, and in its progress."""
    context = JobContext.from_environ(os.environ)
    report = TransferReport(context)
    try:
        assert context.config_file is not None, "the step has no config"
        config = json.loads(context.config_file.read_text(encoding="utf-8"))
        work(config, report)
        report.update(now=True, phase="completed")
    except (ServerError, TrainerError, RunsError) as error:
        _fail(report, str(error))
        sys.exit(EXIT_BAD_SPEC if isinstance(error, StepError) else 1)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _fail(report, f"{error.strerror or error}{where}")
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - the outermost edge: the log gets it all
        traceback.print_exc()
        _fail(report, f"unexpected {type(error).__name__}: {error}")
        sys.exit(1)
    sys.exit(0)


def _fail(report: TransferReport, sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")
    said = read_progress(report.context.paths.progress)
    try:
        report.update(now=True, **{**said, "phase": "failed", "message": sentence})
    except OSError as error:
        sys.stderr.write(f"the progress could not be written: {error}\n")
        sys.stderr.write(f"{sentence}\n")
