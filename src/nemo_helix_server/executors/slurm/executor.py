"""The executor that runs each start of a step as one job of a Slurm cluster.

A start is handed over at most once: its token is the job's comment, by which a job is found whose reply was
lost, and the shim on the node claims the start before it runs anything. Nothing on the cluster needs a
network to the service: requests, progress, logs and ends pass through files on the shared storage.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from nemo_helix_plugin.jobs.platform_spec import Provider
from nemo_helix_server.executors.background import ObservedInBackground
from nemo_helix_server.executors.base import (
    Admitted,
    AlreadyStartedError,
    CapacityRequest,
    ExecutorError,
    ExecutorKind,
    Launch,
    NeverPossibleError,
    RunObservation,
    RunPlace,
    RunState,
    Software,
    StepExecutor,
    WaitingForCapacity,
)
from nemo_helix_server.executors.options import UnknownPlace
from nemo_helix_server.executors.slurm import checking, folders, job_script, submissions
from nemo_helix_server.executors.slurm.connection import (
    ClusterAddress,
    ClusterConnection,
    ClusterConnections,
    PreparedFolders,
    UnusableClusterError,
)
from nemo_helix_server.executors.slurm.observation import RunRecord, observe, observe_without_job
from nemo_helix_server.executors.slurm.place import ClusterPlace
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_helix_server.executors.slurm.storage import ClusterRunStorage
from nemo_helix_server.executors.slurm.submissions import ClusterSubmission, OpenChains
from nemo_helix_server.settings import ProfileSettings, Settings, SettingsError
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.run_storage import RunStorage
from nemo_runs.clock import SystemClock
from nemo_runs.errors import RunsError
from nemo_runs.findings import Finding
from nemo_slurm.cluster import ClusterLook, JobLook
from nemo_slurm.errors import (
    CommandMissingError,
    NotAcceptedError,
    SchedulerRefusedError,
    SlurmError,
    SubmitLimitError,
    UnusableValueError,
)
from nemo_slurm.records import SlurmJob
from nemo_slurm.refusals import Whose, read_refusal
from nemo_trainer import contract
from nemo_trainer.contract import generations

_LOG = logging.getLogger(__name__)
_SETTLE_SECONDS = 10.0
"""How long a job may take to appear in the queue after a lost reply, before the start is tried again."""
_CHAIN = {"number": 1, "idle": 0, "newest": 0, "most_idle": 1}
"""Of the first allocation, see `nemo_helix_server.executors.slurm.succession`."""
_GRACE_OF_FOLLOWERS = 30.0
_OVER = frozenset({RunState.EXITED, RunState.LOST})
_LIMIT_PAUSE = 15.0
"""Seconds after which the scheduler is asked again whether a limit of the site is still reached."""
_STALE_LOOKS, _STALE_SECONDS = 6, 120.0
"""What was seen of a run counts for so many looks, and for so long at least: schedulers are slow at times."""


class SlurmStepExecutor:
    """Runs steps on clusters; see `nemo_helix_server.executors.base.StepExecutor`.

    `observe` asks each cluster once for all its runs: its scheduler, and our program on its host. It may take
    as long as the network does.
    """

    def __init__(
        self,
        storage: ClusterRunStorage,
        connections: ClusterConnections,
        settings_of: Callable[[StepRun], SlurmSettings],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """``settings_of`` gives the configuration of a run's profile."""
        self.storage = storage
        self._connections = connections
        self._settings_of = settings_of
        self._now = now
        self._chains = OpenChains(storage.jobs.data_dir / "slurm-chains")
        self._users: dict[ClusterAddress, int | None] = {}
        self._limited_until: dict[str | None, float] = {}
        self._gone: set[str] = set()
        """Starts of which the scheduler had no job at the last look, though they were handed over."""
        self._fetches = ThreadPoolExecutor(2, thread_name_prefix="results")
        self._fetching: dict[str, Future[None]] = {}

    def check(self, profile: ProfileSettings, provider: Provider) -> Sequence[Finding]:
        """See `base.Checks`."""
        if not isinstance(profile, SlurmSettings):
            return ()
        connection = self._connections.of(ClusterAddress.of(profile))
        return checking.examine(profile, provider, connection, self.storage.jobs.data_dir, now=self._now)

    # ---- starting

    def admit(self, request: CapacityRequest) -> Admitted | WaitingForCapacity:
        """See the protocol: a cluster has a queue of its own, so a start is handed over at once."""
        self.require_possible(request)
        return Admitted((), 0)

    def require_possible(self, request: CapacityRequest) -> None:
        """See the protocol: what the cluster never gives, its scheduler says when the job is handed over."""
        settings = self._settings_of(request.run)
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
        """See the protocol. Files are brought first, then the job is queued."""
        known = submissions.read(self._folder(run))
        if known is not None and (known.job_id or known.given_up):
            raise AlreadyStartedError(f"{run.token} was started before; every start needs a task of its own")
        settings = launch.place
        if not isinstance(settings, SlurmSettings):
            raise NeverPossibleError(f"the profile of {run.step} is not one of a Slurm cluster")
        connection = self._connections.of(known.address if known else ClusterAddress.of(settings))
        if _may_follow(launch, settings):
            self._chains.add(run)
        try:
            submission = known or ClusterSubmission(
                address=connection.address,
                token=run.token,
                name=job_script.job_name(run.job_id, run.step),
                user=self._user(connection),
                asked_at=self._now(),
            )
            prepared = self._bring(run, launch, settings, connection)
            if prepared.queued is not None:
                self._adopt(run, submission, prepared.queued, connection)
            self._require_wanted(run)
            submission.save(self._folder(run))
            self._submit(run, submission, connection, again=known is not None or prepared.begun)
        except (UnusableClusterError, CommandMissingError, UnusableValueError) as error:
            raise NeverPossibleError(str(error)) from error
        except SchedulerRefusedError as error:
            if _may_pass(error):
                raise ExecutorError(str(error)) from error
            raise NeverPossibleError(f"the cluster does not take the job: {error.text}") from error
        except SlurmError as error:
            raise ExecutorError(str(error)) from error

    def _bring(
        self, run: StepRun, launch: Launch, settings: SlurmSettings, connection: ClusterConnection
    ) -> PreparedFolders:
        """Everything that a start finds on the cluster; fine when some of it is there."""
        job = self.storage.job(run)
        paths = self.storage.paths(run)
        folder = job.run(run.token)
        made = (folder, job.storage / run.step, job.scratch(run.token), PurePosixPath(paths.config_folder))
        prepared = connection.prepare(made, folder)
        if prepared.queued is not None:
            return prepared
        self.storage.bring_inputs(run)
        config = self.storage.jobs.run_folder(run) / run_files.CONFIG_FOLDER / run_files.CONFIG_FILE
        with contextlib.suppress(FileNotFoundError):
            connection.write(PurePosixPath(paths.config_file), config.read_bytes())
        if launch.secrets:
            values = {name: value.reveal() for name, value in launch.secrets.items()}
            connection.write(folder / folders.SECRETS, json.dumps(values).encode())
        memory = launch.needs.memory_bytes or launch.memory_bytes
        script = job_script.render(
            settings,
            replace(launch.needs, memory_bytes=memory),
            name=job_script.job_name(run.job_id, run.step),
            run=folder,
            code=connection.code(),
            exclude=launch.exclude_nodes,
        )
        connection.write(folder / folders.SCRIPT, script.encode())
        order = _order(run, launch, settings, connection.code(), paths.trainer)
        order["start"] = prepared.start
        connection.write(folder / folders.ORDER, json.dumps(order).encode())
        return prepared

    def _require_wanted(self, run: StepRun) -> None:
        """Raise `AlreadyStartedError` for a start that was given up while its files were brought."""
        known = submissions.read(self._folder(run))
        if known is not None and known.given_up:
            raise AlreadyStartedError(f"{run.token} was given up before it was queued")

    def _adopt(
        self, run: StepRun, submission: ClusterSubmission, job_id: str, connection: ClusterConnection
    ) -> None:
        """Take over a start whose job is there already; raises `AlreadyStartedError`."""
        found = connection.cluster.find(run.token)
        job = found or SlurmJob(job_id, None, token=run.token)
        submission.accepted(job, adopted=True).save(self._folder(run))
        raise AlreadyStartedError(f"{run.token} was queued before, as job {job.id}")

    def _submit(
        self, run: StepRun, known: ClusterSubmission, connection: ClusterConnection, *, again: bool
    ) -> ClusterSubmission:
        """Queue the job; one that a limit of the site keeps out waits for it, and is tried again."""
        folder = self.storage.job(run).run(run.token)
        try:
            submitted = connection.cluster.submit(
                str(folder / folders.SCRIPT), token=run.token, folder=str(folder), again=again
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
            self._users[connection.address] = int(said) if said.isdecimal() else None
        return self._users[connection.address]

    # ---- observing

    def find(self, run: StepRun) -> RunObservation | None:
        """See the protocol."""
        seen = self.observe([run])[run.token]
        return None if seen.state is RunState.ABSENT else seen

    def observe(self, runs: Iterable[StepRun]) -> dict[str, RunObservation]:
        """See the protocol."""
        answers: dict[str, RunObservation] = {}
        by_cluster: dict[ClusterAddress, list[tuple[StepRun, ClusterSubmission]]] = {}
        for run in runs:
            known = submissions.read(self._folder(run))
            if known is None:
                answers[run.token] = observe(RunRecord(), None, self._now())
            elif known.given_up or known.over:
                answers[run.token] = observe(self._record(run, known), None, self._now())
            else:
                by_cluster.setdefault(known.address, []).append((run, known))
        by_scheduler: dict[str | None, list[ClusterAddress]] = {}
        for address in by_cluster:
            by_scheduler.setdefault(address.host, []).append(address)
        for addresses in by_scheduler.values():
            answers |= self._look({address: by_cluster[address] for address in addresses})
        return answers

    def _look(
        self, by_cluster: Mapping[ClusterAddress, list[tuple[StepRun, ClusterSubmission]]]
    ) -> dict[str, RunObservation]:
        """Ask one scheduler about all its runs, and each of its storage roots for what is new there."""
        settled = self._settled(by_cluster)
        scheduler = self._connections.of(next(iter(by_cluster))).cluster
        look: ClusterLook | None = None
        problem = ""
        try:
            look = scheduler.observe([job for known in settled.values() if (job := known.job)])
        except SlurmError as error:
            problem = str(error)
        answers: dict[str, RunObservation] = {}
        for address, those in by_cluster.items():
            runs = {run: settled[run] for run, _ in those}
            answers |= self._look_at_files(self._connections.of(address), runs, look, problem)
        return answers

    def _look_at_files(
        self,
        connection: ClusterConnection,
        runs: Mapping[StepRun, ClusterSubmission],
        look: ClusterLook | None,
        problem: str,
    ) -> dict[str, RunObservation]:
        now = self._now()
        try:
            now = self._refresh(connection, list(runs)) or now
        except SlurmError as error:
            if look is None:
                reason = f"{connection.address.shown} cannot be asked: {problem or error}"
                return {run.token: RunObservation(RunState.UNKNOWN, reason=reason) for run in runs}
            _LOG.warning("the files of %s cannot be read: %s", connection.address.shown, error)
            # without its files an end would be taken for another one
            look = None
        seen = {run: self._seen(run, known, look, now) for run, known in runs.items()}
        over = {
            run: replace(runs[run], results_here=runs[run].results_here or one.exit_status == 0)
            for run, one in seen.items()
            if one.state in _OVER and runs[run].job is not None
        }
        if over:
            self._finish(connection, over, look)
        return {run.token: one for run, one in seen.items()}

    def _settled(
        self, by_cluster: Mapping[ClusterAddress, list[tuple[StepRun, ClusterSubmission]]]
    ) -> dict[StepRun, ClusterSubmission]:
        """Of starts whose job is not known: the job, queued now, or found by its token."""
        after = {run: known for those in by_cluster.values() for run, known in those}
        lost = [run for run, known in after.items() if known.job_id is None and not known.waits_for]
        cluster = self._connections.of(next(iter(by_cluster))).cluster
        self._gone.difference_update(run.token for run in lost)
        if lost:
            with contextlib.suppress(SlurmError):
                found = cluster.find_all([run.token for run in lost])
                self._gone.update(run.token for run in lost if run.token not in found)
                for run in lost:
                    job = found.get(run.token) or self._noted_job(run)
                    if job is not None:
                        after[run] = after[run].accepted(job, adopted=run.token not in found)
                        after[run].save(self._folder(run))
        waiting = [run for run, known in after.items() if known.waits_for]
        for run in sorted(waiting, key=lambda run: after[run].asked_at):
            after[run] = self._try_again(run, after[run])
        return after

    def _noted_job(self, run: StepRun) -> SlurmJob | None:
        """The job that has a start, as it says itself: the scheduler may have forgotten it by now."""
        number = self._noted(run, "job_id")
        return SlurmJob(number, None, token=run.token) if number else None

    def _is_replaced(self, run: StepRun) -> bool:
        """Whether a later start than this one has claimed its step, as far as that has come here."""
        number, trainer = self._noted(run, "generation"), self.storage.mirror(run).trainer
        if not number.isdecimal() or number == "0" or generations.is_current(trainer, int(number)):
            return False
        newest = generations.newest(trainer)
        return newest is not None and newest.task != run.token

    def _noted(self, run: StepRun, key: str) -> str:
        """What the allocation says of itself; empty when it does not."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return str(json.loads((self._folder(run) / folders.NODE).read_bytes())[key])
        return ""

    def _try_again(self, run: StepRun, known: ClusterSubmission) -> ClusterSubmission:
        """Queue a job that a limit kept out; while the limit is reached it is asked for seldom."""
        host, now = known.address.host, self._now()
        if now < self._limited_until.get(host, 0.0):
            return known
        try:
            after = self._submit(run, known, self._connections.of(known.address), again=True)
        except SchedulerRefusedError as error:
            if not _may_pass(error):
                # starting it again says why
                after = replace(known, given_up=True, waits_for="")
                after.save(self._folder(run))
                return after
            after = known
        except SlurmError:
            after = known
        if after.job_id is None:
            self._limited_until[host] = now + _LIMIT_PAUSE
        return after

    def _refresh(self, connection: ClusterConnection, runs: list[StepRun]) -> float | None:
        """Bring the mirrors of runs up to date; the time by the cluster's clock."""
        now: float | None = None
        left = list(runs)
        while left:
            answer = connection.look([self._asked(run) for run in left])
            now = float(answer["now"])
            left = [run for run in left if self.storage.mirror(run).apply(answer["runs"][run.token])]
        return now

    def _asked(self, run: StepRun) -> dict[str, Any]:
        job = self.storage.job(run)
        return {
            "token": run.token,
            "run": str(job.run(run.token)),
            "trainer": str(job.storage / run.step),
            "have": self.storage.mirror(run).have(),
        }

    def _seen(
        self, run: StepRun, known: ClusterSubmission, look: ClusterLook | None, now: float
    ) -> RunObservation:
        if known.given_up:
            return observe(self._record(run, known), None, now)
        if known.job is None:
            if known.waits_for:
                return RunObservation(
                    RunState.QUEUED, reason=f"waits for a limit of the cluster: {known.waits_for}"
                )
            # by the service's own clock, which is the one that it was asked by
            long_ago = self._now() - known.asked_at > _SETTLE_SECONDS
            return observe_without_job(
                self._record(run, known), now, gone=run.token in self._gone, asked_long_ago=long_ago
            )
        seen = look[known.job] if look is not None else None
        found = observe(self._record(run, known), seen, now)
        if found.exit_status == 0 and not known.results_here and not self._results_are_here(run):
            # an end counts when the results are here, so that whatever follows finds them
            return RunObservation(
                RunState.RUNNING, started_at=found.started_at, reason="its results are fetched"
            )
        return replace(found, place=self._place(run, known))

    def _place(self, run: StepRun, known: ClusterSubmission) -> str:
        """Which job it is, and on which nodes, once they are known."""
        nodes = self._noted(run, "nodes")
        return f"job {known.job_id} on {nodes}" if nodes else f"job {known.job_id}"

    def _finish(
        self,
        connection: ClusterConnection,
        runs: Mapping[StepRun, ClusterSubmission],
        look: ClusterLook | None,
    ) -> None:
        """What is left to do for runs that are over: in one request for all of them."""
        paths = [str(self.storage.job(run).run(run.token)) for run in runs]
        jobs = [job for known in runs.values() if (job := known.job)]
        again = [job for job in jobs if look is not None and _waits_again(look[job])]
        if again:
            # it would hold an allocation for nothing, and what follows it waits for its end
            with contextlib.suppress(SlurmError):
                connection.cluster.cancel(again)
        with contextlib.suppress(SlurmError):
            connection.ask({"op": "tidy", "runs": paths})
        for run, known in runs.items():
            known.save(self._folder(run))

    def _results_are_here(self, run: StepRun) -> bool:
        """Whether the results were fetched; begins that, and begins it again when it failed."""
        fetch = self._fetching.get(run.token)
        if fetch is None:
            self._fetching[run.token] = self._fetches.submit(self.storage.fetch_outputs, run)
            return False
        if not fetch.done():
            return False
        del self._fetching[run.token]
        if (error := fetch.exception()) is not None:
            _LOG.warning("the results of %s cannot be fetched yet: %s", run.token, error)
            return False
        return True

    def _record(self, run: StepRun, known: ClusterSubmission) -> RunRecord:
        folder = self._folder(run)
        claim = end = started = None
        with contextlib.suppress(RunsError):
            claim = run_files.read_claim(folder)
        with contextlib.suppress(RunsError):
            end = run_files.read_end(folder)
        started = run_files.read_started(folder)
        return RunRecord(
            submitted=True,
            given_up=known.given_up or (claim is not None and claim.identity is None),
            claimed_at=claim.at if claim else None,
            started_at=started[1] if started else None,
            end=end,
            stop_asked=run_files.read_stop(folder) is not None,
            replaced=self._is_replaced(run),
            nodes=self._noted(run, "nodes"),
            scheduler_log=self.storage.mirror(run).scheduler_log(),
        )

    # ---- requests

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
                connection.write(PurePosixPath(self.storage.paths(run).control_file), staged.read_bytes())
                if known.job is not None:
                    connection.cluster.signal(known.job, "USR1")
        os.replace(staged, here)

    def stop(self, run: StepRun, *, grace_seconds: float, stacks: bool = False) -> None:
        """See the protocol."""
        known = submissions.read(self._folder(run))
        if known is None:
            self._give_up_here(run)
            return
        if known.given_up:
            return
        connection, folder = self._connections.of(known.address), self.storage.job(run).run(run.token)
        with _executor_errors():
            if connection.ask({"op": "give_up", "run": str(folder)})["mine"]:
                # nothing of it has begun, and nothing will
                job = known.job or connection.cluster.find(run.token)
                if job is not None:
                    connection.cluster.cancel([job])
                replace(known, given_up=True).save(self._folder(run))
                return
            request = run_files.StopRequest(grace_seconds, stacks)
            if run_files.read_stop(self._folder(run)) != request:
                connection.write(folder / run_files.STOP, json.dumps(request._asdict()).encode())
                run_files.write_stop(self._folder(run), request)
            if known.job is not None:
                connection.cluster.signal(known.job, "TERM")

    def end_chain(self, run: StepRun) -> None:
        """See `base.Continues`."""
        known = submissions.read(self._folder(run))
        if known is None:
            self._chains.end(run)
            return
        connection, job = self._connections.of(known.address), self.storage.job(run)
        with _executor_errors():
            answer = connection.ask({"op": "end_chain", "run": str(job.run(run.token))})
            for start in answer["starts"]:
                if start["job_id"] is None:
                    continue
                follower = SlurmJob(start["job_id"], None, known.asked_at, token=start["token"])
                if start["free"]:
                    connection.cluster.cancel([follower])
                elif connection.cluster.signal(follower, "TERM"):
                    stop = json.dumps({"grace_seconds": _GRACE_OF_FOLLOWERS}).encode()
                    connection.write(job.run(start["token"]) / run_files.STOP, stop)
        self._chains.end(run)

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
            job = known.job or connection.cluster.find(run.token)
            if job is not None:
                connection.cluster.cancel([job])

    def last_request(self, run: StepRun) -> int | None:
        """See the protocol."""
        control = contract.read_control(self._folder(run) / run_files.CONTROL)
        return None if control is None else control.seq

    def close(self) -> None:
        """See the protocol."""
        self._fetches.shutdown(wait=False, cancel_futures=True)
        self._connections.close()

    def _give_up_here(self, run: StepRun) -> None:
        settings = self._settings_of(run)
        ClusterSubmission(
            address=ClusterAddress.of(settings),
            token=run.token,
            name=job_script.job_name(run.job_id, run.step),
            user=None,
            asked_at=self._now(),
            given_up=True,
        ).save(self._folder(run))

    def _folder(self, run: StepRun) -> Any:
        return self.storage.jobs.run_folder(run)


def _order(
    run: StepRun, launch: Launch, settings: SlurmSettings, code: PurePosixPath, trainer: str
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
        "rank": [settings.python, "-P", str(code / "nemo_helix_server/executors/slurm/rank.py")],
        "container": _container(launch, settings),
        "trainer": trainer,
        "goes_on": launch.goes_on,
        "chain": _CHAIN | {"left": chain} if chain else None,
    }


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


def _waits_again(seen: JobLook) -> bool:
    """Whether a job was put back into the queue, where it is of no use."""
    return seen.state is not None and seen.state.name == "PENDING"


def _may_pass(error: SchedulerRefusedError) -> bool:
    """Whether the same job may be taken later: the scheduler could not take it, or never heard of it."""
    return isinstance(error, NotAcceptedError) or read_refusal(error.text).whose is Whose.SCHEDULER


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


def _require_apart(profile: str, root: Path, data_dir: Path) -> None:
    """Raise `SettingsError` where jobs could read the service's keys, since one folder lies in the other."""
    shared, own = root.resolve(), data_dir.resolve()
    if own.is_relative_to(shared) or shared.is_relative_to(own):
        raise SettingsError(
            f"jobs.executors: the root {root} of the profile {profile} and the service's data directory "
            f"{data_dir} lie in each other, and jobs could read the service's keys; name another root"
        )


def _open(settings: Settings) -> StepExecutor:
    """The executor of a service, for all its profiles of clusters."""
    profiles = {
        f"{one.provider}/{one.profile}": one.config
        for one in settings.jobs.executors
        if isinstance(one.config, SlurmSettings)
    }

    def settings_of(run: StepRun) -> SlurmSettings:
        found = profiles.get(run.profile)
        if found is None:
            raise NeverPossibleError(
                f"the execution profile {run.profile or 'of the step'} is not one of a Slurm cluster any "
                "more; put it back into jobs.executors of the service's settings"
            )
        return found

    for name, config in profiles.items():
        _require_apart(name, config.root, settings.data_dir)
    connections = ClusterConnections()
    jobs = JobStorage(settings.data_dir)
    storage = ClusterRunStorage(jobs, connections, lambda run: ClusterAddress.of(settings_of(run)))
    interval = min((one.poll_seconds for one in profiles.values()), default=5.0)
    executor = SlurmStepExecutor(storage, connections, settings_of)
    stale = max(_STALE_LOOKS * interval, _STALE_SECONDS)
    return ObservedInBackground(executor, SystemClock(), interval=interval, stale_after=stale)


KIND = ExecutorKind(open=_open, config=SlurmSettings)
