"""Asking both witnesses about any number of submissions: one look and one observation a machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nemo_gym.chain.evidence import Evidence, TimedObservation
from nemo_gym.chain.shared_job import of_benchmark
from nemo_gym.errors import GymError
from nemo_gym.orchestration.executors.base import JobRef, UnrecordedJob
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records import submission_file
from nemo_gym.orchestration.records.run_files import FolderLook
from nemo_gym.orchestration.status.link_files import parse
from nemo_gym.orchestration.status.machines import SubmissionMachine
from nemo_runs.clock import SecondsClock, SystemClock
from nemo_runs.errors import RunsError
from nemo_slurm.errors import SlurmError

Key = tuple[str, str]
"""Gym job id and benchmark."""

RETURNS = 900.0
"""Seconds after its end in which a job may still be put back into the queue: it is asked for again."""

_UNREADABLE = (GymError, RunsError, SlurmError, OSError)


class Groups(Protocol):
    """Groups submissions by machine, as `nemo_gym.orchestration.status.machines.SubmissionMachines` does."""

    def groups(
        self, records: Iterable[SubmissionRecord]
    ) -> Iterable[tuple[SubmissionMachine, list[SubmissionRecord]]]:
        """The submissions by the machine that they ran on."""
        ...


@dataclass(frozen=True, slots=True)
class Scope:
    """Which jobs the executor is asked about."""

    every_job: bool = False
    """All that were ever known, remembered ends or not; else those on which the state depends."""
    benchmark: str | None = None
    """This benchmark alone."""


def gather(
    records: Sequence[SubmissionRecord],
    machines: Groups,
    *,
    scope: Scope | None = None,
    clock: SecondsClock | None = None,
) -> dict[Key, Evidence]:
    """Everything about the benchmarks of some submissions, in their order.

    Silence of a machine is part of the answer (`Evidence.silent`), never an error.
    """
    clock, scope = clock or SystemClock(), scope or Scope()
    found: dict[Key, Evidence] = {}
    for machine, group in machines.groups(records):
        found |= _of_machine(machine, group, scope, clock)
    keys = [(record.gym_job_id, entry.benchmark) for record in records for entry in record.benchmarks]
    return {key: found[key] for key in keys if key in found}


def _of_machine(
    machine: SubmissionMachine, records: Sequence[SubmissionRecord], scope: Scope, clock: SecondsClock
) -> dict[Key, Evidence]:
    facts = _with_unheard(machine, _facts(machine, records, scope, clock))
    asked, remembered = _questions(machine, facts, scope, clock.seconds())
    silent, seen = "", dict(remembered)
    asked_at = clock.seconds()
    if asked:
        try:
            answers = machine.executor.observe(asked)
        except _UNREADABLE as error:
            silent = str(error)
            seen |= {job: old for job in asked if (old := machine.memory.of_job(job)) is not None}
        else:
            for job in asked:
                answer = answers.get(job.job_id)
                if answer is None or answer.silent:
                    silent = answer.reason if answer is not None else f"nothing was said of {job.job_id}"
                    seen |= {job: old} if (old := machine.memory.of_job(job)) is not None else {}
                else:
                    seen[job] = TimedObservation(answer, asked_at)
                    machine.memory.remember(job, answer, asked_at)
            machine.memory.save()
    return {
        key: dataclasses.replace(
            known,
            asked_at=asked_at,
            silent=silent or known.silent,
            seen={
                job_id: found
                for job_id in known.job_ids
                if (found := _seen(known, job_id, seen)) is not None and not known.outlives(job_id, found)
            },
        )
        for key, known in facts.items()
    }


def _seen(known: Evidence, job_id: str, seen: Mapping[JobRef, TimedObservation]) -> TimedObservation | None:
    folder = known.folder_of(job_id)
    found = seen.get(JobRef(job_id, folder))
    if found is None or folder == known.job_dir:
        return found
    return dataclasses.replace(found, observation=of_benchmark(known, job_id, found.observation))


def _with_unheard(machine: SubmissionMachine, facts: dict[Key, Evidence]) -> dict[Key, Evidence]:
    """The same with jobs whose id nobody has noted down: the process that queued them was killed, or its
    message was lost.

    They carry a token, by which one look at the queue finds all of them. Where nobody answers, they wait to
    be found by the next look.
    """
    wanted: dict[UnrecordedJob, list[Key]] = {}
    for key, known in facts.items():
        for job in _unheard(known):
            wanted.setdefault(job, []).append(key)
    if not wanted:
        return facts
    try:
        found = machine.executor.look_for(list(wanted))
    except _UNREADABLE:
        return facts
    for job, job_id in found.items():
        for key in wanted[job]:
            facts[key] = _with_job(facts[key], job, job_id)
    return facts


def _with_job(known: Evidence, job: UnrecordedJob, job_id: str) -> Evidence:
    """The same with the id of a job that nobody had noted down."""
    if not job.resubmission:
        return dataclasses.replace(known, first_job=job_id, submit_error=None)
    resubmissions = tuple(
        dataclasses.replace(again, job_id=job_id) if again.number == job.resubmission else again
        for again in known.resubmissions
    )
    return dataclasses.replace(known, resubmissions=resubmissions)


def _unheard(known: Evidence) -> list[UnrecordedJob]:
    """Jobs that may be in the queue although no file names them."""
    if known.unread:
        return []
    first = [] if known.job_ids else [UnrecordedJob(known.shared_dir or known.job_dir)]
    return [*first, *(UnrecordedJob(known.job_dir, again.number) for again in known.pending)]


def _facts(
    machine: SubmissionMachine, records: Sequence[SubmissionRecord], scope: Scope, clock: SecondsClock
) -> dict[Key, Evidence]:
    """What the files say."""
    entries = [
        (record, entry)
        for record in records
        for entry in record.benchmarks
        if scope.benchmark in (None, entry.benchmark)
    ]
    unread = ""
    try:
        look = machine.files.look([Path(entry.job_dir) for _, entry in entries])
    except _UNREADABLE as error:
        look, unread = FolderLook(clock.seconds()), str(error)
    facts: dict[Key, Evidence] = {}
    for record, entry in entries:
        folder = Path(entry.job_dir)
        values = parse(look.folders.get(folder, {}))
        if not unread and folder not in look.folders:
            values["problems"] = (f"there is no folder {folder} on {machine.label}",)
        else:
            here = record.hostname is None
            changes = submission_file.changes(folder) if here else submission_file.changes_there(folder, look)
            values["problems"] = (*values["problems"], *changes)
        facts[record.gym_job_id, entry.benchmark] = Evidence(
            gym_job_id=record.gym_job_id,
            benchmark=entry.benchmark,
            job_dir=folder,
            shared_dir=None if entry.model is None else Path(entry.queue_dir),
            where=machine.label,
            elsewhere=record.hostname is not None and not folder.is_dir(),
            first_job=entry.job_id,
            submit_error=entry.error,
            now=look.now,
            silent=unread,
            unread=bool(unread),
            **values,
        )
    return facts


def _questions(
    machine: SubmissionMachine, facts: Mapping[Key, Evidence], scope: Scope, now: float
) -> tuple[list[JobRef], dict[JobRef, TimedObservation]]:
    """The jobs to ask about, and the ends that are remembered of others."""
    asked: list[JobRef] = []
    remembered: dict[JobRef, TimedObservation] = {}
    for known in facts.values():
        last = known.last
        depends = (*(() if last is None else (last.job_id,)), *known.waiting)
        for job_id in known.job_ids if scope.every_job else depends:
            job = JobRef(job_id, known.folder_of(job_id))
            old = machine.memory.of_job(job)
            if old is not None and not scope.every_job and _is_settled(known, job_id, old, now):
                remembered[job] = old
            else:
                asked.append(job)
    return list(dict.fromkeys(asked)), remembered


def _is_settled(known: Evidence, job_id: str, old: TimedObservation, now: float) -> bool:
    """Whether a remembered end is the end: nothing shows a later life, and the job cannot come back."""
    if not old.observation.state.final or known.outlives(job_id, old):
        return False
    ended_at = old.observation.ended_at
    return ended_at is None or now - ended_at > RETURNS
