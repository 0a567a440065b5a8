"""The files of runs on a cluster: the job's folder lies on its shared storage, and the service has a mirror.

What a run finds there is brought by `nemo_helix_server.executors.slurm.executor` before it is queued; what it
leaves comes back with every look (`nemo_helix_server.executors.slurm.mirror`). See
`nemo_helix_server.storage.run_storage.RunStorage`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import shutil
import threading
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from nemo_helix_server.executors.slurm import submissions
from nemo_helix_server.executors.slurm.connection import (
    ClusterAddress,
    ClusterConnection,
    ClusterConnections,
    UnusableClusterError,
)
from nemo_helix_server.executors.slurm.leftovers import Leftover, Leftovers, ask_any_way, ways
from nemo_helix_server.executors.slurm.mirror import Mirror, read_state
from nemo_helix_server.executors.slurm.on_cluster import looking
from nemo_helix_server.executors.slurm.on_cluster.folders import ClusterFolder, ClusterJob
from nemo_helix_server.executors.slurm.ownership import NotOurJobError
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
from nemo_runs.processes.daemon_threads import DaemonThreads
from nemo_slurm.errors import NotReachableError, SlurmError
from nemo_trainer import contract

_LOG = logging.getLogger(__name__)
UNUSED_SECONDS = 7 * 86_400
"""How long input files that no job has any more stay in a cluster's cache."""

Answer = TypeVar("Answer")


class ClusterTrainerFiles:
    """The trainer path of a step on a cluster, as it was seen last; see `TrainerFiles`."""

    def __init__(self, where: str, mirror: Mirror, storage: Path) -> None:
        self.where = where
        self._files = LocalTrainerFiles(mirror.trainer, storage)
        self._mirror = mirror

    def marks(self) -> TrainerMarks:
        """See the protocol."""
        return self._files.marks()

    def checkpoints_mark(self) -> Hashable:
        """See the protocol."""
        found = read_state(self._mirror.state).checkpoints
        return looking.listed_mark(found) if found else None

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
        return read_state(self._mirror.state).seen(self.where)

    def output_problems(self, *, deep: bool) -> Sequence[str] | None:
        """See the protocol; digests are compared with the copies at the service."""
        return self._files.output_problems(deep=True) if deep else self._mirror.output_problems()


