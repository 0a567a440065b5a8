"""The colour and the sign of each state that a page of evaluations shows."""

from __future__ import annotations

from typing import Final

from nemo_gym.chain.endings import BenchmarkState
from nemo_gym.pages.index.known_runs import KnownBenchmark
from nemo_gym.rollouts.reading.row_facts import Outcome
from nemo_pages.runs.rows import StateGroup

OF_STATE: Final = {
    BenchmarkState.QUEUED: StateGroup.WAITING,
    BenchmarkState.RUNNING: StateGroup.RUNNING,
    BenchmarkState.SUCCEEDED: StateGroup.SUCCEEDED,
    BenchmarkState.STOPPED: StateGroup.ENDED,
    BenchmarkState.FAILED: StateGroup.FAILED,
    BenchmarkState.CANCELLED: StateGroup.ENDED,
    BenchmarkState.UNKNOWN: StateGroup.UNKNOWN,
}
"""Of each state of a benchmark with jobs."""

_OF_RESULT: Final = {
    "complete": StateGroup.SUCCEEDED,
    "incomplete": StateGroup.ENDED,
    "unfinished": StateGroup.RUNNING,
}

OF_OUTCOME: Final[dict[Outcome, StateGroup]] = {
    "right": StateGroup.SUCCEEDED,
    "partly right": StateGroup.WAITING,
    "wrong": StateGroup.FAILED,
    "not scored": StateGroup.UNKNOWN,
    "masked": StateGroup.ENDED,
    "not graded yet": StateGroup.PAUSED,
    "failed": StateGroup.FAILED,
}
"""Of each outcome of a rollout; the word beside it distinguishes those that share one."""


def group_of(benchmark: KnownBenchmark) -> StateGroup:
    """The group of a benchmark: of its state, or of its results where it has no jobs."""
    if benchmark.status is not None:
        return OF_STATE[benchmark.status.state]
    return _OF_RESULT.get(benchmark.result.status, StateGroup.UNKNOWN)


def group_of_word(word: str) -> StateGroup:
    """The group of a run's rolled-up word."""
    if word in set(BenchmarkState):
        return OF_STATE[BenchmarkState(word)]
    return _OF_RESULT.get(word, StateGroup.UNKNOWN)
