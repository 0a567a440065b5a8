"""Metrics of whole runs, side by side."""

import statistics as std
from types import MappingProxyType

import pytest
from tests.nemo_gym.rollouts.scores.test_compare import make

from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.output.manifest import load_manifest
from nemo_gym.rollouts.scores import aggregate_pairs
from nemo_gym.rollouts.scores.aggregate import aggregate
from nemo_gym.rollouts.scores.compare import compare
from nemo_gym.types import Estimate, MetricInfo

A = {task: [task % 2] for task in range(10)}
B = {task: [task % 3 > 0] for task in range(10)}


class MeanOfAll:
    """A verifier whose metric of the whole run is a mean, so that its interval is known by other means."""

    metrics = MappingProxyType({"whole": MetricInfo(higher_is_better=True, low=0.0, high=1.0)})

    def aggregate(self, rollouts):
        rewards = [rollout.verdict.reward for rollout in rollouts]
        return {"whole": Estimate(sum(rewards) / len(rewards), 0.1)}


@pytest.fixture
def runs(tmp_path):
    outputs = [make(tmp_path / "a", A), make(tmp_path / "b", B)]
    for paths in outputs:
        aggregate(paths, num_tasks=10, num_repeats=1, verifier=MeanOfAll())
    return outputs


def compared(runs):
    (found,) = compare(runs[0].output, runs[1].output).shared
    return found.aggregates["whole"], found


def test_the_same_tasks_are_left_out_on_both_sides(runs, monkeypatch):
    """Of a mean, without one task each time, that gives exactly the paired standard error."""
    monkeypatch.setattr(aggregate_pairs, "load_verifier", lambda *_: MeanOfAll())
    paired, comparison = compared(runs)
    deltas = [B[task][0] - A[task][0] for task in range(10)]
    assert paired.method == "jackknife"
    assert paired.std_error == pytest.approx(std.stdev(deltas) / 10**0.5)
    assert (paired.low, paired.high) == pytest.approx((comparison.paired.low, comparison.paired.high))
    assert paired.difference == pytest.approx(paired.value_b - paired.value_a)
    assert comparison.to_json()["aggregates"]["whole"]["conclusion"] == "no difference is shown"


def test_where_it_cannot_be_made_again_the_two_errors_are_taken_as_independent(runs, monkeypatch):
    def gone(*_args):
        raise ConfigError("benchmark.verifier: its file is gone")

    monkeypatch.setattr(aggregate_pairs, "load_verifier", gone)
    paired, _ = compared(runs)
    assert paired.method == "independent"
    assert paired.std_error == pytest.approx(0.02**0.5)


def test_a_verifier_that_fails_on_fewer_tasks_costs_the_pairing_alone(runs, monkeypatch):
    class Fails(MeanOfAll):
        def aggregate(self, rollouts):
            raise ZeroDivisionError

    monkeypatch.setattr(aggregate_pairs, "load_verifier", lambda *_: Fails())
    assert compared(runs)[0].method == "independent"


def test_without_any_error_the_difference_is_shown_and_nothing_is_claimed():
    metric = aggregate_pairs.MeasuredMetric(0.25, "run")
    found = aggregate_pairs._paired(metric, metric, [])
    assert (found.difference, found.low, found.method) == (0.0, None, "none")
    assert found.sentence == "how sure this is, is not known"


def test_a_verifier_is_built_from_the_manifest_alone_where_that_is_enough(tmp_path):
    judge = "+judge_models.judge={model: m, base_url: 'http://x/v1'}"
    spec = "{type: judge, prompt: 'Rate {answer}', human_field: human}"
    paths = make(tmp_path / "judged", A, judge, verifier=spec)
    built = aggregate_pairs._verifier(load_manifest(paths.manifest))
    assert callable(built.aggregate)
    (tmp_path / "grade.py").write_text("def grade(row, answer): return 1.0\n")
    own = make(tmp_path / "own", A, verifier=f"{{type: python, path: {tmp_path}/grade.py}}")
    assert aggregate_pairs._verifier(load_manifest(own.manifest)) is None
