"""Handing starts of steps over to a Slurm cluster: files first, then a job, at most one for each token."""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from nemo_helix_server.executors.base import (
    AlreadyStartedError,
    ExecutorError,
    Launch,
    NeverPossibleError,
    NotConfinedError,
    RefusedByClusterError,
)
from nemo_helix_server.executors.slurm import job_script, submissions
from nemo_helix_server.executors.slurm.connection import (
    ClusterAddress,
    ClusterConnection,
    ClusterConnections,
    PreparedFolders,
    UnusableClusterError,
)
from nemo_helix_server.executors.slurm.on_cluster import folders
from nemo_helix_server.executors.slurm.ownership import NotOurJobError, OthersMayWriteError
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_helix_server.executors.slurm.storage import ClusterRunStorage
from nemo_helix_server.executors.slurm.submissions import ClusterSubmission, OpenChains, RunList
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs.sizes import size_in_words
from nemo_slurm.errors import (
    CommandMissingError,
    NotAcceptedError,
    NotReachableError,
    SchedulerRefusedError,
    SlurmError,
    SubmitLimitError,
    UnusableValueError,
)
from nemo_slurm.records import SlurmJob
from nemo_slurm.refusals import Whose, read_refusal

_CHAIN = {"number": 1, "idle": 0, "newest": 0}
"""Of the first allocation, see `nemo_helix_server.executors.slurm.on_cluster.succession`."""
NOT_CONFINED = (
    "this service keeps steps to their own files, and on a cluster it cannot: all run as one user, who can "
    "read the files and secrets of every job there; where everybody who may create jobs may see these, the "
    "operator sets shares_user: true in the configuration of the execution profile"
)
_NEEDS_A_PERSON = (
    UnusableClusterError,
    OthersMayWriteError,
    NotOurJobError,
    CommandMissingError,
    UnusableValueError,
)
"""Why a start cannot be made until somebody changes something."""
_PASSES = (Whose.SCHEDULER, Whose.DISK)
"""Refusals of the scheduler that time alone may end."""
_LIMIT_PAUSE = 15.0
"""Seconds after which the scheduler is asked again whether a limit of the site is still reached."""


