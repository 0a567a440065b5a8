"""A run of Weights & Biases, online or in files.

A program of W&B's own writes the files. It goes on writing when it has said that a run is finished, so a
state is reported once the run's file has everything. The publisher ends when that program has ended.

Online the server says on opening how far it is. Offline nobody knows what earlier processes wrote, so it is
read from their files; each process writes a folder of its own, which `wandb sync` joins by the run's id.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nemo_engines.trackers import wandb_files
from nemo_engines.trackers.runs import LibraryEndedError, MetricsRow, RunOpening

STATUS = "job_status"
_EXITS = {"finished": 0, "paused": 1, "failed": 1, "killed": 143}
_STARTS_WITHIN = 30.0


class WandbRun:
    """See `nemo_engines.trackers.runs.OpenTrackerRun`."""

    def __init__(self, opening: RunOpening) -> None:
        import wandb  # noqa: PLC0415 - of the environment that this runs in

        self.run_id = opening.run_id or opening.job
        opening.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        before = wandb_files.last_step(opening.folder, self.run_id)
        self._run: Any = wandb.init(
            id=self.run_id,
            resume="allow",
            reinit="create_new",
            project=opening.project,
            entity=opening.entity,
            name=opening.name,
            notes=opening.notes,
            tags=list(opening.labels),
            config=dict(opening.tags),
            dir=str(opening.folder),
            settings=wandb.Settings(
                console="off",
                silent=True,
                disable_git=True,
                disable_code=True,
                save_code=False,
                init_timeout=_STARTS_WITHIN,
                x_disable_stats=True,
                x_disable_machine_info=True,
            ),
        )
        if self._run.offline:
            self.url: str | None = (opening.folder / "wandb").as_uri()
            self.last: int | None = before
        else:
            self.url = self._run.url
            self.last = max(0, int(self._run.starting_step) - 1)
        self._file = Path(self._run.settings.sync_file) if self._run.offline else None
        self._has = self.last or 0

    def log(self, rows: list[MetricsRow], at: int) -> None:  # noqa: ARG002 - W&B has its own clock
        """See `Run.log`."""
        with _ended_program():
            for row in rows:
                if row.step > self._has:
                    self._run.log(dict(row.values), step=row.step)
                    self._has = row.step

    def set_state(self, state: str) -> None:
        """See `Run.set_state`: W&B's state of a run is that of the process that has it open."""
        with _ended_program():
            self._run.summary[STATUS] = state
        if state != "running":
            self._finish(_EXITS[state], preempted=state == "paused")

    def release(self) -> None:
        """See `Run.release`."""
        self._finish(_EXITS["paused"], preempted=True)

    def _finish(self, status: int, *, preempted: bool) -> None:
        with _ended_program():
            if preempted:
                self._run.mark_preempting()  # with its status W&B shows "preempted", not "failed"
            self._run.finish(exit_code=status)
        if self._file is not None:
            wandb_files.wait_for_end(self._file)


@contextlib.contextmanager
def _ended_program() -> Iterator[None]:
    """Distinguish the end of W&B's own program from other errors; no open run works after it."""
    from wandb.sdk.mailbox import HandleAbandonedError, MailboxClosedError  # noqa: PLC0415 - see above

    try:
        yield
    except (ConnectionError, HandleAbandonedError, MailboxClosedError) as error:
        raise LibraryEndedError(f"W&B's own program has ended: {error}") from error
