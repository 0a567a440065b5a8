"""The executor that runs each start of a step as one job of a Slurm cluster.

A start is handed over at most once: its token is the job's comment, by which a job is found whose reply was
lost, and the shim on the node claims the start before it runs anything. Nothing on the cluster needs a
network to the service: requests, progress, logs and ends pass through files on the shared storage.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from nemo_helix_plugin.jobs.platform_spec import Provider
from nemo_helix_server.executors.base import (
    Admitted,
    CapacityRequest,
    ExecutorError,
    Launch,
    NeverPossibleError,
    NotConfinedError,
    RunObservation,
    RunPlace,
    Software,
    WaitingForCapacity,
)
from nemo_helix_server.executors.options import UnknownPlace
from nemo_helix_server.executors.slurm import checking, job_script, starts, submissions
from nemo_helix_server.executors.slurm.connection import (
    ClusterAddress,
    ClusterConnection,
    ClusterConnections,
)
from nemo_helix_server.executors.slurm.looks import ClusterLooks
from nemo_helix_server.executors.slurm.on_cluster import folders
from nemo_helix_server.executors.slurm.on_cluster.folders import ClusterFolder
from nemo_helix_server.executors.slurm.ownership import NotOurJobError
from nemo_helix_server.executors.slurm.place import ClusterPlace
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_helix_server.executors.slurm.starts import ClusterStarts
from nemo_helix_server.executors.slurm.storage import ClusterRunStorage
from nemo_helix_server.executors.slurm.submissions import ClusterSubmission, OpenChains, RunList
from nemo_helix_server.executors.slurm.tidying import Tidying
from nemo_helix_server.settings import ProfileSettings
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.run_storage import RunStorage
from nemo_runs.findings import Finding, warning
from nemo_slurm.errors import (
    SlurmError,
    StorageFullError,
    UnusableValueError,
)
from nemo_slurm.observing import has_ended
from nemo_slurm.records import SlurmJob
from nemo_trainer import contract

_LOG = logging.getLogger(__name__)
_GRACE_OF_FOLLOWERS = 30.0
_FULL = "no space is left on the storage of its cluster for the request of"


class SlurmStepExecutor:
    """Runs steps on clusters; see `nemo_helix_server.executors.base.StepExecutor`.

    `observe` asks each cluster once for all its runs: its scheduler, and our program on its host. It may take
    as long as the network does, and is asked by one thread for each host.
    """

    def __init__(
        self,
        storage: ClusterRunStorage,
        connections: ClusterConnections,
        settings_of: Callable[[StepRun], SlurmSettings],
        *,
        most_idle: int = 1,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``settings_of`` gives the configuration of a run's profile.

        ``most_idle``: so many allocations of a step in a row may end without a newer checkpoint.
        """
        self.storage = storage
        self._connections = connections
        self._settings_of = settings_of
        self._now = now
        self._chains = OpenChains(storage.jobs.data_dir / "slurm-chains")
        self._untidied = RunList(storage.jobs.data_dir / "slurm-untidied")
        self._starts = ClusterStarts(
            storage,
            connections,
            self._chains,
            self._untidied,
            most_idle=most_idle,
            now=now,
            monotonic=monotonic,
        )
        self._tidying = Tidying(storage, connections, self._starts, self._untidied, monotonic)
        self._looks = ClusterLooks(storage, connections, self._starts, self._tidying, now, monotonic)

    def warm(self) -> None:
        """See `base.Warms`: what is left on clusters since before is removed, also where nothing runs now."""
        self._tidying.start()

    def check(self, profile: ProfileSettings, provider: Provider) -> Sequence[Finding]:
        """See `base.Checks`."""
        if not isinstance(profile, SlurmSettings):
            return ()
        connection = self._connections.of(ClusterAddress.of(profile))
        connection.expect_change()
        found = checking.examine(profile, provider, connection, self.storage.jobs.data_dir, now=self._now)
        left = [one.shown for one in self.storage.leftovers if one.address.root == str(profile.root)]
        if left:
            text = f"what they may have left is removed when the cluster can be asked: {', '.join(left)}"
            found.append(warning("deleted jobs", text))
        return found

    def admit(self, request: CapacityRequest) -> Admitted | WaitingForCapacity:
        """See the protocol: a cluster has a queue of its own, so a start is handed over at once."""
        self.require_possible(request)
        return Admitted((), 0)

    def require_possible(self, request: CapacityRequest) -> None:
        """See the protocol: what the cluster never gives, its scheduler says when the job is handed over."""
        settings = self._settings_of(request.run)
        if request.confined:
            raise NotConfinedError(starts.NOT_CONFINED)
        with _impossible():
            job_script.render(
                settings,
                request.needs,
                name="check",
                run=PurePosixPath("/check"),
                code=PurePosixPath("/check"),
            )

    def release(self, run: StepRun) -> None:
        """See the protocol."""

    def files(self, run: StepRun) -> RunStorage:  # noqa: ARG002 - the protocol's
        """See the protocol: one object for all clusters."""
        return self.storage

    def place(self, profile: ProfileSettings) -> RunPlace:
        """See the protocol."""
        if not isinstance(profile, SlurmSettings):
            return UnknownPlace()
        return ClusterPlace(profile, self._connections.code_folder(ClusterAddress.of(profile)))

    def software(self, run: StepRun) -> Software | None:
        """See `base.FindsSoftware`: the node has written it down."""
        try:
            said = json.loads((self._folder(run) / folders.NODE).read_bytes())["software"]
            return Software(str(said["name"]), said["digest"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def start(self, run: StepRun, launch: Launch) -> None:
        """See the protocol."""
        self._starts.start(run, launch)

    def observe(self, runs: Iterable[StepRun]) -> dict[str, RunObservation]:
        """See the protocol."""
        return self._looks.observe(runs)

    def request_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol."""
        self._request(run, contract.Control(seq, "pause", by, at))

    def withdraw_pause(self, run: StepRun, *, seq: int, by: str, at: float) -> None:
        """See the protocol."""
        self._request(run, contract.Control(seq, "run", by, at))

    def _request(self, run: StepRun, control: contract.Control) -> None:
        """Write a request into the run's folder there, and here when it has arrived; wake the trainer."""
        here = self._folder(run) / run_files.CONTROL
        before = contract.read_control(here)
        if before is not None and before.seq > control.seq:
            return
        here.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        staged = here.with_name(f"{here.name}.sent")
        contract.write_control(staged, control)
        known = submissions.read(self._folder(run))
        if known is not None:
            connection = self._connections.of(known.address)
            with _executor_errors():
                there, signal = PurePosixPath(self.storage.paths(run).control_file), "USR1"
                try:
                    connection.deliver(there.parent, there.name, staged.read_bytes())
                except StorageFullError:
                    if control.want != "pause" or known.job is None:
                        raise
                    signal = "TERM"  # it saves what it can and leaves, without reading a request
                    submissions.note_fallback(
                        self._folder(run), f"{_FULL} a pause, so it is asked by SIGTERM"
                    )
                if known.job is not None:
                    connection.cluster.signal(known.job, signal)
        os.replace(staged, here)

    def stop(self, run: StepRun, *, grace_seconds: float, stacks: bool = False) -> None:
        """See the protocol."""
        known = submissions.read(self._folder(run))
        if known is None:
            known = self._starts.give_up(run, ClusterAddress.of(self._settings_of(run)))
        if known is None or known.given_up:
            return
        connection, folder = self._connections.of(known.address), self.storage.job(run).run(run.token)
        with _executor_errors():
            try:
                free = connection.ask({"op": "give_up", "run": str(folder)})["mine"]
            except NotOurJobError as error:
                self._leave_to_other(run, known, error)
                return
            except StorageFullError:
                self._cancel_unheard(run, known, connection, grace_seconds)
                return
            if free:
                # nothing of it has begun, and nothing will
                job = known.job or connection.cluster.find(run.token, name=known.own_name)
                if job is not None:
                    connection.cluster.cancel([job])
                replace(known, given_up=True).save(self._folder(run))
                return
            request = run_files.StopRequest(grace_seconds, stacks)
            if run_files.read_stop(self._folder(run)) != request:
                try:
                    connection.deliver(folder, run_files.STOP, json.dumps(request._asdict()).encode())
                except StorageFullError:
                    self._cancel_unheard(run, known, connection, grace_seconds)
                    return
                run_files.write_stop(self._folder(run), request)
            if known.job is not None:
                connection.cluster.signal(known.job, "TERM")

    def _leave_to_other(self, run: StepRun, known: ClusterSubmission, error: NotOurJobError) -> None:
        """For this service a start is over; what runs on the cluster is another one's."""
        _LOG.warning("%s", error)
        replace(known, given_up=True).save(self._folder(run))

    def _cancel_unheard(
        self, run: StepRun, known: ClusterSubmission, connection: ClusterConnection, grace_seconds: float
    ) -> None:
        """Have the scheduler end a job that no request can reach, since its storage is full."""
        job = known.job or connection.cluster.find(run.token, name=known.own_name)
        if job is not None:
            run_files.write_stop(self._folder(run), run_files.StopRequest(grace_seconds, False))
            submissions.note_fallback(
                self._folder(run), f"{_FULL} its end, so its job {job.id} is cancelled by the scheduler"
            )
            connection.cluster.cancel([job])

    def end_chain(self, run: StepRun) -> None:
        """See `base.Continues`."""
        last = self._last_asked(run)
        if last is not None:  # else no job of it was ever in a queue, and none follows
            first, known = last
            folder = ClusterFolder(PurePosixPath(known.address.root)).job(run.job_id).run(first.token)
            end = functools.partial(self._end_followers, run=first, known=known, folder=folder)
            with _executor_errors(), contextlib.suppress(NotOurJobError):  # nor is what follows
                self.storage.ask_any_way(known.address, folder, end)
        self._chains.end(run)

    def _last_asked(self, run: StepRun) -> tuple[StepRun, ClusterSubmission] | None:
        """The start, or else one before it in its chain, of which a job may have been queued."""
        for one in [run, *self._chains.up_to(run)]:
            known = submissions.read(self._folder(one))
            if known is not None and known.asked:
                return one, known
        return None

    def _end_followers(
        self, connection: ClusterConnection, *, run: StepRun, known: ClusterSubmission, folder: PurePosixPath
    ) -> None:
        answer = connection.ask({"op": "end_chain", "run": str(folder)})
        for start in answer["starts"]:
            if not start["free"] and not start["over"]:
                # its program reads that when it is signalled, and whatever it finds then is asked for
                stop = run_files.StopRequest(_GRACE_OF_FOLLOWERS, False)
                request = json.dumps(stop._asdict()).encode()
                with contextlib.suppress(StorageFullError):  # the signal ends it all the same
                    connection.deliver(folder.with_name(start["token"]), run_files.STOP, request)
            if start["job_id"] is not None and not start["over"]:
                follower = known.follower(run, start["token"], start["job_id"])
                self._end_follower(connection, follower, free=start["free"])

    def _end_follower(self, connection: ClusterConnection, follower: SlurmJob, *, free: bool) -> None:
        """Take a job out of the queue, or have its command ended; raises where neither can be had yet."""
        cluster = connection.cluster
        if not cluster.cancel([follower]) if free else cluster.signal(follower, "TERM"):
            return
        seen = cluster.observe([follower])[follower]
        if seen.state is None or has_ended(seen.state):
            return  # it is gone; what has its number is somebody else's
        # one that was put back into the queue is of no use there
        if seen.state.name == "PENDING" and not cluster.cancel([follower]):
            return
        raise ExecutorError(
            f"job {follower.id} of {connection.address.shown}, which goes on with the step, is "
            f"{seen.state.name}, and can be ended neither in the queue nor by a signal yet"
        )

    def open_chains(self) -> Sequence[StepRun]:
        """See `base.KnowsChains`."""
        return self._chains.runs()

    def kill(self, run: StepRun) -> None:
        """See the protocol."""
        known = submissions.read(self._folder(run))
        if known is None:
            return
        connection = self._connections.of(known.address)
        with _executor_errors():
            try:
                connection.require_own(self.storage.job(run).folder)
            except NotOurJobError as error:
                self._leave_to_other(run, known, error)
                return
            except SlurmError:
                pass  # what the scheduler knows of it carries its token
            job = known.job or connection.cluster.find(run.token, name=known.own_name)
            if job is not None:
                connection.cluster.cancel([job])

    def last_request(self, run: StepRun) -> int | None:
        """See the protocol."""
        control = contract.read_control(self._folder(run) / run_files.CONTROL)
        return None if control is None else control.seq

    def close(self) -> None:
        """See the protocol."""
        self._tidying.close()
        self._looks.close()
        self.storage.close()
        self._connections.close()

    def _folder(self, run: StepRun) -> Path:
        return self.storage.jobs.run_folder(run)


@contextlib.contextmanager
def _executor_errors() -> Any:
    """What a cluster cannot do now is tried again."""
    try:
        yield
    except SlurmError as error:
        raise ExecutorError(str(error)) from error


@contextlib.contextmanager
def _impossible() -> Any:
    try:
        yield
    except UnusableValueError as error:
        raise NeverPossibleError(str(error)) from error