class ClusterRunStorage:
    """The folders of jobs on clusters, with their mirrors in the service's data directory."""

    def __init__(
        self,
        jobs: JobStorage,
        connections: ClusterConnections,
        address_of: Callable[[StepRun], ClusterAddress],
        present: Callable[[], Iterable[ClusterAddress]] = lambda: (),
    ) -> None:
        """``address_of`` names the cluster of a run that was not handed over yet, by its profile.

        ``present``: the clusters of all profiles, as they are named now.
        """
        self.jobs = jobs
        self._connections = connections
        self._address_of = address_of
        self._present = present
        self.leftovers = Leftovers(jobs.data_dir / "slurm-leftovers")
        """The folders of deleted jobs that are still to be removed."""
        self._threads = DaemonThreads(2, "checkpoints")
        self._handed: dict[str, Future[None]] = {}
        self._to_bring: dict[str, tuple[Path, PurePosixPath]] = {}
        """Checkpoints that runs start from: the service's copy of each, and where the run finds it."""
        self._moving = threading.Lock()
        """Held while checkpoints come here: what pins one removes its own copy again."""

    # ---- names

    def address(self, run: StepRun) -> ClusterAddress:
        """The cluster that has a run: where it was handed over, or else that of its profile."""
        known = submissions.read(self.jobs.run_folder(run)) if run.token else None
        return known.address if known else self._address_of(run)

    def owner(self, run: StepRun) -> ClusterAddress | None:
        """The cluster that has the trainer path of a run's step; `None`: it is at the service."""
        state = self.mirror(run).state
        if not state.exists():
            return None
        said = read_state(state).address
        return ClusterAddress.from_json(said) if said else self.address(run)

    def connection(self, run: StepRun) -> ClusterConnection:
        """The connection to it."""
        return self._connections.of(self.address(run))

    def job(self, run: StepRun) -> ClusterJob:
        """The job's folder on the cluster."""
        return ClusterFolder(PurePosixPath(self.address(run).root)).job(run.job_id)

    def mirror(self, run: StepRun) -> Mirror:
        """What the service has of a run."""
        paths = self.jobs.of_run(run)
        seen = paths.cluster
        return Mirror(
            paths.run_folder(run.token),
            paths.trainer(run.step),
            state=seen / f"{run.step}.json",
            fetched=seen / f"{run.step}.fetched",
        )

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
        """See the protocol; a pinned copy, or one that another executor has left here, is still to be brought
        there, by `bring_checkpoint`."""
        there = self._folder_there(run, checkpoint)
        if there is not None and self.owner(run) == self.address(run):
            return str(there)
        here = checkpoints.folder_of(self.jobs, checkpoint)
        if here is None:
            return None
        target = self.job(run).folder / "pinned" / checkpoint.id
        self._to_bring[run.token] = (here, target)
        return str(target)

    def bring_checkpoint(self, run: StepRun) -> None:
        """Bring the checkpoint that `checkpoint_path` has promised a run; fine when there is none."""
        promised = self._to_bring.get(run.token)
        if promised is not None:
            here, target = promised
            self.bring(run, here, target, f"checkpoint-{target.name}")
            self._to_bring.pop(run.token, None)

    def hold(self, checkpoint: CheckpointRow) -> bool:
        """See the protocol."""
        return self._mark(checkpoint, hold=True)

    def pin(self, checkpoint: CheckpointRow) -> str:
        """See the protocol; the checkpoint is fetched first."""
        with self._moving:
            return self._pin(checkpoint)

    def _pin(self, checkpoint: CheckpointRow) -> str:
        run = _run_of(checkpoint)
        here = self.jobs.of_run(run).trainer(checkpoint.step_name) / "checkpoints" / str(checkpoint.step)
        owner, there = self.owner(run), self._folder_there(run, checkpoint)
        if owner is None:  # it was handed over meanwhile
            return checkpoints.pin(self.jobs, checkpoint)
        if there is None:
            raise checkpoints.PinError(f"the checkpoint {checkpoint.id} is not there any more")
        try:
            connection = self._connections.of(owner)
            connection.require_own(ClusterFolder(PurePosixPath(owner.root)).job(run.job_id).folder)
            connection.host.copy_out(str(there), here)
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
        """See the protocol: on clusters; what of it is here is counted with the data directory."""
        folder = self.jobs.paths(workspace, job_id).cluster
        there: dict[str, int] = {}
        for file in folder.glob("*.json"):
            state = read_state(file)
            key = json.dumps(state.address)
            there[key] = max(there.get(key, 0), state.bytes)
        return sum(there.values())

    def reclaim(self, workspace: str, job_id: str) -> None:
        """See the protocol; what of it is here goes with the data directory's."""
        for address in self._addresses(workspace, job_id):
            job = ClusterFolder(PurePosixPath(address.root)).job(job_id)
            self._remove(address, [job.storage, job.folder / "scratch", job.folder / "pinned"])
        for state in (self.jobs.paths(workspace, job_id).cluster).glob("*.json"):
            state.unlink(missing_ok=True)  # it says what is there

    def discard(self, workspace: str, job_id: str) -> None:
        """See the protocol; what lies on a cluster that cannot be reached is removed when it can be."""
        for address in self._addresses(workspace, job_id):
            folder = ClusterFolder(PurePosixPath(address.root)).job(job_id).folder
            try:
                self._remove(address, [folder])
            except OSError as error:
                if not isinstance(error.__cause__, NotReachableError | UnusableClusterError):
                    raise
                self.leftovers.add(Leftover(address, folder), error.__cause__)
        self.jobs.discard(self.jobs.paths(workspace, job_id).folder)

    def remove_leftovers(self, hosts: Container[str | None]) -> bool:
        """Remove what deleted jobs have left where a host leads to it; whether all could be removed."""
        failed = False
        for one in self.leftovers:
            if any(way.host in hosts for way in ways(one.address, self._present())):
                try:
                    self._remove(one.address, [one.folder])
                    self.leftovers.drop(one)
                except OSError:
                    failed = True
        return not failed

    def ways_to_leftovers(self) -> list[ClusterAddress]:
        """How what deleted jobs have left can be reached."""
        present = list(self._present())
        return [way for one in self.leftovers for way in ways(one.address, present)]

    def ask_any_way(
        self, address: ClusterAddress, folder: PurePosixPath, ask: Callable[[ClusterConnection], Answer]
    ) -> Answer:
        """See `leftovers.ask_any_way`: by the host and the interpreter that profiles name now, if need be."""
        return ask_any_way(self._connections, address, self._present(), folder, ask)

    def close(self) -> None:
        """Fetch no more checkpoints for other executors."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # ---- files that go there

    def bring_inputs(self, run: StepRun) -> int:
        """Bring what the job's storage holds to the cluster; how many files had to be sent.

        What the step itself writes there is newer than its mirror here, and stays.
        """
        paths = self.jobs.of_run(run)
        address, owner = self.address(run), self.owner(run)
        if owner is not None and owner != address:
            self._bring_home(run, owner)
            owner = None
        made = self._outputs(run) if owner is not None else set()

        def wanted(name: str) -> bool:
            if name.partition("/")[0] == run.step:
                return owner is None
            return name not in made

        def constant(name: str) -> bool:
            step, _, rest = name.partition("/")
            return step != run.step or rest.startswith("checkpoints/")

        sent = self._push(run, paths.storage, self.job(run).storage, "storage", wanted, constant)
        if owner is None:
            self.mirror(run).belongs_to(address.to_json())
            shutil.rmtree(paths.trainer(run.step) / "checkpoints", ignore_errors=True)
        return sent

    def hand_over(self, run: StepRun) -> None:
        """See `run_storage.HandsOver`."""
        key = f"{run.workspace}/{run.job_id}/{run.step}"
        owner, fetch = self.owner(run), self._handed.get(key)
        if owner is None and fetch is None:
            return
        if fetch is None:
            assert owner is not None
            self._handed[key] = fetch = self._threads.submit(self._bring_home, run, owner)
        where = owner.shown if owner is not None else "the cluster"
        if not fetch.done():
            raise OSError(f"its checkpoints are fetched from {where}")
        del self._handed[key]
        if (error := fetch.exception()) is not None:
            raise OSError(f"its checkpoints cannot be fetched from {where}: {error}") from error

    def _bring_home(self, run: StepRun, owner: ClusterAddress) -> None:
        """The trainer path of a step lies at the service from now on, and on no cluster."""
        connection = self._connections.of(owner)
        job = ClusterFolder(PurePosixPath(owner.root)).job(run.job_id)
        connection.require_own(job.folder)
        there = job.storage / run.step
        here = self.jobs.of_run(run).trainer(run.step)
        here.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._moving:
            connection.host.copy_out(str(there), here, wanted=_is_of_trainer)
            self.mirror(run).belongs_here()
        with contextlib.suppress(OSError):  # what stays there goes with the job
            self._remove(owner, [there])

    def _outputs(self, run: StepRun) -> set[str]:
        """The files of the job's storage that the step itself has made, on the cluster."""
        with contextlib.suppress(contract.TrainerError):
            said = contract.read_outputs(self.mirror(run).trainer, within=self.jobs.of_run(run).storage)
            if said is not None:
                return {_normal(str(PurePosixPath(run.step, file.path))) for file in said.files}
        return set()

    def bring(self, run: StepRun, folder: Path, target: PurePosixPath, name: str) -> int:
        """Bring a folder of files that nobody writes to."""
        return self._push(run, folder, target, name, lambda _path: True, lambda _path: True)

    def fetch_outputs(self, run: StepRun) -> None:
        """Copy what the step says it has produced into the job's storage here; digests are compared.

        Raises `SlurmError` when it cannot be had now.
        """
        mirror = self.mirror(run)
        storage, wanted = self.jobs.of_run(run).storage, self._outputs(run)
        if not wanted:
            return
        there = str(self.job(run).storage)
        problems: Sequence[str] = ()
        for _ in range(2):
            self.connection(run).host.copy_out(there, storage, wanted=wanted.__contains__)
            problems = contract.verify_outputs(mirror.trainer, storage=storage, deep=True)
            if not problems:
                break
            for name in wanted:
                (storage / name).unlink(missing_ok=True)
        mirror.note_fetched(problems)

    # ---- parts

    def _push(
        self,
        run: StepRun,
        folder: Path,
        target: PurePosixPath,
        name: str,
        wanted: Callable[[str], bool],
        constant: Callable[[str], bool],
    ) -> int:
        ledger = self.jobs.of_run(run).cluster / f"sent-{name}.digests"
        ledger.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        connection = self.connection(run)
        connection.prepare([target])
        files = files_of(
            folder, ledger, wanted, may_follow=functools.partial(self._may_follow, run), constant=constant
        )
        return push(connection.host, connection.ask, folder, files, target, connection.folder.cache)

    def _may_follow(self, run: StepRun, target: Path) -> bool:
        """Whether a file that a link leads to may leave this machine: no step's link opens the service's."""
        if target.is_relative_to(self.jobs.of_run(run).storage.resolve()):
            return True
        own = self.jobs.data_dir.resolve()
        return not target.is_relative_to(own) or target.is_relative_to(own / "filesets")

    def _mark(self, checkpoint: CheckpointRow, *, hold: bool) -> bool:
        run = _run_of(checkpoint)
        owner, folder = self.owner(run), self._folder_there(run, checkpoint)
        if owner is None or folder is None:
            return False
        request = {"op": "hold", "folder": str(folder), "id": checkpoint.id, "hold": hold}
        try:
            return bool(self._connections.of(owner).ask(request)["held"])
        except SlurmError as error:
            raise OSError(f"the cluster {owner.shown} cannot be asked: {error}") from error

    def _remove(self, address: ClusterAddress, paths: Sequence[PurePosixPath]) -> None:
        request = {
            "op": "remove",
            "root": address.root,
            "paths": [str(path) for path in paths],
            "unused_seconds": UNUSED_SECONDS,
        }
        try:
            self.ask_any_way(address, paths[0].parent, lambda one: one.ask(request, timeout=600))
        except NotOurJobError as error:
            _LOG.warning("%s", error)  # it is not this service's to remove
        except SlurmError as error:
            raise OSError(f"the cluster {address.shown} cannot be asked: {error}") from error

    def _folder_there(self, run: StepRun, checkpoint: CheckpointRow) -> PurePosixPath | None:
        """The folder of a checkpoint on the cluster that has the step's trainer path, as it was seen last."""
        run = run._replace(step=checkpoint.step_name)
        owner = self.owner(run)
        name = read_state(self.mirror(run).state).folder_of(checkpoint.id)
        if owner is None or name is None:
            return None
        job = ClusterFolder(PurePosixPath(owner.root)).job(run.job_id)
        return job.storage / checkpoint.step_name / "checkpoints" / name

    def _addresses(self, workspace: str, job_id: str) -> list[ClusterAddress]:
        """The clusters that have had any of a job."""
        runs = self.jobs.paths(workspace, job_id).runs
        known = [submissions.read(folder) for folder in runs.glob("task-*")] if runs.is_dir() else []
        return list(dict.fromkeys(one.address for one in known if one is not None))


def _run_of(checkpoint: CheckpointRow) -> StepRun:
    """The start that has written a checkpoint."""
    return StepRun(
        checkpoint.workspace,
        checkpoint.job_id,
        checkpoint.attempt_id or "",
        checkpoint.step_name,
        checkpoint.task or "",
    )


def _is_of_trainer(name: str) -> bool:
    """Whether a file of a trainer path is more than what its library works with."""
    if name.startswith(("generations/", "metrics", "checkpoints/", "evaluations/")):
        return True
    return name.endswith(".json") and "/" not in name and not name.startswith(".")


def _normal(name: str) -> str:
    parts: list[str] = []
    for part in PurePosixPath(name).parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)
