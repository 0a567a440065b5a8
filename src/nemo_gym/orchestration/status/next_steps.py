"""What a person should know besides a benchmark's state, and the next useful command with its real id."""

from __future__ import annotations

from collections.abc import Iterable

from nemo_gym.chain.endings import BenchmarkState, EndCause, Ending
from nemo_gym.chain.evidence import Evidence
from nemo_gym.orchestration.status.benchmark_state import ended_at
from nemo_gym.orchestration.status.idle_links import idle_run
from nemo_gym.orchestration.status.waiting_job import foremost
from nemo_gym.orchestration.status.waiting_job import next_command as waiting_command
from nemo_gym.orchestration.status.waiting_job import notes as waiting_notes
from nemo_runs.durations import duration_in_words
from nemo_slurm.refusals import read_refusal

STUCK = 900.0
"""Seconds after a job's end at which its successor should no longer wait for it."""


def notes(known: Evidence, verdict: Ending) -> Iterable[str]:
    """Sentences that belong below the state."""
    yield from known.problems
    if known.progress is not None and known.progress.until:
        yield known.progress.until
    last, it = known.last, f"{known.gym_job_id} {known.benchmark}"
    waiting = foremost(known) if verdict.state is BenchmarkState.QUEUED else None
    if waiting is not None:
        yield from waiting_notes(waiting)
    if verdict.state is BenchmarkState.RUNNING and last is not None and last.queue_error:
        yield (
            f"AT RISK: its successor is not queued ({last.queue_error}); if this job ends early, "
            "nothing follows"
        )
    if helps := _what_helps(known, verdict):
        yield f"what helps: {helps}"
    if verdict.cause is EndCause.CONFIGURATION:
        yield "queued again as it is, it is refused again: change the config and submit it"
    if verdict.state is BenchmarkState.QUEUED and last is not None and last.ended:
        waited = known.now - ended_at(known)
        if waited > STUCK and waiting is not None and waiting.reason.word == "Dependency":
            ago = duration_in_words(waited)
            yield (
                f"STUCK: it still waits for job {last.job_id}, which ended {ago} ago; "
                f"gym job cancel {it}, then gym job resubmit {it}"
            )
    idle = idle_run(known, running=verdict.state is BenchmarkState.RUNNING)
    missing = verdict.state is not BenchmarkState.SUCCEEDED
    if idle is not None and missing and (idle.links > 1 or idle.out_of_time):
        yield idle.sentence
    leftover = [job for job in known.alive() if verdict.state.final]
    if leftover:
        yield f"still in the queue: {', '.join(leftover)}; gym job cancel {it}"


def _what_helps(known: Evidence, verdict: Ending) -> str:
    """What has to be so before it goes on; empty where that is not known, or nothing is wrong."""
    last = known.last
    if not known.job_ids:
        return read_refusal(verdict.reason).help
    if last is None or not verdict.state.can_be_helped:
        return ""
    seen = known.seen.get(last.job_id)
    word = seen.observation.word if seen is not None else ""
    if verdict.state is BenchmarkState.FAILED and word in _OF_ENDS:
        return _OF_ENDS[word]
    return read_refusal(last.queue_error).help if last.queue_error else ""


_OF_ENDS = {
    "OUT_OF_MEMORY": "more memory (extra_args.mem), or less at once (num_samples_in_parallel)",
    "DEADLINE": "a later --deadline, or none",
    "BOOT_FAIL": "another node, while the site looks at the one that did not start",
    "RECONFIG_FAIL": "another node, while the site looks at the one that could not be set up",
}
"""By the scheduler's word for how the last job ended."""


def next_command(known: Evidence, verdict: Ending) -> str:
    """The next useful command."""
    it = f"{known.gym_job_id} {known.benchmark}"
    waiting = foremost(known) if verdict.state is BenchmarkState.QUEUED else None
    if waiting is not None and (helps := waiting_command(known, waiting)):
        return helps
    if verdict.state is BenchmarkState.FAILED and verdict.cause is EndCause.YOUR_CODE:
        return f"gym job logs {it} {verdict.look_at or 'driver'} --tail 50"
    if verdict.cause is EndCause.CONFIGURATION:
        return f"gym job info {it} --config"
    if verdict.state is BenchmarkState.STOPPED and verdict.cause is EndCause.PERSON:
        return f"gym job resubmit {it}"
    read = "fetch" if known.elsewhere else "results"
    return {
        BenchmarkState.RUNNING: f"gym job logs {it} -f",
        BenchmarkState.QUEUED: f"gym job watch {known.gym_job_id}",
        BenchmarkState.SUCCEEDED: f"gym job {read} {known.gym_job_id}",
        BenchmarkState.STOPPED: f"gym job resubmit {it} --max-walltime TIME --reason TEXT",
        BenchmarkState.UNKNOWN: f"gym job info {it}",
        BenchmarkState.FAILED: f"gym job resubmit {it}",
        BenchmarkState.CANCELLED: f"gym job resubmit {it}",
    }[verdict.state]
