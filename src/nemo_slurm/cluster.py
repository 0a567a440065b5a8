"""A Slurm cluster: submit, observe, cancel. What it does not know it says so; silence is never an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nemo_slurm import commands, records
from nemo_slurm.calls import Calls, HostCalls
from nemo_slurm.errors import (
    CommandFailedError,
    NotAcceptedError,
    NotConnectedError,
    NotReachableError,
    SchedulerRefusedError,
)
from nemo_slurm.hosts import Completed, Host
from nemo_slurm.identity import belongs, carries, is_proven
from nemo_slurm.observing import ClusterLook, JobLook, Witness, has_ended, observed
from nemo_slurm.records import AccountingRun, Association, Partition, QueueRow, SlurmJob

_NOTHING = "not-submitted"

SETTLE_SECONDS = 30.0
"""How long a job may take to appear in the queue after `sbatch` was not heard; then it was never accepted."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that the scheduler has."""

    job: SlurmJob
    found: bool = field(default=False)
    """True when the reply had been lost and the job was found by its token."""


class Cluster:
    """One cluster, seen from one host. Holds no state of jobs."""

    def __init__(
        self,
        host: Host,
        *,
        calls: Calls | None = None,
        settle: float = SETTLE_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host = host
        self._calls = calls or HostCalls(host)
        self._settle = settle
        self._sleep = sleep
        self._now = now

    def submit(
        self,
        script: str,
        arguments: Sequence[str] = (),
        *,
        token: str,
        folder: str | None = None,
        dependency: str | None = None,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        name: str = "",
        again: bool = False,
    ) -> Submitted:
        """Submit a script that is on the host, in ``folder``; ``env`` reaches the job and no argument list.

        At most one job comes of it: after a lost reply, and with ``again`` before anything is submitted, the
        job that carries ``token`` as its comment is looked for and taken, or one with ``name`` where that is
        the name of no other job. Raises `SchedulerRefusedError` with
        the scheduler's words (`SubmitLimitError` where waiting may help), `NotAcceptedError` when no job
        appeared within the settle time after a lost reply; `NotReachableError` when it is not known: ask
        again, with ``again``.
        """
        if again and (known := self.find(token, name=name)):
            return Submitted(known, found=True)
        argv = commands.sbatch(script, arguments, token=token, dependency=dependency, options=options)
        try:
            answer = self._calls.call([argv], folder=folder, env=env)[0]
        except NotConnectedError:
            raise
        except NotReachableError as error:
            return self._settled(token, name, str(error))
        reply = commands.read_reply(answer.stdout)
        if answer.status == 0 and reply.job and reply.plain:
            return Submitted(replace(reply.job, token=token))
        text = _words(answer)
        if answer.status == 0 or reply.job or commands.is_uncertain(text):
            return self._settled(token, name, text, reply.job)
        raise commands.refusal(answer.status, text, self.host.label)

    def test(self, script: str, *, folder: str | None = None, options: Sequence[str] = ()) -> str:
        """Ask whether a script would be accepted, without submitting it: what the scheduler says about when.

        Raises `SchedulerRefusedError`.
        """
        argv = commands.sbatch(script, token=_NOTHING, options=options, test_only=True)
        answer = self._calls.call([argv], folder=folder)[0]
        text = _words(answer)
        if answer.status == 0:
            return text.strip()
        if commands.is_uncertain(text):
            raise NotReachableError(f"the scheduler on {self.host.label} did not answer: {text.strip()}")
        raise commands.refusal(answer.status, text, self.host.label)

    def observe(self, jobs: Sequence[SlurmJob], *, history: bool = False) -> ClusterLook:
        """Look at many jobs: one round trip to the controller, one to accounting for those that ended.

        ``history`` asks accounting about all of them, for the runs of jobs that were requeued. A part that
        does not answer is named in the `ClusterLook` and changes nothing that is known. Raises
        `NotReachableError` when neither answers, or the host does not.
        """
        wanted = list(dict.fromkeys(jobs))
        rows, controller = self._queue(wanted)
        live = {row.id: row for row in rows or () if not has_ended(row.state)}
        # of a number that a stranger's job has by now only accounting knows what became of ours
        own = {job for job in wanted if job.id in live and belongs(job, live[job.id])}
        ask = [job for job in wanted if history or job not in own]
        runs, accounting = self._accounting(ask)
        if wanted and controller and accounting:
            why = "; ".join(dict.fromkeys([controller, accounting]))
            raise NotReachableError(f"neither the controller nor accounting answers: {why}")
        seen = {job: observed(job, rows, runs, asked=job in ask) for job in wanted}
        return ClusterLook(seen, controller, accounting)

    def cancel(self, jobs: Sequence[SlurmJob]) -> list[SlurmJob]:
        """Ask jobs to end, waiting ones before running ones. Jobs that ended already are left alone.

        Only a job that is proven to be the one that is meant is asked; the others that the controller shows
        under these numbers may be strangers' and are returned. Returns when the scheduler has heard it, not
        when the jobs have ended. Raises `NotReachableError`, or `SchedulerRefusedError` with what it said.
        """
        rows, problem = self._queue(jobs) if jobs else ([], None)
        if rows is None:
            raise NotReachableError(f"the queue of {self.host.label} cannot be read: {problem}")
        shown = {row.id: row for row in rows if not has_ended(row.state)}
        known = [job for job in jobs if job.id in shown]
        own = [job for job in known if is_proven(job, shown[job.id])]
        calls = commands.cancel(own)
        for answer in self._calls.call(calls):
            text = _words(answer)
            if answer.status == 0 or commands.knows_none(text) or "already complet" in text.lower():
                continue
            if commands.is_uncertain(text):
                raise NotReachableError(f"scancel on {self.host.label} was not heard: {text.strip()}")
            raise SchedulerRefusedError(["scancel"], answer.status, text, where=self.host.label)
        return [job for job in known if job not in own]

    def signal(self, job: SlurmJob, name: str) -> bool:
        """Send a signal to the batch script of a running job that is proven to be the one that is meant.

        False when no such job runs. Raises as `cancel` does.
        """
        rows, problem = self._queue([job])
        if rows is None:
            raise NotReachableError(f"the queue of {self.host.label} cannot be read: {problem}")
        row = next((row for row in rows if row.id == job.id), None)
        if row is None or row.state.name != "RUNNING" or not is_proven(job, row):
            return False
        answer = self._calls.call([commands.signal_batch(job, name)])[0]
        text = _words(answer)
        if answer.status and commands.is_uncertain(text):
            raise NotReachableError(f"scancel on {self.host.label} was not heard: {text.strip()}")
        return answer.status == 0

    def queue_of(self, prefix: str) -> list[QueueRow]:
        """The user's jobs whose token begins with ``prefix``; ended ones while the controller knows them."""
        rows, problem = self._queue(())
        if rows is None:
            raise NotReachableError(f"the queue of {self.host.label} cannot be read: {problem}")
        own = (row for row in rows if not prefix or carries(row.comment, prefix))
        return sorted(own, key=lambda row: int(row.id))

    def find(self, token: str, *, name: str = "") -> SlurmJob | None:
        """The oldest job that carries a token, `None` when there is none. Raises `NotReachableError`.

        ``name``: that of no other job, by which it is found where a site has written over its comment.
        """
        return self.find_all({token: name}).get(token)

    def find_all(self, wanted: Mapping[str, str]) -> dict[str, SlurmJob]:
        """The same for many tokens, each with its name, by one call; those without a job are left out."""
        rows = self.queue_of("")
        found: dict[str, SlurmJob] = {}
        for token, name in wanted.items():
            row = _row_of(rows, token, name)
            if row is not None:
                found[token] = SlurmJob(row.id, None, row.submitted_at, token=token, name=row.name)
        return found

    def partitions(self) -> list[Partition]:
        """All partitions that the user may see."""
        return records.read_partitions(self._answer(commands.show_partitions()))

    def associations(self, user: str) -> list[Association]:
        """The accounts that a user may use; empty also where accounting keeps none."""
        return records.read_associations(self._answer(commands.associations(user)))

    def show(self, job: SlurmJob) -> dict[str, str]:
        """All that the controller knows of one job, as it says it; empty when it does not know it."""
        answer = self._calls.call([commands.show_job(job)])[0]
        if commands.knows_none(_words(answer)):
            return {}
        return records.read_show(self._checked(["scontrol"], answer).strip())

    def _settled(self, token: str, name: str, text: str, likely: SlurmJob | None = None) -> Submitted:
        """After a reply that was lost or can mean several things: the job of it, or the certainty of none.

        ``likely`` is the number in the reply: that job is ours if it is the user's and carries no comment.
        """
        end = self._now() + self._settle
        wait = 0.5
        while True:
            try:
                job = self._of_reply(token, name, likely)
            except NotReachableError as error:
                doubt = f"it is not known whether the job was accepted ({_line(text)})"
                raise NotReachableError(f"{doubt}; submit it again to find out: {error}") from error
            if job:
                return Submitted(job, found=True)
            if self._now() >= end:
                said = (
                    f"{_line(text)}; no such job appeared within {self._settle:g} s, so it was not accepted"
                )
                raise NotAcceptedError(["sbatch"], 1, said, where=self.host.label)
            self._sleep(wait)
            wait = min(wait * 2, 5.0)

    def _of_reply(self, token: str, name: str, likely: SlurmJob | None) -> SlurmJob | None:
        rows = self.queue_of("")
        row = _row_of(rows, token, name)
        if row is None and likely is not None:
            row = next((row for row in rows if row.id == likely.id and not row.comment), None)
        cluster = likely.cluster if row and likely and row.id == likely.id else None
        return SlurmJob(row.id, cluster, row.submitted_at, token=token, name=row.name) if row else None

    def _queue(self, jobs: Sequence[SlurmJob]) -> tuple[list[QueueRow] | None, str | None]:
        """Rows, or `None` and why the controller gave none."""
        rows: list[QueueRow] = []
        try:
            answers = self._calls.call(commands.queue(jobs))
        except NotReachableError as error:
            return None, str(error)
        for answer in answers:
            if answer.status != 0 and not commands.knows_none(answer.stderr):
                return None, _line(_words(answer)) or f"squeue ended with status {answer.status}"
            rows += records.read_queue(answer.stdout)
        return rows, None

    def _accounting(self, jobs: Sequence[SlurmJob]) -> tuple[list[AccountingRun] | None, str | None]:
        runs: list[AccountingRun] = []
        try:
            answers = self._calls.call(commands.accounting(jobs)) if jobs else []
        except NotReachableError as error:
            return None, str(error)
        for answer in answers:
            if answer.status != 0 or "accounting storage is disabled" in answer.stderr:
                return None, _line(_words(answer)) or f"sacct ended with status {answer.status}"
            runs += records.read_accounting(answer.stdout)
        return runs, None

    def _answer(self, argv: Sequence[str]) -> str:
        return self._checked(argv, self._calls.call([argv])[0])

    def _checked(self, argv: Sequence[str], answer: Completed) -> str:
        if answer.status == 0:
            return answer.stdout
        text = _words(answer)
        if commands.is_uncertain(text):
            raise NotReachableError(f"{argv[0]} on {self.host.label} was not answered: {_line(text)}")
        raise CommandFailedError(argv, answer.status, text, where=self.host.label)


def _row_of(rows: Sequence[QueueRow], token: str, name: str) -> QueueRow | None:
    """The user's oldest job that carries a token as its comment, or else a name that no other job has."""
    found = next((row for row in rows if carries(row.comment, token, whole=True)), None)
    return found or next((row for row in rows if name and row.name == name), None)


def _words(answer: Completed) -> str:
    return "\n".join(part.strip() for part in (answer.stderr, answer.stdout) if part.strip())


def _line(text: str) -> str:
    return " ".join(text.split())


__all__ = [
    "SETTLE_SECONDS",
    "AccountingRun",
    "Association",
    "Cluster",
    "ClusterLook",
    "JobLook",
    "Partition",
    "QueueRow",
    "SlurmJob",
    "Submitted",
    "Witness",
]
