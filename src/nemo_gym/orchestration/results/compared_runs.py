"""Runs as they are named, compared with the first of them."""

from __future__ import annotations

from collections.abc import Sequence

from nemo_gym.errors import UsageError
from nemo_gym.orchestration.records import remote_copy
from nemo_gym.orchestration.records.index import Reporter
from nemo_gym.orchestration.records.run_outputs import run_outputs
from nemo_gym.rollouts.scores.compare_many import NamedOutputs, RunComparison, compare_many


def compared_runs(names: Sequence[str], *, report: Reporter) -> list[RunComparison]:
    """Each run against the first; results on another machine are fetched for as long as it takes.

    Raises `nemo_gym.errors.GymError` for runs that are not there, or whose tasks or grading differ.
    """
    if len(names) < 2:
        raise UsageError("give two runs or more: the others are compared with the first.")
    bring = remote_copy.for_certificate(None)
    with remote_copy.RemoteCopy(bring, report=report, why="results are fetched") as near:
        return compare_many([NamedOutputs(name, run_outputs(name, None, near).outputs) for name in names])
