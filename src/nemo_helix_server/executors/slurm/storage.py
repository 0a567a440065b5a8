"""The files of runs on a cluster: the job's folder lies on its shared storage, and the service has a mirror.

What a run finds there is brought by `nemo_helix_server.executors.slurm.executor` before it is queued; what it
leaves comes back with every look (`nemo_helix_server.executors.slurm.mirror`). See
`nemo_helix_server.storage.run_storage.RunStorage`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from nemo_helix_server.executors.slurm import submissions
from nemo_helix_server.executors.slurm.connection import ClusterAddress, ClusterConnection, ClusterConnections
from nemo_helix_server.executors.slurm.folders import ClusterFolder, ClusterJob
from nemo_helix_server.executors.slurm.mirror import Mirror, read_state
from nemo_helix_server.executors.slurm.staging import files_of, push
from nemo_helix_server.jobs.model import CheckpointRow
from nemo_helix_server.storage import checkpoints
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.log_parts import LocalLog, RunLog
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.run_storage import StepPaths
from nemo_helix_server.storage.trainer_files import (
    LocalTrainerFiles,
    MetricRows,
    SeenCheckpoint,
    TrainerFiles,
    TrainerMarks,
)
from nemo_slurm.errors import SlurmError
from nemo_trainer import contract

_STATE = "cluster"
"""Folder of a job at the service: what was seen of its steps on the cluster, and digests of what was sent."""


class ClusterTrainerFiles:
    """The trainer path of a step on a cluster, as it was seen last; see `TrainerFiles`."""

    def __init__(self, where: str, mirror: Mirror, storage: Path) -> None:
        self.where = where
        self._files = LocalTrainerFiles(mirror.trainer, storage)
        self._state = mirror.state

    def marks(self) -> TrainerMarks:
        """See the protocol."""
        return self._files.marks()

    def checkpoints_mark(self) -> Hashable:
        """See the protocol."""
        try:
            status = self._state.stat()
        except OSError:
            return None
        return (status.st_ino, status.st_mtime_ns, status.st_size) if self.checkpoints() else None

    def progress(self) -> dict[str, Any]:
        """See the protocol."""
        return self._files.progress()

    def metrics(self, offset: int, *, generation: int = 0) -> MetricRows:
        """See the protocol."""
        return self._files.metrics(offset, generation=generation)

    def last_recorded_step(self) -> int:
        """See the protocol."""
        return self._files.last_recorded_step()

    def checkpoints(self) -> Sequence[SeenCheckpoint]:
        """See the protocol."""
        return read_state(self._state).seen(self.where)

    def output_problems(self, *, deep: bool) -> Sequence[str] | None:
        """See the protocol; digests are compared with the copies at the service."""
        return self._files.output_problems(deep=True) if deep else read_state(self._state).outputs


class ClusterRunStorage:
    """The folders of jobs on clusters, with their mirrors in the service's data directory."""

    def __init__(
        self,
        jobs: JobStorage,
        connections: ClusterConnections,
        address_of: Callable[[StepRun], ClusterAddress],
    ) -> None:
        """``address_of`` names the cluster of a run that was not handed over yet, by its profile."""
        self.jobs = jobs
        self._connections = connections
        self._address_of = address_of

    # ---- names

    def address(self, run: StepRun) -> ClusterAddress:
        """The cluster that has a run: where it was handed over, or else that of its profile."""
        known = submissions.read(self.jobs.run_folder(run)) if run.token else None
        return known.address if known else self._address_of(run)

    def connection(self, run: StepRun) -> ClusterConnection:
        """The connection to it."""
        return self._connections.of(self.address(run))

    def job(self, run: StepRun) -> ClusterJob:
        """The job's folder on the cluster."""
        return ClusterFolder(PurePosixPath(self.address(run).root)).job(run.job_id)

    def mirror(self, run: StepRun) -> Mirror:
        """What the service has of a run."""
        paths = self.jobs.of_run(run)
        state = paths.folder / _STATE / f"{run.step}.json"
        return Mirror(paths.run_folder(run.token), paths.trainer(run.step), state)

    # ---- the protocol

    def paths(self, run: StepRun) -> StepPaths:
        """See the protocol."""
        return StepPaths.below(self.job(run).folder, run)

    def prepare(self, run: StepRun, config: Any) -> None:
        """See the protocol; it is brought to the cluster when the run is handed over."""
        self.jobs.prepare_run(run, config)

    def trainer(self, run: StepRun) -> TrainerFiles:
        """See the protocol."""
        where = f"{self.address(run).host or ''}:{self.job(run).storage / run.step}".lstrip(":")
        return ClusterTrainerFiles(where, self.mirror(run), self.jobs.of_run(run).storage)

    def log(self, run: StepRun) -> RunLog:
        """See the protocol."""
        return LocalLog(self.jobs.run_folder(run))

    def free_bytes(self, run: StepRun) -> int | None:  # noqa: ARG002 - the protocol's
        """See the protocol: quotas of shared storage are seen by nobody but the writer."""
        return None

    def checkpoint_path(self, run: StepRun, checkpoint: CheckpointRow) -> str | None:
        """See the protocol; a pinned copy, or one that another executor has left here, is brought there."""
        there = self._folder_there(run, checkpoint)
        if there is not None:
            return str(there)
        here = checkpoints.folder_of(self.jobs, checkpoint)
        if here is None:
            return None
        target = self.job(run).folder / "pinned" / checkpoint.id
        self.bring(run, here, target, f"checkpoint-{checkpoint.id}")
        return str(target)

    def hold(self, checkpoint: CheckpointRow) -> bool:
        """See the protocol."""
        return self._mark(checkpoint, hold=True)

    def pin(self, checkpoint: CheckpointRow) -> str:
        """See the protocol; the checkpoint is fetched first."""
        run = _run_of(checkpoint)
        here = self.jobs.of_run(run).trainer(checkpoint.step_name) / "checkpoints" / str(checkpoint.step)
        there = self._folder_there(run, checkpoint)
        if there is None:
            raise checkpoints.PinError(f"the checkpoint {checkpoint.id} is not there any more")
        try:
            self.connection(run).host.copy_out(str(there), here)
            return checkpoints.pin(self.jobs, checkpoint)
        except SlurmError as error:
            raise checkpoints.PinError(
                f"the checkpoint {checkpoint.id} cannot be fetched: {error}"
            ) from error
        finally:
            shutil.rmtree(here, ignore_errors=True)

    def unpin(self, checkpoint: CheckpointRow) -> None:
        """See the protocol."""
        checkpoints.unpin(self.jobs, checkpoint)
        self._mark(checkpoint, hold=False)

    def drop_scratch(self, run: StepRun) -> None:
        """See the protocol; that on the cluster goes when the end of the run is seen."""
        self.jobs.drop_scratch(self.jobs.of_run(run), run.token)

    def size(self, workspace: str, job_id: str) -> int:
        """See the protocol: on the cluster, and what of it is here."""
        paths = self.jobs.paths(workspace, job_id)
        there = [read_state(file).bytes for file in (paths.folder / _STATE).glob("*.json")]
        return max(there, default=0) + self.jobs.size(paths)

    def reclaim(self, workspace: str, job_id: str) -> None:
        """See the protocol."""
        for run in self._runs(workspace, job_id):
            job = self.job(run)
            self._remove(run, [job.storage, job.folder / "scratch"])
        self.jobs.reclaim(self.jobs.paths(workspace, job_id))

    def discard(self, workspace: str, job_id: str) -> None:
        """See the protocol."""
        for run in self._runs(workspace, job_id):
            self._remove(run, [self.job(run).folder])
        self.jobs.discard(self.jobs.paths(workspace, job_id).folder)

    # ---- files that go there

    def bring_inputs(self, run: StepRun) -> int:
        """Bring what the job's storage holds to the cluster; how many files had to be sent.

        What the step itself writes there is newer than its mirror here, and stays.
        """
        paths = self.jobs.of_run(run)
        there_before = self.mirror(run).state.exists()

        def wanted(name: str) -> bool:
            step, _, rest = name.partition("/")
            return not (step == run.step and (there_before or _is_mirrored(rest)))

        return self._push(run, paths.storage, self.job(run).storage, "storage", wanted)

    def bring(self, run: StepRun, folder: Path, target: PurePosixPath, name: str) -> int:
        """Bring a folder to the cluster."""
        return self._push(run, folder, target, name, lambda _path: True)

    def fetch_outputs(self, run: StepRun) -> None:
        """Copy what the step says it has produced into the job's storage here; digests are compared.

        Raises `SlurmError` when it cannot be had now.
        """
        trainer = self.mirror(run).trainer
        said = contract.read_outputs(trainer, within=self.jobs.of_run(run).storage)
        if said is None:
            return
        names = {str(PurePosixPath(run.step, file.path)) for file in said.files}
        wanted = {_normal(name) for name in names}
        storage = self.jobs.of_run(run).storage
        self.connection(run).host.copy_out(str(self.job(run).storage), storage, wanted=wanted.__contains__)

    # ---- parts

    def _push(
        self, run: StepRun, folder: Path, target: PurePosixPath, name: str, wanted: Callable[[str], bool]
    ) -> int:
        ledger = self.jobs.of_run(run).folder / _STATE / f"sent-{name}.digests"
        ledger.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        connection = self.connection(run)
        connection.prepare([target])
        return push(connection.host, connection.ask, folder, files_of(folder, ledger, wanted), target)

    def _mark(self, checkpoint: CheckpointRow, *, hold: bool) -> bool:
        run = _run_of(checkpoint)
        folder = self._folder_there(run, checkpoint)
        if folder is None:
            return False
        request = {"op": "hold", "folder": str(folder), "id": checkpoint.id, "hold": hold}
        try:
            return bool(self.connection(run).ask(request)["held"])
        except SlurmError as error:
            raise OSError(f"the cluster {self.address(run).shown} cannot be asked: {error}") from error

    def _remove(self, run: StepRun, paths: Sequence[PurePosixPath]) -> None:
        address = self.address(run)
        request = {"op": "remove", "root": address.root, "paths": [str(path) for path in paths]}
        try:
            self.connection(run).ask(request, timeout=600)
        except SlurmError as error:
            raise OSError(f"the cluster {address.shown} cannot be asked: {error}") from error

    def _folder_there(self, run: StepRun, checkpoint: CheckpointRow) -> PurePosixPath | None:
        """The folder of a checkpoint on the cluster, as it was seen last."""
        state = read_state(self.mirror(run._replace(step=checkpoint.step_name)).state)
        name = state.folder_of(checkpoint.id)
        return self.job(run).storage / checkpoint.step_name / "checkpoints" / name if name else None

    def _runs(self, workspace: str, job_id: str) -> list[StepRun]:
        """One start of the job for each cluster that has had any of it."""
        paths = self.jobs.paths(workspace, job_id)
        found: dict[ClusterAddress, StepRun] = {}
        for folder in sorted(paths.runs.glob("task-*")) if paths.runs.is_dir() else []:
            known = submissions.read(folder)
            if known is not None:
                found.setdefault(known.address, StepRun(workspace, job_id, "", "", folder.name))
        return list(found.values())


def _run_of(checkpoint: CheckpointRow) -> StepRun:
    """The start that has written a checkpoint."""
    return StepRun(
        checkpoint.workspace,
        checkpoint.job_id,
        checkpoint.attempt_id or "",
        checkpoint.step_name,
        checkpoint.task or "",
    )


def _is_mirrored(name: str) -> bool:
    """Whether a file of a trainer path is one that comes back from the cluster."""
    return name.startswith(("generations/", "metrics")) or (name.endswith(".json") and "/" not in name)


def _normal(name: str) -> str:
    parts: list[str] = []
    for part in PurePosixPath(name).parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)
