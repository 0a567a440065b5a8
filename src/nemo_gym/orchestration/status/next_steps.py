"""What a person should know besides a benchmark's state, and the next useful command with its real id."""

from __future__ import annotations

from collections.abc import Iterable

from nemo_gym.chain.endings import BenchmarkState, EndCause, Ending
from nemo_gym.chain.evidence import Evidence
from nemo_gym.orchestration.records.run_files import LocalRunFiles
from nemo_gym.orchestration.status.benchmark_state import ended_at
from nemo_gym.orchestration.status.idle_links import idle_run
from nemo_gym.orchestration.status.waiting_job import foremost
from nemo_gym.orchestration.status.waiting_job import next_command as waiting_command
from nemo_gym.orchestration.status.waiting_job import notes as waiting_notes
from nemo_runs.durations import duration_in_words
from nemo_slurm.refusals import Whose, read_refusal

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
    if _lacks_space(known, verdict):
        folder = known.job_dir.parent
        on = f" on {known.where}" if known.elsewhere else ""
        return (
            f"free disk space, or quota, where {folder} is{on} (`df -h {folder}` and `quota -s` say how much "
            "there is); old runs are a beginning: `gym job prune`"
        )
    if not known.job_ids:
        return read_refusal(verdict.reason).help
    if last is None or not verdict.state.can_be_helped:
        return ""
    seen = known.seen.get(last.job_id)
    word = seen.observation.word if seen is not None else ""
    if verdict.state is BenchmarkState.FAILED and word in _OF_ENDS:
        return _OF_ENDS[word]
    return read_refusal(last.queue_error).help if last.queue_error else ""


def _lacks_space(known: Evidence, verdict: Ending) -> bool:
    """Whether it cannot go on because a disk is full or a quota used up."""
    if not known.job_ids:
        return read_refusal(verdict.reason).whose is Whose.DISK
    last = known.last
    if last is None:
        return False
    refused = not last.queued and read_refusal(last.queue_error).whose is Whose.DISK
    return {
        BenchmarkState.RUNNING: last.waits_for_room is not None,
        BenchmarkState.QUEUED: last.full_disks > 0,
        BenchmarkState.FAILED: last.full_disks > 0 or refused,
    }.get(verdict.state, False)


def _to_do_first(known: Evidence, verdict: Ending) -> str:
    """A command that shows what has to change before it is queued again; empty where nothing is known to."""
    if _lacks_space(known, verdict):
        return _OLD_RUNS
    last = known.last
    error = verdict.reason if not known.job_ids else last.queue_error if last is not None else ""
    command = _BEFORE_QUEUEING.get(read_refusal(error).whose, "") if error else ""
    return f"ssh {known.where} {command}" if command and known.where != LocalRunFiles.label else command


_OLD_RUNS = "gym job prune --older-than 30-00 --dry-run"
_BEFORE_QUEUEING = {Whose.LIMIT: "squeue --me", Whose.SCHEDULER: "scontrol ping"}
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
    if special := _of_its_cause(known, verdict, it):
        return special
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


def _of_its_cause(known: Evidence, verdict: Ending, it: str) -> str:
    """The command that helps for why it is in its state; empty where the state says it all."""
    waiting = foremost(known) if verdict.state is BenchmarkState.QUEUED else None
    if waiting is not None:
        return waiting_command(known, waiting)
    if verdict.state is BenchmarkState.RUNNING and _lacks_space(known, verdict):
        return _OLD_RUNS
    if verdict.state is BenchmarkState.STOPPED and verdict.cause is EndCause.PERSON:
        return f"gym job resubmit {it}"
    if verdict.cause is EndCause.CONFIGURATION:
        return f"gym job info {it} --config"
    return _of_failure(known, verdict, it) if verdict.state is BenchmarkState.FAILED else ""


def _of_failure(known: Evidence, verdict: Ending, it: str) -> str:
    """The same of a failure: what has to be read, or done, before queueing it again can help."""
    if verdict.cause is EndCause.YOUR_CODE:
        return f"gym job logs {it} {verdict.look_at or 'driver'} --tail 50"
    if _ends_again(known):
        return f"gym job info {it} --config"
    if _is_unsealed(known):
        return f"gym job info {it}"
    first = _to_do_first(known, verdict)
    return f"{first}, then gym job resubmit {it}" if first else ""


def _ends_again(known: Evidence) -> bool:
    """Whether what the config says ends every further job in the same way."""
    seen = known.seen.get(known.last.job_id) if known.last is not None else None
    return seen is not None and seen.observation.word == "DEADLINE"


def _is_unsealed(known: Evidence) -> bool:
    """Whether its files are not as they were queued, so that another job ends at once, too."""
    decision = known.last.decision if known.last is not None else None
    return decision is not None and "seal=broken" in decision.evidence
