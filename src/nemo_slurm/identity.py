"""Whose record it is: job numbers are used again, so a number alone proves nothing. Pure.

A record whose number is right belongs to a job when no field that it has disagrees with what is known of the
job: comment, user, name, the time of submission, the time of the end. It is *proven* when the comment carries
the job's token or, where a site keeps no comment, when user, name and time of submission replace it. A
requeue moves the time of submission later, never earlier. A comment of somebody else disowns a record, unless
the job's name is its alone (`SlurmJob.name_proves`) and those three agree: sites write comments of their own.
Of the token of such a job no time of submission is compared: clocks may be wrong by any amount.
``nemo_gym/shell/scheduler_slurm.sh`` reads the
records of a predecessor by the same rule.
"""

from __future__ import annotations

import re
from typing import Protocol

from nemo_slurm.records import SlurmJob

CLOCK_SLACK = 600.0
"""Seconds by which the clocks of submitter, files, nodes and controller may differ."""


_LETTER = r"[A-Za-z0-9_./-]"
"""What tokens are made of."""


class Record(Protocol):
    """What controller or accounting have of one job or of one run of it."""

    @property
    def submitted_at(self) -> float | None:
        """UTC seconds, `None`: not known."""
        ...

    @property
    def ended_at(self) -> float | None:
        """UTC seconds, `None`: not known. Of a running job: when its time is over."""
        ...

    @property
    def user(self) -> int | None:
        """The owner's number."""
        ...

    @property
    def name(self) -> str:
        """The job's name; empty: not known."""
        ...

    @property
    def comment(self) -> str:
        """Empty where a site keeps none."""
        ...


def carries(comment: str, token: str, *, whole: bool = False) -> bool:
    """Whether a comment holds a token that begins with ``token``, or with ``whole`` that is it.

    A site may write words of its own before it and after it. The shell has the same rule in ``gym_carries``.
    """
    found = rf"(?<!{_LETTER}){re.escape(token)}" + (rf"(?!{_LETTER})" if whole else "")
    return re.search(found, comment) is not None


def belongs(job: SlurmJob, record: Record) -> bool:
    """Whether nothing that is known of a record speaks against its being the job's."""
    foreign = job.token and record.comment and not carries(record.comment, job.token)
    if foreign and not (job.name_proves and _is_named(job, record)):
        return False
    if job.user is not None and record.user is not None and job.user != record.user:
        return False
    if job.name and record.name and job.name != record.name:
        return False
    if not _has_its_own_token(job, record) and _before(record.submitted_at, job.submitted_at):
        return False
    return not _before(record.ended_at, job.began_at)


def is_proven(job: SlurmJob, record: Record) -> bool:
    """Whether a record is the job's beyond doubt: an end that it reports may be remembered."""
    if not belongs(job, record):
        return False
    if record.comment and job.token and carries(record.comment, job.token):
        return True
    return _is_named(job, record)


def _has_its_own_token(job: SlurmJob, record: Record) -> bool:
    """Whether a record has a token that no other job has: the one that makes a name its alone."""
    return bool(job.name_proves and job.token) and carries(record.comment, job.token or "", whole=True)


def _is_named(job: SlurmJob, record: Record) -> bool:
    """Whether user, name and time of submission are known, so that they can stand for a comment."""
    known = (job.user, record.user, job.submitted_at, record.submitted_at)
    return bool(job.name and record.name == job.name) and None not in known


def _before(moment: float | None, bound: float | None) -> bool:
    return moment is not None and bound is not None and moment < bound - CLOCK_SLACK
