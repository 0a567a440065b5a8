"""A run of Weights & Biases, online or in files.

Online the server says on opening how far it is. Offline nobody knows what earlier processes wrote, so it is
read from their files; each process writes a folder of its own, which `wandb sync` joins by the run's id.
"""

from __future__ import annotations

from typing import Any

from nemo_engines.trackers import wandb_files
from nemo_engines.trackers.runs import MetricsRow, RunOpening

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
        self._has = self.last or 0

    def log(self, rows: list[MetricsRow], at: int) -> None:  # noqa: ARG002 - W&B has its own clock
        """See `Run.log`."""
        for row in rows:
            if row.step > self._has:
                self._run.log(dict(row.values), step=row.step)
                self._has = row.step

    def set_state(self, state: str) -> None:
        """See `Run.set_state`: W&B's state of a run is that of the process that has it open."""
        self._run.summary[STATUS] = state
        if state != "running":
            if state == "paused":
                self._run.mark_preempting()  # with its status W&B shows "preempted", not "failed"
            self._run.finish(exit_code=_EXITS[state])

    def release(self) -> None:
        """See `Run.release`."""
        self._run.mark_preempting()
        self._run.finish(exit_code=_EXITS["paused"])