class ClusterStarts:
    """Brings what a start needs to its cluster, and queues its job; safe for several threads."""

    def __init__(
        self,
        storage: ClusterRunStorage,
        connections: ClusterConnections,
        chains: OpenChains,
        untidied: RunList,
        *,
        most_idle: int = 1,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``untidied``: the starts that have left something on their cluster, and never run any more.

        ``most_idle``: so many allocations in a row may end without a newer checkpoint.
        """
        self._storage = storage
        self._connections = connections
        self._chains = chains
        self._untidied = untidied
        self._most_idle = most_idle
        self._now = now
        self._monotonic = monotonic
        self._users: dict[ClusterAddress, int] = {}
        self._limited_until: dict[str | None, float] = {}
        self._deciding = threading.Lock()
        """Held while a start is recorded as handed over, or as given up."""

    def start(self, run: StepRun, launch: Launch) -> None:
        """See the protocol. Files are brought first, then the job is queued."""
        known = submissions.read(self._folder(run))
        if known is not None and (known.job_id or known.given_up):
            raise AlreadyStartedError(f"{run.token} was started before; every start needs a task of its own")
        settings = launch.profile
        if not isinstance(settings, SlurmSettings):
            raise NeverPossibleError(f"the profile of {run.step} is not one of a Slurm cluster")
        if launch.file_access is not None:
            raise NotConfinedError(NOT_CONFINED)
        connection = self._connections.of(known.address if known else ClusterAddress.of(settings))
        if _may_follow(launch, settings):
            self._chains.add(run)
        try:
            submission = known or ClusterSubmission(
                address=connection.address,
                token=run.token,
                name=job_script.job_name(run.job_id, run.step, run.token),
                user=self._user(connection),
                asked_at=self._now(),
            )
            prepared = self._bring(run, launch, settings, connection, submission.name)
            if prepared.queued is not None:
                self._adopt(run, submission, prepared.queued, connection)
            self._hand_over(run, launch, submission, connection, again=known is not None or prepared.begun)
        except _NEEDS_A_PERSON as error:
            raise NeverPossibleError(str(error)) from error
        except SchedulerRefusedError as error:
            if _may_pass(error):
                raise ExecutorError(str(error)) from error
            asked = _asked_for(launch, settings)
            raise RefusedByClusterError(
                f"the cluster does not take the job: {error.text}; it asks for {asked}"
            ) from error
        except SlurmError as error:
            raise ExecutorError(str(error)) from error

    def _bring(
        self,
        run: StepRun,
        launch: Launch,
        settings: SlurmSettings,
        connection: ClusterConnection,
        name: str,
    ) -> PreparedFolders:
        """Everything that a start finds on the cluster; fine when some of it is there."""
        job = self._storage.job(run)
        paths = self._storage.paths(run)
        folder = job.run(run.token)
        made = (folder, job.storage / run.step, job.scratch(run.token), PurePosixPath(paths.config_folder))
        prepared = connection.prepare(made, folder)
        if prepared.queued is not None:
            return prepared
        self._storage.bring_inputs(run)
        self._storage.bring_checkpoint(run)
        config = self._storage.jobs.run_folder(run) / run_files.CONFIG_FOLDER / run_files.CONFIG_FILE
        with contextlib.suppress(FileNotFoundError):
            connection.write(PurePosixPath(paths.config_file), config.read_bytes())
        memory = launch.needs.memory_bytes or launch.memory_bytes
        script = job_script.render(
            settings,
            replace(launch.needs, memory_bytes=memory),
            name=name,
            run=folder,
            code=connection.code(),
            exclude=launch.exclude_nodes,
        )
        connection.write(folder / folders.SCRIPT, script.encode())
        order = _order(run, launch, settings, connection.code(), paths.trainer, self._most_idle)
        order["start"] = prepared.start
        connection.write(folder / folders.ORDER, json.dumps(order).encode())
        return prepared

    def _hand_over(
        self,
        run: StepRun,
        launch: Launch,
        submission: ClusterSubmission,
        connection: ClusterConnection,
        *,
        again: bool,
    ) -> None:
        """Write the secrets and queue the job; the secrets are there for as long as a job may come of it."""
        self._require_wanted(run)
        try:
            if launch.secrets:
                values = {name: value.reveal() for name, value in launch.secrets.items()}
                path = self._storage.job(run).run(run.token) / folders.SECRETS
                connection.write(path, json.dumps(values).encode())
            with self._deciding:
                self._require_wanted(run)
                submission.save(self._folder(run))
            self._submit(run, submission, connection, again=again)
        except NotReachableError:
            raise  # a job may have come of it; it is found, or given up, which removes them
        except Exception:
            self.tidy(connection, [run])
            raise

    def tidy(self, connection: ClusterConnection, runs: Sequence[StepRun]) -> bool:
        """Remove the secrets and scratch folders of starts of one cluster; whether that could be done now.

        What could not be is remembered, so that it is tried again.
        """
        paths = [str(self._storage.job(run).run(run.token)) for run in runs]
        try:
            connection.ask({"op": "tidy", "runs": paths})
        except SlurmError:
            for run in runs:
                self._untidied.add(run)
            return False
        for run in runs:
            self._untidied.drop(run)
        return True

    def _require_wanted(self, run: StepRun) -> None:
        """Raise `AlreadyStartedError` for a start that was given up while its files were brought."""
        known = submissions.read(self._folder(run))
        if known is not None and known.given_up:
            raise AlreadyStartedError(f"{run.token} was given up before it was queued")

    def give_up(self, run: StepRun, address: ClusterAddress) -> ClusterSubmission | None:
        """Have a start never be queued; gives what was handed over before, which its cluster has to end."""
        with self._deciding:
            known = submissions.read(self._folder(run))
            if known is None:
                ClusterSubmission(
                    address=address,
                    token=run.token,
                    name=job_script.job_name(run.job_id, run.step, run.token),
                    user=None,
                    asked_at=self._now(),
                    given_up=True,
                    asked=False,
                ).save(self._folder(run))
                self._untidied.add(run)
            return known

    def _adopt(
        self, run: StepRun, submission: ClusterSubmission, job_id: str, connection: ClusterConnection
    ) -> None:
        """Take over a start whose job is there already; raises `AlreadyStartedError`."""
        found = connection.cluster.find(run.token, name=submission.own_name)
        job = found or SlurmJob(job_id, None, token=run.token, name="")
        submission.accepted(job, adopted=True).save(self._folder(run))
        raise AlreadyStartedError(f"{run.token} was queued before, as job {job.id}")

    def _submit(
        self, run: StepRun, known: ClusterSubmission, connection: ClusterConnection, *, again: bool
    ) -> ClusterSubmission:
        """Queue the job; one that a limit of the site keeps out waits for it, and is tried again."""
        folder = self._storage.job(run).run(run.token)
        try:
            submitted = connection.cluster.submit(
                str(folder / folders.SCRIPT),
                token=run.token,
                folder=str(folder),
                name=known.own_name,
                again=again,
            )
        except SubmitLimitError as error:
            after = replace(known, waits_for=" ".join(error.text.split()))
        else:
            after = known.accepted(submitted.job)
        after.save(self._folder(run))
        return after

    def _user(self, connection: ClusterConnection) -> int | None:
        """The number of the user who submits on a cluster."""
        if connection.address not in self._users:
            said = connection.host.run("id -u").stdout.strip()
            if not said.isdecimal():
                return None
            self._users[connection.address] = int(said)
        return self._users[connection.address]

    def try_again(self, run: StepRun, known: ClusterSubmission) -> ClusterSubmission:
        """Queue a job that a limit kept out; while the limit is reached it is asked for seldom."""
        host, now = known.address.host, self._monotonic()
        if now < self._limited_until.get(host, 0.0):
            return known
        try:
            connection = self._connections.of(known.address)
            connection.require_own(self._storage.job(run).folder)
            after = self._submit(run, known, connection, again=True)
        except SchedulerRefusedError as error:
            if not _may_pass(error):
                # starting it again says why
                after = replace(known, given_up=True, waits_for="")
                after.save(self._folder(run))
                self._untidied.add(run)
                return after
            after = known
        except SlurmError:
            after = known
        if after.job_id is None:
            self._limited_until[host] = now + _LIMIT_PAUSE
        return after

    def _folder(self, run: StepRun) -> Path:
        return self._storage.jobs.run_folder(run)


def _order(
    run: StepRun, launch: Launch, settings: SlurmSettings, code: PurePosixPath, trainer: str, most_idle: int
) -> dict[str, Any]:
    """What the program of the job reads; no secret value is in it."""
    chain = settings.max_allocations - 1 if _may_follow(launch, settings) else 0
    return {
        "token": run.token,
        "argv": list(launch.argv),
        "environment": dict(launch.environment),
        "working_directory": str(launch.working_directory),
        "time_limit_seconds": launch.time_limit_seconds,
        "grace_seconds": launch.grace_seconds,
        "log_bytes": launch.log_bytes,
        "nodes": launch.needs.nodes,
        "gpus": launch.needs.gpus,
        "cpus": math.ceil(launch.needs.cpus) if launch.needs.cpus else None,
        "rank": ["sh", str(code / "nemo_helix_server/executors/slurm/on_cluster/rank.sh")],
        "container": _container(launch, settings),
        "trainer": trainer,
        "goes_on": launch.goes_on,
        "chain": _CHAIN | {"left": chain, "most_idle": most_idle} if chain else None,
    }


def _asked_for(launch: Launch, settings: SlurmSettings) -> str:
    """What a start asks of the cluster, by the keys of a step's resources, or of its profile."""
    needs = launch.needs
    memory = needs.memory_bytes or launch.memory_bytes
    asked = {
        "partition": settings.partition,
        "num_nodes": needs.nodes,
        "num_gpus": needs.gpus,
        "gpu_type": settings.gpu_type if needs.gpus else None,
        "cpus": math.ceil(needs.cpus) if needs.cpus else settings.cpus,
        "memory": size_in_words(memory, binary=True) if memory else settings.memory,
        "constraint": settings.constraint,
        "time": settings.time,
    }
    return ", ".join(f"{key} {value}" for key, value in asked.items() if value)


def _may_follow(launch: Launch, settings: SlurmSettings) -> bool:
    """Whether the allocation queues another one itself."""
    return launch.goes_on and settings.max_allocations > 1


def _container(launch: Launch, settings: SlurmSettings) -> dict[str, Any] | None:
    if settings.container is None:
        return None
    image = launch.image or settings.container.image
    if image is None:
        return None
    mounts = [f"{settings.root}:{settings.root}", *settings.container.mounts]
    return {"runtime": settings.container.runtime, "image": image, "mounts": mounts}


def _may_pass(error: SchedulerRefusedError) -> bool:
    """Whether the same job may be taken later: the scheduler could not take it, or never heard of it."""
    return isinstance(error, NotAcceptedError) or read_refusal(error.text).whose in _PASSES
