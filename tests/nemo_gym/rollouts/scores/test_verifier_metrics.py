"""What the metrics of a verifier come to, and what becomes of values that are missing."""

import math
import statistics as std
from typing import ClassVar

import pytest
from tests.result_rows import benchmark_config, result, run_config, write_manifest, write_output

from nemo_gym.rollouts.output.result_rows import Answer, checked_metrics, verdict_of_row
from nemo_gym.rollouts.scores.aggregate import aggregate
from nemo_gym.rollouts.scores.compare import compare
from nemo_gym.rollouts.scores.summary import load_summary
from nemo_gym.types import Estimate, MetricInfo, RolloutFailedError, Verdict

VALUES = {(0, 0): 1.0, (0, 1): 3.0, (1, 0): None, (1, 1): 5.0, (2, 0): None, (2, 1): None}


class Measures:
    metrics: ClassVar = {
        "length": MetricInfo(higher_is_better=False, low=0),
        "steady": MetricInfo(higher_is_better=True, low=0, high=1),
    }


def output(folder, values=VALUES, repeats=2, **more):
    results = {
        identity: result(f"answer {identity}", _ng_metrics={"length": value}, **more)
        for identity, value in reversed(values.items())
    }
    tasks = 1 + max(task for task, _ in values)
    return write_output(folder, results, tasks=tasks, repeats=repeats)


def summed(paths, verifier=None, tasks=3, repeats=2):
    return aggregate(paths, num_tasks=tasks, num_repeats=repeats, verifier=verifier)


def test_a_missing_value_is_counted_and_never_0(tmp_path):
    metric = summed(output(tmp_path), Measures()).metrics["length"]
    assert (metric.value, metric.count, metric.missing) == (3.0, 3, 3)
    assert (metric.over, metric.higher_is_better, metric.least, metric.most) == ("rollouts", False, 0, None)
    assert metric.low == 0.0, "cut to the least possible value"
    assert "3 of 6 have no value" in metric.sentence
    assert "lower is better" in metric.sentence


def test_a_metric_that_no_answer_has_is_shown_as_such(tmp_path):
    metric = summed(output(tmp_path, dict.fromkeys(VALUES))).metrics["length"]
    assert (metric.value, metric.count, metric.missing) == (None, 0, 6)
    assert metric.sentence == "no value; 6 of 6 have no value"


def test_the_error_of_one_rollout_a_task_is_the_plain_standard_error(tmp_path):
    values = {(task, 0): value for task, value in enumerate([4.0, 7.0, -2.0, 11.0])}
    metric = summed(output(tmp_path, values, repeats=1), tasks=4, repeats=1).metrics["length"]
    assert metric.std_error == pytest.approx(std.stdev(values.values()) / 2)
    assert metric.low < metric.value < metric.high


def test_equal_values_without_a_bound_claim_no_interval(tmp_path):
    metric = summed(output(tmp_path, {(0, 0): 2.0, (1, 0): 2.0}, repeats=1), tasks=2, repeats=1).metrics[
        "length"
    ]
    assert (metric.value, metric.low, metric.high, metric.std_error) == (2.0, None, None, None)


def test_a_rollout_without_a_reward_has_its_metrics_and_no_part_in_the_score(tmp_path):
    results = {
        (0, 0): result(reward=1.0, _ng_metrics={"unreadable": 0.0}),
        (1, 0): result(reward=None, answer=None, _ng_metrics={"unreadable": 1.0}),
        (2, 0): result(reward=0.0, _ng_metrics={"unreadable": 1.0}, mask_sample=True),
    }
    summary = summed(write_output(tmp_path, results, tasks=3, repeats=1), tasks=3, repeats=1)
    assert (summary.score.mean, summary.coverage.unscored, summary.coverage.masked) == (1.0, 1, 1)
    assert (summary.metrics["unreadable"].value, summary.metrics["unreadable"].count) == (0.5, 2)


class Groups(Measures):
    def __init__(self):
        self.seen = []

    def grade_group(self, rollouts):
        self.seen.append([(one.task.task_index, one.task.rollout_index) for one in rollouts])
        lengths = [one.verdict.metrics["length"] for one in rollouts]
        return {"steady": None if None in lengths else float(len(set(lengths)) == 1)}

    def aggregate(self, rollouts):
        first = [one.episode.text for one in rollouts]
        assert first == [one.episode.text for one in rollouts], "they can be gone through again"
        self.order = first
        return {"longest": 5.0, "length": Estimate(9.0, 0.5), "nothing": None}


def test_repeats_of_a_task_and_all_rollouts_are_graded_in_order(tmp_path):
    verifier = Groups()
    metrics = summed(output(tmp_path), verifier).metrics
    assert verifier.seen == [[(0, 0), (0, 1)], [(1, 0), (1, 1)], [(2, 0), (2, 1)]]
    assert verifier.order == [f"answer {identity}" for identity in VALUES]
    assert (metrics["steady"].value, metrics["steady"].over) == (0.0, "tasks")
    assert (metrics["steady"].count, metrics["steady"].missing) == (1, 2)
    assert (metrics["longest"].value, metrics["longest"].over, metrics["longest"].count) == (5.0, "run", 6)
    assert metrics["nothing"].value is None


