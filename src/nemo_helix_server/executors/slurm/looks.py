"""Looking at starts on clusters: what their schedulers and their files say, and what follows from an end."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from nemo_helix_server.executors.base import (
    RunObservation,
    RunState,
)
from nemo_helix_server.executors.slurm import submissions
from nemo_helix_server.executors.slurm.connection import (
    ClusterAddress,
    ClusterConnection,
    ClusterConnections,
)
from nemo_helix_server.executors.slurm.observation import RunRecord, observe, observe_without_job
from nemo_helix_server.executors.slurm.on_cluster import folders
from nemo_helix_server.executors.slurm.starts import ClusterStarts
from nemo_helix_server.executors.slurm.storage import ClusterRunStorage
from nemo_helix_server.executors.slurm.submissions import ClusterSubmission
from nemo_helix_server.executors.slurm.tidying import Tidying
from nemo_helix_server.storage import run_files, start_remains
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs.errors import RunsError
from nemo_runs.processes.daemon_threads import DaemonThreads
from nemo_slurm.cluster import ClusterLook, JobLook
from nemo_slurm.errors import (
    SlurmError,
)
from nemo_slurm.records import SlurmJob
from nemo_trainer.contract import generations
from nemo_trainer.contract.allocation import FILE as ALLOCATION_FILE
from nemo_trainer.contract.allocation import read_allocation

_LOG = logging.getLogger(__name__)
_SETTLE_SECONDS = 10.0
"""How long a job may take to appear in the queue after a lost reply, before the start is tried again."""
_ACCOUNTING_LAG = 600.0
"""How long accounting may take to write down the end of a job that the controller has forgotten."""
_THOROUGH_SECONDS = 60.0
"""How often sizes are looked at, of every file in the storage of a job."""
_OVER = frozenset({RunState.EXITED, RunState.LOST})


class ClusterLooks:
    """Asks each cluster once for all its runs: its scheduler, and our program on its host."""

    def __init__(
        self,
        storage: ClusterRunStorage,
        connections: ClusterConnections,
        starts: ClusterStarts,
        tidying: Tidying,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``starts`` queues again what a limit of the site has kept out, and removes what starts leave.

        ``tidying`` has what could not be removed before. How long something lasts is measured by
        ``monotonic``: ``now`` may be set.
        """
        self._storage = storage
        self._connections = connections
        self._starts = starts
        self._tidying = tidying
        self._now = now
        self._monotonic = monotonic
        self._problems: dict[ClusterAddress, str] = {}
        """Why the files of a cluster could not be read at the last look."""
        self._gone: set[str] = set()
        """Starts of which the scheduler had no job at the last look, though they were handed over."""
        self._thorough: dict[str, float] = {}
        """When everything in a run's storage was looked at last."""
        self._unseen: dict[str, float] = {}
        """Since when the scheduler, though it answers, says nothing of the job of a run."""
        self._without_job: dict[str, float] = {}
        """Since when a start that was handed over has been looked at without a job of it."""
        self._fetches = DaemonThreads(2, "results")
        self._fetching: dict[str, Future[None]] = {}

    def observe(self, runs: Iterable[StepRun]) -> dict[str, RunObservation]:
        """See the protocol."""
        answers: dict[str, RunObservation] = {}
        by_cluster: dict[ClusterAddress, list[tuple[StepRun, ClusterSubmission]]] = {}
        for run in runs:
            known = submissions.read(self._folder(run))
            if known is None:
                answers[run.token] = observe(RunRecord(), None, self._now())
            elif known.given_up:
                answers[run.token] = observe(self._record(run, known), None, self._now())
            else:
                by_cluster.setdefault(known.address, []).append((run, known))
        by_scheduler: dict[str | None, list[ClusterAddress]] = {}
        for address in by_cluster:
            by_scheduler.setdefault(address.host, []).append(address)
        for addresses in by_scheduler.values():
            answers |= self._look({address: by_cluster[address] for address in addresses})
        self._tidying.on(by_scheduler)
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
        now, unseen = self._now(), ""
        others: dict[str, str] = {}
        try:
            now = self._refresh(connection, list(runs), others) or now
            self._problems.pop(connection.address, None)
        except SlurmError as error:
            if look is None:
                reason = f"{connection.address.shown} cannot be asked: {problem or error}"
                return {run.token: RunObservation(RunState.UNKNOWN, reason=reason) for run in runs}
            problem = f"the files of {connection.address.shown} cannot be read: {error}"
            if self._problems.get(connection.address) != problem:
                _LOG.warning("%s", problem)
            self._problems[connection.address] = unseen = problem
            # without its files an end would be taken for another one
            look = None
        ours = {run: known for run, known in runs.items() if run.token not in others}
        seen = {run: self._seen(run, known, look, now) for run, known in ours.items()}
        over = {
            run: replace(runs[run], results_here=runs[run].results_here or self._has_results(run, one))
            for run, one in seen.items()
            if one.state in _OVER and runs[run].job is not None
        }
        if over:
            self._finish(connection, over, look)
        found = {run.token: replace(one, unseen=unseen) for run, one in seen.items()}
        return found | {
            token: RunObservation(RunState.UNKNOWN, reason=why, unseen=why) for token, why in others.items()
        }

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
                found = cluster.find_all({run.token: after[run].own_name for run in lost})
                self._gone.update(run.token for run in lost if run.token not in found)
                for run in lost:
                    job = found.get(run.token) or self._noted_job(run)
                    if job is not None:
                        after[run] = after[run].accepted(job, adopted=run.token not in found)
                        after[run].save(self._folder(run))
        waiting = [run for run, known in after.items() if known.waits_for]
        for run in sorted(waiting, key=lambda run: after[run].asked_at):
            after[run] = self._starts.try_again(run, after[run])
        return after

    def _noted_job(self, run: StepRun) -> SlurmJob | None:
        """The job that has a start, as it says itself: the scheduler may have forgotten it by now."""
        number = self._noted(run, "job_id")
        return SlurmJob(number, None, token=run.token, name="") if number else None

    def _noted(self, run: StepRun, key: str) -> str:
        """What the allocation says of itself; empty when it does not."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return str(json.loads((self._folder(run) / folders.NODE).read_bytes())[key])
        return ""

    def _refresh(
        self, connection: ClusterConnection, runs: list[StepRun], others: dict[str, str]
    ) -> float | None:
        """Bring the mirrors of runs up to date; the time by the cluster's clock.

        Runs of other services' jobs are put into ``others``, by their tokens, each with the reason.
        """
        now: float | None = None
        left = list(runs)
        while left:
            answer = connection.look([self._asked(run) for run in left])
            now = float(answer["now"])
            self._thorough |= {run.token: self._monotonic() for run in left if self._is_due(run)}
            others |= answer["others"]
            ours = [run for run in left if run.token not in others]
            left = [run for run in ours if self._storage.mirror(run).apply(answer["runs"][run.token])]
        return now

    def _is_due(self, run: StepRun) -> bool:
        """Whether everything in the run's storage is looked at, and not only what has another name."""
        return self._monotonic() - self._thorough.get(run.token, -math.inf) >= _THOROUGH_SECONDS

    def _asked(self, run: StepRun) -> dict[str, Any]:
        job = self._storage.job(run)
        return {
            "token": run.token,
            "run": str(job.run(run.token)),
            "trainer": str(job.storage / run.step),
            "have": self._storage.mirror(run).have() | {"thorough": self._is_due(run)},
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
            long_ago = self._asked_long_ago(run, known)
            return observe_without_job(
                self._record(run, known), now, gone=run.token in self._gone, asked_long_ago=long_ago
            )
        self._without_job.pop(run.token, None)
        seen = look[known.job] if look is not None else None
        record = self._record(run, known)
        found = observe(record, seen, now, unseen_for=self._unseen_for(run, seen, look))
        if not known.results_here and self._has_results(run, found) and not self._results_are_here(run):
            # an end counts when the results are here, so that whatever follows finds them
            return RunObservation(
                RunState.RUNNING, started_at=found.started_at, reason="its results are fetched"
            )
        eligible_at = seen.eligible_at if seen is not None else None
        return replace(
            found,
            place=self._place(run, known),
            eligible_at=eligible_at,
            fallback=submissions.read_fallback(self._folder(run)),
        )

    def _asked_long_ago(self, run: StepRun, known: ClusterSubmission) -> bool:
        """Whether a job of a start would be seen by now.

        By the service's own clock, by which it was asked; or since this service has looked for it, where that
        clock was set back.
        """
        since = self._without_job.setdefault(run.token, self._monotonic())
        return self._now() - known.asked_at > _SETTLE_SECONDS or self._monotonic() - since > _SETTLE_SECONDS

    def _has_results(self, run: StepRun, found: RunObservation) -> bool:
        """Whether a run is over and has completed its work, however it ended then."""
        if found.state not in _OVER:
            return False
        return found.exit_status == 0 or start_remains.says_done(self._storage.trainer(run), run.token)

    def _unseen_for(self, run: StepRun, seen: JobLook | None, look: ClusterLook | None) -> float | None:
        """Seconds for which the scheduler has had no job of a run; `None`: it has one, or does not say.

        Where accounting answers, it may yet say how the job ended, so it is waited for longer.
        """
        if seen is None or look is None or look.controller is not None:
            return None
        if seen.state is not None:
            self._unseen.pop(run.token, None)
            return None
        since = self._unseen.setdefault(run.token, self._monotonic())
        return self._monotonic() - since - (0.0 if look.accounting is not None else _ACCOUNTING_LAG)

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
        jobs = [job for known in runs.values() if (job := known.job)]
        again = [job for job in jobs if look is not None and _waits_again(look[job])]
        if again:
            # it would hold an allocation for nothing, and what follows it waits for its end
            with contextlib.suppress(SlurmError):
                connection.cluster.cancel(again)
        left = [run for run, known in runs.items() if not known.tidied]
        tidied = not left or self._starts.tidy(connection, left)
        for run, known in runs.items():
            after = replace(known, tidied=known.tidied or tidied)
            if after != submissions.read(self._folder(run)):
                after.save(self._folder(run))

    def _results_are_here(self, run: StepRun) -> bool:
        """Whether the results were fetched; begins that, and begins it again when it failed."""
        fetch = self._fetching.get(run.token)
        if fetch is None:
            self._fetching[run.token] = self._fetches.submit(self._storage.fetch_outputs, run)
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
            allocation=read_allocation(folder / ALLOCATION_FILE),
            scheduler_log=self._storage.mirror(run).scheduler_log(),
        )

    def _is_replaced(self, run: StepRun) -> bool:
        """Whether a later start than this one has claimed its step, as far as that has come here."""
        number, trainer = self._noted(run, "generation"), self._storage.mirror(run).trainer
        if not number.isdecimal() or number == "0" or generations.is_current(trainer, int(number)):
            return False
        newest = generations.newest(trainer)
        return newest is not None and newest.task != run.token

    def close(self) -> None:
        """Fetch no more results."""
        self._fetches.shutdown(wait=False, cancel_futures=True)

    def _folder(self, run: StepRun) -> Path:
        return self._storage.jobs.run_folder(run)


def _waits_again(seen: JobLook) -> bool:
    """Whether a job was put back into the queue, where it is of no use."""
    return seen.state is not None and seen.state.name == "PENDING"
