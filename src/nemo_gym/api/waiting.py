"""How far the jobs of a submission are, and waiting for their end, from Python."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from nemo_gym.errors import UsageError
from nemo_gym.orchestration.records import index
from nemo_gym.orchestration.status import poll
from nemo_gym.orchestration.status.machines import SubmissionMachines
from nemo_gym.orchestration.status.report import BenchmarkStatus, SubmissionStatus
from nemo_gym.reports import to_stderr
from nemo_gym.text_table import table
from nemo_runs.clock import SecondsClock, SystemClock
from nemo_runs.drawn_tables import html_table
from nemo_runs.durations import duration_in_words

JobState = Literal["queued", "running", "succeeded", "stopped", "failed", "cancelled", "unknown"]
_COLUMNS = ("BENCHMARK", "STATE", "DONE", "SCORE", "LEFT", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkProgress:
    """How far one benchmark of a submission is."""

    benchmark: str
    """Its name."""
    state: JobState
    """`stopped`: at a limit, or because a person asked it to; what it has is recorded."""
    reason: str
    """Why it is in this state; empty where there is nothing to say."""
    done: int | None
    """Rollouts that have a result; `None` before the first job has begun."""
    expected: int | None
    """Rollouts in all."""
    score: float | None
    """Mean reward so far, in [0, 1]."""
    seconds_left: float | None
    """Until the last rollout, at the present rate; `None` while that is not known."""
    next_command: str
    """The command of `gym` that is useful now."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EvalProgress:
    """How far the benchmarks of a submission are, as one look has found them."""

    gym_job_id: str
    """The id of the submission."""
    state: JobState
    """Of all together: `running` or `queued` while one is, `succeeded` when all have."""
    benchmarks: Mapping[str, BenchmarkProgress] = field(default_factory=dict)
    """Each by its name."""

    def _rows(self) -> list[list[str]]:
        return [
            [
                one.benchmark,
                one.state,
                "" if one.done is None or one.expected is None else f"{one.done:,}/{one.expected:,}",
                "" if one.score is None else f"{one.score:.1%}",
                "" if one.seconds_left is None else duration_in_words(one.seconds_left),
                one.reason,
            ]
            for one in self.benchmarks.values()
        ]

    def __repr__(self) -> str:
        return f"<EvalProgress {self.gym_job_id}: {self.state}>\n{table(_COLUMNS, self._rows())}"

    def _repr_html_(self) -> str:
        return html_table(_COLUMNS, self._rows(), f"{self.gym_job_id}: {self.state}")


def wait_for(
    gym_job_id: str,
    timeout: float | None,
    progress: Callable[[EvalProgress], object] | None,
    *,
    look: Callable[[], Sequence[SubmissionStatus]] | None = None,
    clock: SecondsClock | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> EvalProgress:
    """See `nemo_gym.EvalSubmission.wait`; ``look`` asks the machine unless it is given."""
    if timeout is not None and not (timeout >= 0 and math.isfinite(timeout)):
        raise UsageError(f"timeout: {timeout!r} is not a number of seconds from 0; None waits without end.")
    clock = clock or SystemClock()
    until = None if timeout is None else clock.monotonic() + timeout

    def pause(seconds: float) -> None:
        left = seconds if until is None else until - clock.monotonic()
        if left <= 0:
            raise TimeoutError(
                f"{gym_job_id} has not ended within {duration_in_words(timeout or 0)}; its jobs go on: "
                "wait() again, or `gym job status`."
            )
        sleep(min(seconds, left))

    def show(found: Sequence[SubmissionStatus]) -> None:
        if progress is not None:
            progress(_of(gym_job_id, found))

    if look is not None:
        return _of(gym_job_id, poll.watch(look, show, sleep=pause))
    with SubmissionMachines() as machines:
        looking = poll.looking([index.find(gym_job_id, report=to_stderr)], machines)
        return _of(gym_job_id, poll.watch(looking, show, sleep=pause))


def progress_of(gym_job_id: str) -> EvalProgress:
    """One look."""
    with SubmissionMachines() as machines:
        return _of(gym_job_id, poll.looking([index.find(gym_job_id, report=to_stderr)], machines)())


def _of(gym_job_id: str, found: Sequence[SubmissionStatus]) -> EvalProgress:
    (submission,) = found
    state: JobState = submission.state.value
    benchmarks = {status.benchmark: _benchmark(status) for status in submission.benchmarks}
    return EvalProgress(gym_job_id=gym_job_id, state=state, benchmarks=benchmarks)


def _benchmark(status: BenchmarkStatus) -> BenchmarkProgress:
    state: JobState = status.state.value
    return BenchmarkProgress(
        benchmark=status.benchmark,
        state=state,
        reason=status.reason,
        done=status.done,
        expected=status.expected,
        score=status.mean_reward,
        seconds_left=status.eta_s,
        next_command=status.next_command,
    )