def test_what_aggregate_says_of_a_metric_replaces_its_mean(tmp_path):
    metric = summed(output(tmp_path), Groups()).metrics["length"]
    assert (metric.value, metric.std_error, metric.over) == (9.0, 0.5, "run")
    assert metric.low == pytest.approx(9 - 1.959964 * 0.5)


def test_only_measured_rollouts_are_handed_over(tmp_path):
    results = {
        (0, 0): result(reward=None, answer=None, _ng_metrics={"length": 1.0}),
        (0, 1): result(_ng_metrics={"length": 1.0}),
        (1, 0): result(_ng_metrics={"length": 1.0}, mask_sample=True),
    }
    verifier = Groups()
    summed(write_output(tmp_path, results, tasks=2, repeats=2), verifier, tasks=2)
    assert verifier.seen == [[(0, 1)]]


class Breaks(Groups):
    def grade_group(self, rollouts):
        raise ZeroDivisionError("no luck")

    def aggregate(self, rollouts):
        return {"longest": math.nan}


def test_a_function_that_fails_costs_its_own_metrics_alone(tmp_path):
    summary = summed(output(tmp_path), Breaks())
    assert list(summary.metrics) == ["length"]
    group, whole = summary.notes
    assert group.startswith("grade_group of the verifier failed (ZeroDivisionError: no luck")
    assert "'longest' is nan, neither a finite number nor null" in whole


def test_metrics_are_read_back_printed_and_in_both_documents(tmp_path):
    paths = output(tmp_path)
    summary = summed(paths, Measures())
    assert load_summary(paths).metrics == summary.metrics
    assert summary.to_json()["metrics"]["length"]["missing"] == 3
    assert ("metric", f"length {summary.metrics['length'].sentence}") in summary.lines()
    assert '"verifier_metrics"' in paths.aggregate_metrics.read_text()


def test_a_summary_of_an_earlier_version_has_no_metrics(tmp_path):
    paths = output(tmp_path)
    summed(paths)
    text = paths.coverage.read_text()
    start = text.index('  "metrics": {')
    end = text.index('  "tokens"')
    paths.coverage.write_text(text[:start] + text[end:])
    assert load_summary(paths).metrics == {}


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", [1], object()])
def test_a_metric_that_is_no_number_is_an_error_of_the_verifier(value):
    with pytest.raises(RolloutFailedError, match=r"'f1' is .*neither a finite number nor null"):
        checked_metrics({"f1": value})


def test_numbers_of_other_libraries_and_truth_values_are_numbers():
    class Numpy:
        def __float__(self):
            return 0.25

    assert checked_metrics({"a": Numpy(), "b": True, "c": 3, "d": None}) == {
        "a": 0.25,
        "b": 1.0,
        "c": 3.0,
        "d": None,
    }


@pytest.mark.parametrize("metrics", [["f1"], {1: 2.0}, {"": 1.0}])
def test_metrics_need_names(metrics):
    with pytest.raises(RolloutFailedError):
        checked_metrics(metrics)


def test_a_verdict_comes_back_from_its_row_as_it_was():
    answer = Answer({"note": "task"}, {}, {"output": []}, {})
    verdict = Verdict(0.5, "b", {"note": "mine", "more": 1}, {"reward": 0.0, "x": None})
    row = answer.graded(verdict, 0.5)
    assert verdict_of_row(row) == verdict
    assert list(row).index("_ng_metrics") < list(row).index("reward")


def run(folder, values):
    results = {
        (task, 0): result(reward=1.0, _ng_metrics={"length": value}) for task, value in enumerate(values)
    }
    paths = write_output(folder, results, tasks=len(values), repeats=1)
    config = run_config(benchmark_config(folder / "b"), "policy_model_name=m")
    write_manifest(paths, config, tasks=len(values), repeats=1)
    aggregate(paths, num_tasks=len(values), num_repeats=1, verifier=Measures())
    return paths


def test_two_runs_are_compared_by_their_metrics_in_the_declared_direction(tmp_path):
    a = run(tmp_path / "a", [10.0, 12.0, 9.0, None])
    b = run(tmp_path / "b", [5.0, 6.0, 5.5, 1.0])
    (shared,) = compare(a.output, b.output).shared
    paired = shared.metrics["length"]
    assert (paired.tasks, paired.better, paired.worse) == (3, 3, 0)
    assert paired.difference == pytest.approx(-(5 + 6 + 3.5) / 3)
    assert paired.sentence == "B is better"
    assert shared.to_json()["metrics"]["length"]["conclusion"] == "B is better"


def test_equal_metrics_without_a_bound_show_no_difference(tmp_path):
    a, b = run(tmp_path / "a", [1.0, 1.0]), run(tmp_path / "b", [1.0, 1.0])
    (shared,) = compare(a.output, b.output).shared
    assert shared.metrics["length"].sentence == "no difference is shown"
    assert shared.to_json()["metrics"]["length"]["low"] is None
