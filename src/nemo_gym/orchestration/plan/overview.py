"""What a submission queues, in lines for a person: which models, in which jobs, with which benchmarks."""

from __future__ import annotations

from collections.abc import Iterator

from nemo_gym.orchestration.plan.values import JobPlan, Submission
from nemo_runs.counts import counted


def plan_lines(submission: Submission) -> Iterator[str]:
    """Nothing for a submission without shared jobs: each benchmark is a job there."""
    if not submission.shared:
        return
    jobs = counted(len(submission.shared), "job")
    yield f"Plan: {jobs} on {submission.cluster}, {submission.max_parallel} at once"
    for job in submission.shared:
        names = [name.removeprefix(f"{job.benchmark}.") for name in submission.benchmarks_of(job)]
        yield f"  {job.benchmark}: {', '.join(names)} ({_answers(job)})"


def _answers(job: JobPlan) -> str:
    if job.policy is None:
        return "at its address"
    service = next(service for service in job.services if (service.service or service.name) == job.policy)
    return f"service {job.policy} serves {service.model_name}"
