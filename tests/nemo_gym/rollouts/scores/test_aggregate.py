"""From rows on disk to metrics and coverage."""

import json
import math
import random
import statistics as std
import tracemalloc

import orjson
import pytest
from tests.result_rows import result, write_output

from nemo_gym.errors import DataError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.rows import encode_row
from nemo_gym.rollouts.scores import columns as cols
from nemo_gym.rollouts.scores.aggregate import aggregate
from nemo_gym.rollouts.scores.pass_at_k import cutoffs
from nemo_gym.rollouts.scores.statistics import t_quantile
from nemo_gym.rollouts.scores.summary import load_summary

REWARDS = {0: [1, 1, 0], 1: [0, 0, 0], 2: [1, 0, 0], 3: [1, 1, 1]}
ANSWERS = {0: ["a", "a", "b"], 1: ["x", "y", None], 2: ["r", "s", "s"], 3: ["t", "t", "t"]}


def small(folder, **more):
    results = {
        (task, repeat): result(reward=float(REWARDS[task][repeat]), answer=ANSWERS[task][repeat], **more)
        for repeat in (2, 0, 1)
        for task in (3, 1, 0, 2)
    }
    return write_output(folder, results, tasks=4, repeats=3)


def entry(paths):
    (found,) = json.loads(paths.aggregate_metrics.read_text())
    return found


