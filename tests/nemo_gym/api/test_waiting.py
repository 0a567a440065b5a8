"""Waiting for the end of a submission from Python; time is moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import nemo_gym
from nemo_gym.api.waiting import EvalProgress, wait_for
from nemo_gym.chain.endings import BenchmarkState
from nemo_gym.errors import UsageError
from nemo_gym.orchestration.status.report import BenchmarkStatus, SubmissionStatus
from nemo_runs.clock import MovableClock

ID = "gym-job-1"


def status(state: str, done: int | None = None, *, name: str = "sums") -> BenchmarkStatus:
    return BenchmarkStatus(
        gym_job_id=ID,
        benchmark=name,
        state=BenchmarkState(state),
        reason="<why>",
        cause=None,
        job_id="1",
        links=1,
        done=done,
        expected=None if done is None else 10,
        mean_reward=None if done is None else 0.5,
        eta_s=None if done is None else 90.0,
        next_command="gym job watch",
    )


def looks(*found: tuple[BenchmarkStatus, ...]) -> Callable[[], list[SubmissionStatus]]:
    """What each look finds; the last is found again and again."""

    def each() -> Iterator[list[SubmissionStatus]]:
        for benchmarks in found:
            yield [SubmissionStatus(gym_job_id=ID, benchmarks=benchmarks)]
        while True:
            yield [SubmissionStatus(gym_job_id=ID, benchmarks=found[-1])]

    steps = each()
    return lambda: next(steps)


def test_it_returns_when_the_last_benchmark_has_ended_and_tells_every_look() -> None:
    clock, told = MovableClock(), list[EvalProgress]()
    look = looks(
        (status("queued"), status("queued", name="gpqa")),
        (status("running", 4), status("queued", name="gpqa")),
        (status("succeeded", 10), status("failed", 3, name="gpqa")),
    )
    ended = wait_for(ID, None, told.append, look=look, clock=clock, sleep=clock.advance)
    assert [one.state for one in told] == ["queued", "running", "failed"]
    assert told[-1] == ended
    assert [(one.state, one.done) for one in ended.benchmarks.values()] == [("succeeded", 10), ("failed", 3)]
    running = told[1].benchmarks["sums"]
    assert (running.score, running.seconds_left, running.next_command) == (0.5, 90.0, "gym job watch")


@pytest.mark.parametrize("timeout", [0, 0.5, 100])
def test_after_its_timeout_it_says_that_the_jobs_go_on(timeout: float) -> None:
    clock = MovableClock()
    before = clock.monotonic()
    told: list[EvalProgress] = []
    with pytest.raises(TimeoutError, match=r"gym-job-1 has not ended within .*; its jobs go on: wait\(\)"):
        wait_for(
            ID, timeout, told.append, look=looks((status("running", 4),)), clock=clock, sleep=clock.advance
        )
    assert told, "it looks once at least"
    assert clock.monotonic() - before == pytest.approx(timeout)


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf")])
def test_a_timeout_that_is_none_is_refused(timeout: float) -> None:
    with pytest.raises(UsageError, match=r"timeout: .* is not a number of seconds from 0; None waits"):
        wait_for(ID, timeout, None, look=looks((status("succeeded", 10),)))


def test_progress_is_a_table_also_in_a_notebook() -> None:
    clock, told = MovableClock(), list[EvalProgress]()
    wait_for(ID, None, told.append, look=looks((status("stopped", 4),)), clock=clock, sleep=clock.advance)
    assert "sums       stopped  4/10  50.0%" in repr(told[0])
    assert "<td>&lt;why&gt;</td>" in told[0]._repr_html_()
    assert isinstance(told[0], nemo_gym.EvalProgress)
    assert isinstance(told[0].benchmarks["sums"], nemo_gym.BenchmarkProgress)
