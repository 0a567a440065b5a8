"""A benchmark whose job runs several: what is seen of the job, as far as it holds for the benchmark. Pure.

The job goes on after one of its benchmarks has ended, and without one that was cancelled; it ends as one of
them did, and says nothing of the others.
"""

from __future__ import annotations

from dataclasses import replace

from nemo_gym.chain.evidence import Evidence, Link
from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.chain.run_end import Requester


def of_benchmark(known: Evidence, job_id: str, seen: JobObservation) -> JobObservation:
    """What is seen of a benchmark in a job that it shares."""
    runs = [link for link in known.links if link.job_id == job_id and link.started is not None]
    last = runs[-1] if runs else None
    if last is None:
        return _without_it(known, job_id, seen)
    if last.end is None or (last.asked is not Requester.NOBODY and seen.state.final):
        return seen
    return _ended(known, last, seen)


def _without_it(known: Evidence, job_id: str, seen: JobObservation) -> JobObservation:
    """A job in which the benchmark has not begun: a cancelled one does not."""
    if not known.cancelled or not (seen.state.live or seen.state is JobState.SUCCEEDED):
        return seen
    reason = f"cancelled; job {job_id} goes on for other benchmarks"
    return JobObservation(JobState.CANCELLED, reason, ended_at=known.now, proven=False)


def _ended(known: Evidence, last: Link, seen: JobObservation) -> JobObservation:
    """The benchmark's own end, whatever becomes of the job."""
    assert last.end is not None
    status = last.end.status
    state = JobState.FAILED if status else JobState.SUCCEEDED
    started = last.started or known.now
    return replace(
        seen,
        state=state,
        reason=last.end.reason if status else "",
        exit_status=status,
        started_at=started,
        ended_at=seen.ended_at if seen.state.final else known.now,
        word="FAILED" if status else "COMPLETED",
        stranger="",
    )