def test_metrics_have_the_published_names_and_the_hand_calculated_values(tmp_path):
    paths = small(tmp_path)
    summary = aggregate(paths, num_tasks=4, num_repeats=3, run={"benchmark": "arithmetic"})
    found = entry(paths)
    assert list(found) == [
        "agent_ref",
        "_ng_environment_server",
        "task_source",
        "agent_metrics",
        "key_metrics",
        "repeat_level_metrics",
        "perf_summary",
        "group_level_metrics",
    ]
    assert (found["agent_ref"], found["task_source"]) == ({"name": "single_turn"}, "arithmetic")
    metrics = found["agent_metrics"]
    rewards = [reward for task in REWARDS.values() for reward in task]
    runs = [50 * std.fmean(REWARDS[task][repeat] for task in REWARDS) * 2 for repeat in range(3)]
    expected = {
        "mean/reward": 0.5,
        "max/reward": 1,
        "min/reward": 0,
        "median/reward": 0.5,
        "std/reward": std.stdev(rewards),
        "num_repeats": 3,
        "mean_across_repeats/reward": std.fmean(runs) / 100,
        "std_across_repeats/reward": std.stdev(runs) / 100,
        "se_across_repeats/reward": std.stdev(runs) / 100 / math.sqrt(3),
        "ci_high_95_across_repeats/reward": 0.5 + t_quantile(0.975, 2) * std.stdev(runs) / 100 / math.sqrt(3),
        "pass@1/accuracy": 50,
        "pass@2/accuracy": 100 * (1 + 0 + 2 / 3 + 1) / 4,
        "pass@3/accuracy": 75,
        "pass@1[avg-of-1]/accuracy": 75,
        "pass@1[avg-of-2]/accuracy": 100 * (2 + 0 + 1 + 2) / 8,
        "pass@1[avg-of-3]/accuracy": 50,
        "pass@1[avg-of-3]/accuracy/std_dev_across_runs": std.stdev(runs),
        "pass@1[avg-of-3]/accuracy/std_err_across_runs": std.stdev(runs) / math.sqrt(3),
        "majority@1/accuracy": 75,
        "majority@2/accuracy": 100 * (1 + 0 + 0.5 + 1) / 4,
        "majority@3/accuracy": 50,
        "pass@1/no_answer": 100 / 12,
        "pass@1[avg-of-3]/no_answer": 100 / 12,
        "pass@3/no_answer": 25,
        "majority@3/no_answer": 0,
        "mean/input_tokens": 10,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert metrics["per_sample_aggregate"]["accuracy"] == pytest.approx(runs)
    assert "mean/level" not in metrics, "a number of the task is not a measure"
    assert not any(name.startswith("coverage/") for name in metrics)
    assert found["key_metrics"] == summary.key_metrics
    assert summary.key_metrics["pass@3/accuracy"] == 75


def test_each_task_and_each_repeat_has_its_table(tmp_path):
    paths = small(tmp_path)
    aggregate(paths, num_tasks=4, num_repeats=3)
    found = entry(paths)
    group = found["group_level_metrics"][2]
    assert group["_ng_task_index"] == 2
    assert group["sample"] == {"question": "What is 2 + 0?", "expected_answer": "2", "level": 3}
    assert (group["num_rollouts"], group["expected_num_rollouts"], group["missing_num_rollouts"]) == (3, 3, 0)
    assert (group["mean/reward"], group["max/reward"]) == (pytest.approx(1 / 3), 1)
    assert [info["reward"] for info in group["rollout_infos"]] == [1, 0, 0]
    assert found["group_level_metrics"][1]["rollout_infos"][2]["no_answer"] is True
    repeat = found["repeat_level_metrics"][1]
    assert (repeat["_ng_rollout_index"], repeat["sample_count"], repeat["missing_count"]) == (1, 4, 0)
    assert repeat["metrics"]["reward"]["mean"] == 0.5
    assert repeat["metrics"]["reward"]["sem"] == pytest.approx(std.stdev([1, 0, 0, 1]) / 2)
    assert repeat["metrics"]["reward"]["p75"] == 1


def test_a_single_repeat_has_no_table_of_repeats(tmp_path):
    paths = write_output(tmp_path, {(0, 0): result(), (1, 0): result(reward=0.0)}, tasks=2, repeats=1)
    aggregate(paths, num_tasks=2, num_repeats=1)
    found = entry(paths)
    assert found["repeat_level_metrics"] == []
    assert not any("across" in name for name in found["agent_metrics"])


def test_coverage_adds_up_and_says_its_denominator(tmp_path):
    results = {
        (0, 0): result(),
        (0, 1): result(answer=None, reward=0.0, cut=True),
        (1, 0): result(mask_sample=True),
        (1, 1): result(reward=None),
        (2, 0): result(answer=None, reward=0.0),
        (2, 1): result(cut=True),
    }
    failures = [(0, 0, "agent_request_failed"), (3, 0, "agent_request_failed"), (3, 0, "verifier_error")]
    paths = write_output(tmp_path, results, tasks=5, repeats=2, failures=failures)
    coverage = aggregate(paths, num_tasks=5, num_repeats=2).coverage
    parts = (coverage.measured, coverage.masked, coverage.unscored, coverage.failed, coverage.missing)
    assert parts == (4, 1, 1, 1, 3)
    assert sum(parts) == coverage.expected == 10
    assert (coverage.truncated, coverage.no_answer, coverage.no_answer_truncated) == (2, 2, 1)
    assert (coverage.tasks, coverage.measured_tasks, coverage.attempts) == (5, 2, 9)
    assert coverage.failure_classes == {"agent_request_failed": 2, "verifier_error": 1}
    assert coverage.denominator == (
        "4 measured of 10 expected rollouts (2 of 5 tasks); "
        "left out: 1 failed, 3 missing, 1 masked, 1 unscored"
    )
    stored = json.loads(paths.coverage.read_text())
    assert stored["denominator"] == coverage.denominator
    assert stored["expected"] == sum(
        stored[name] for name in ("measured", "masked", "unscored", "failed", "missing")
    )


def test_masked_samples_leave_the_quality_metrics_and_are_told(tmp_path):
    results = {
        (0, 0): result(reward=1.0),
        (0, 1): result(reward=0.0, mask_sample=True),
        (1, 0): result(reward=0.0, mask_sample=True),
        (1, 1): result(reward=0.0, mask_sample=True),
    }
    paths = write_output(tmp_path, results, tasks=2, repeats=2)
    summary = aggregate(paths, num_tasks=2, num_repeats=2)
    metrics = entry(paths)["agent_metrics"]
    assert summary.score.mean == metrics["mean/reward"] == 1.0
    assert metrics["pass@1/accuracy"] == 100
    assert "pass@2/accuracy" not in metrics
    told = {name: value for name, value in metrics.items() if name.startswith("coverage/")}
    assert told == {
        "coverage/measured_rollouts": 1,
        "coverage/masked_rollouts": 3,
        "coverage/measured_tasks": 1,
        "coverage/fully_masked_tasks": 1,
    }


def test_a_task_with_too_few_rollouts_has_no_say_at_k_and_that_is_told(tmp_path):
    results = {(0, 0): result(reward=0.0), (1, 0): result(reward=1.0), (1, 1): result(reward=0.0)}
    paths = write_output(tmp_path, results, tasks=2, repeats=2)
    aggregate(paths, num_tasks=2, num_repeats=2)
    metrics = entry(paths)["agent_metrics"]
    assert metrics["pass@2/accuracy"] == 100
    assert metrics["num_tasks/@2"] == 1
    assert "num_tasks/@1" not in metrics


def test_partial_rewards_take_the_best_of_the_first_k(tmp_path):
    results = {(0, r): result(reward=reward) for r, reward in enumerate([0.25, 0.5, 0.125])}
    paths = write_output(tmp_path, results, tasks=1, repeats=3)
    aggregate(paths, num_tasks=1, num_repeats=3)
    metrics = entry(paths)["agent_metrics"]
    assert [metrics[f"pass@{k}/accuracy"] for k in (1, 2, 3)] == [25, 50, 50]


def test_damaged_doubled_and_foreign_rows_are_left_out_and_counted(tmp_path):
    paths = write_output(tmp_path, {(0, 0): result(reward=1.0)}, tasks=1, repeats=1)
    good = paths.output.read_bytes()
    extra = [
        good.replace(b'"reward":1.0', b'"reward":0.0').rstrip(b"\n"),
        encode_row(0, 0, result(reward=0.0)),
        encode_row(7, 0, result(reward=0.0)),
        b"not json",
        b"[]",
    ]
    paths.output.write_bytes(good + b"".join(line + b"\n" for line in extra) + b'{"_ng_task')
    summary = aggregate(paths, num_tasks=1, num_repeats=1)
    coverage = summary.coverage
    assert (coverage.measured, coverage.damaged, coverage.duplicates, coverage.unexpected) == (1, 3, 1, 1)
    assert summary.score.mean == 1.0
    assert summary.notes == (
        "3 unreadable lines were left out",
        "1 second row of a rollout was left out",
        "1 row of no expected rollout was left out",
    )


def test_rows_of_another_collector_without_checksum_or_extras_are_measured(tmp_path):
    paths = RolloutPaths(tmp_path / "mine.jsonl")
    rows = [{"_ng_rollout_index": 0, "_ng_task_index": task, "reward": task} for task in (0, 1)]
    paths.output.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    summary = aggregate(paths, num_tasks=2, num_repeats=1)
    assert (summary.score.mean, summary.coverage.no_answer, summary.tokens) == (0.5, 0, {})
    found = entry(paths)
    assert "perf_summary" not in found
    assert not any("no_answer" in name or "majority" in name for name in found["agent_metrics"])


def test_an_output_without_any_row_has_no_score(tmp_path):
    paths = RolloutPaths(tmp_path / "rollouts.jsonl")
    summary = aggregate(paths, num_tasks=3, num_repeats=2)
    assert summary.score is None
    assert (summary.coverage.measured, summary.coverage.missing) == (0, 6)
    assert entry(paths)["agent_metrics"]["num_repeats"] == 2


def test_a_verifiers_own_numbers_are_summarised_up_to_a_bound(tmp_path):
    many = {f"score_{number}": number for number in range(cols.MAX_EXTRA_FIELDS + 3)}
    paths = small(tmp_path, judged=0.25, sure=True, **many)
    summary = aggregate(paths, num_tasks=4, num_repeats=3)
    metrics = entry(paths)["agent_metrics"]
    assert (metrics["mean/judged"], metrics["mean/sure"]) == (0.25, 1)
    assert sum(name.startswith("mean/score_") for name in metrics) == cols.MAX_EXTRA_FIELDS - 2
    assert "not summarised" in summary.notes[0]


def test_the_old_files_stay_whole_when_the_new_ones_cannot_be_written(tmp_path, monkeypatch):
    paths = small(tmp_path)
    aggregate(paths, num_tasks=4, num_repeats=3)
    before = paths.aggregate_metrics.read_bytes()
    monkeypatch.setattr("nemo_gym.rollouts.scores.metrics._rollout_info", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        aggregate(paths, num_tasks=4, num_repeats=3)
    assert paths.aggregate_metrics.read_bytes() == before
    assert not list(tmp_path.glob(".tmp-*"))


@pytest.mark.parametrize(
    ("repeats", "ks"), [(1, (1,)), (3, (1, 2, 3)), (20, (1, 2, 4, 8, 16, 20)), (32, (1, 2, 4, 8, 16, 32))]
)
def test_many_repeats_are_cut_off_at_powers_of_two(repeats, ks):
    assert cutoffs(repeats) == ks


def test_the_order_of_the_rows_changes_nothing(tmp_path):
    paths = small(tmp_path)
    aggregate(paths, num_tasks=4, num_repeats=3)
    before = paths.aggregate_metrics.read_bytes()
    lines = paths.output.read_bytes().splitlines(keepends=True)
    random.Random(5).shuffle(lines)
    paths.output.write_bytes(b"".join(lines))
    aggregate(paths, num_tasks=4, num_repeats=3)
    assert paths.aggregate_metrics.read_bytes() == before


def test_a_stored_summary_is_read_back_as_it_was(tmp_path):
    paths = small(tmp_path)
    summary = aggregate(paths, num_tasks=4, num_repeats=3, run={"benchmark": "b", "new": 12, "seconds": 1.5})
    assert load_summary(paths) == summary
    assert load_summary(RolloutPaths(tmp_path / "other.jsonl")) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("{}", "not a whole summary"),
        ("[]", "not a whole summary"),
        ('{"schema_version":99}', "newer"),
    ],
)
def test_a_stored_summary_that_cannot_be_read_is_an_error(tmp_path, text, message):
    paths = RolloutPaths(tmp_path / "rollouts.jsonl")
    paths.coverage.write_text(text)
    with pytest.raises(DataError, match=message):
        load_summary(paths)


def peak(folder, tasks):
    text = "the answer is not a secret, " * 4
    results = {(task, 0): result(text, answer=str(task)) for task in range(tasks)}
    paths = write_output(folder, results, tasks=tasks, repeats=1)
    del results
    tracemalloc.start()
    aggregate(paths, num_tasks=tasks, num_repeats=1)
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return highest


@pytest.mark.slow
def test_memory_is_a_few_numbers_a_rollout_whatever_the_rows_hold(tmp_path, monkeypatch):
    monkeypatch.setattr("nemo_gym.rollouts.scores.quantiles._CHUNK", 256)
    aggregate(small(tmp_path / "warm"), num_tasks=4, num_repeats=3)
    few, many = peak(tmp_path / "few", 5_000), peak(tmp_path / "many", 8_000)  # beyond the read buffers
    assert (many - few) / 3_000 < 120
