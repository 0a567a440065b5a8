import dataclasses
import io

from nemo_gym.rollouts.scores.measured_metric import MeasuredMetric
from nemo_gym.rollouts.scores.statistics import Interval
from nemo_gym.rollouts.scores.summary import Coverage, Summary

COVERAGE = Coverage(
    expected=80,
    measured=78,
    masked=0,
    unscored=0,
    failed=2,
    missing=0,
    truncated=5,
    no_answer=3,
    no_answer_truncated=1,
    tasks=40,
    measured_tasks=40,
    attempts=84,
    failure_classes={"agent_request_failed": 6},
)
SUMMARY = Summary(
    coverage=COVERAGE,
    score=Interval(0.425, 0.31, 0.54, 0.05, "clustered_t", 40),
    key_metrics={
        "mean/reward": 0.425,
        "pass@2/accuracy": 55.0,
        "pass@1/accuracy": 42.5,
        "majority@2/accuracy": 44.0,
    },
    tokens={"input": 3120.0, "output": 624.0, "output_mean": 8.0},
    latency_ms={"p50": 180.4, "p90": 300.0, "p99": 410.2, "mean": 190.0},
    run={"benchmark": "arithmetic", "model": "smollm2", "resumed": 30, "new": 48, "seconds": 75.2},
    notes=("1 unreadable lines were left out",),
)


def printed(summary):
    file = io.StringIO()
    summary.print(file)
    return file.getvalue().splitlines()


def test_a_person_reads_score_coverage_failures_tokens_and_time():
    assert printed(SUMMARY) == [
        "benchmark  arithmetic",
        "model      smollm2",
        "score      42.5%  (95% interval 31.0% to 54.0%, clustered by task)",
        "measured   78 of 80 expected rollouts (40 of 40 tasks); left out: 2 failed",
        "more       pass@2/accuracy 55.0%, majority@2/accuracy 44.0%",
        "answers    5 truncated, 3 without an understandable answer (1 of them truncated)",
        "rollouts   30 resumed, 48 new, 2 failed, 84 attempts",
        "failures   6 attempts: agent_request_failed 6",
        "tokens     3,120 in, 624 out (8.0 out a rollout)",
        "time       1 min 15 s, a rollout 180 ms (median), 410 ms (p99)",
        "note       1 unreadable lines were left out",
    ]


def test_a_run_whose_metrics_are_of_all_answers_together_is_whole_without_a_score():
    counts = {**dataclasses.asdict(SUMMARY.coverage), "measured": 0, "failed": 0, "unscored": 80}
    unscored = dataclasses.replace(SUMMARY, coverage=Coverage(**counts), score=None)
    perplexity = MeasuredMetric(value=12.5, over="run", count=80)
    assert dataclasses.replace(unscored, metrics={"perplexity": perplexity}).whole
    for other in (
        MeasuredMetric(value=None, over="run", count=80),
        MeasuredMetric(value=0.5, over="run", count=79),
        MeasuredMetric(value=1.0, over="rollouts", count=80),
    ):
        assert not dataclasses.replace(unscored, metrics={"other": other}).whole
    assert not unscored.whole


def test_pass_at_ten_and_more_is_printed_and_pass_at_one_is_the_score():
    ones = dict.fromkeys(("pass@1/accuracy", "pass@1[avg-of-16]/accuracy", "majority@1/accuracy"), 1.0)
    found = printed(dataclasses.replace(SUMMARY, key_metrics={**ones, "pass@10/accuracy": 81.0}))
    assert [line for line in found if "@" in line] == ["more       pass@10/accuracy 81.0%"]


def test_what_is_not_known_is_not_printed():
    bare = Summary(Coverage(*[0] * 12), None, {}, {}, {})
    assert printed(bare) == [
        "score     none: nothing was measured",
        "measured  0 of 0 expected rollouts (0 of 0 tasks)",
        "answers   0 truncated, 0 without an understandable answer",
        "rollouts  0 failed, 0 attempts",
    ]


def test_words_in_brackets_are_words_and_no_colours():
    odd = Summary(COVERAGE, None, {}, {}, {}, run={"benchmark": "a", "model": "[red]m[/red]"})
    assert printed(odd)[1] == "model      [red]m[/red]"


def test_a_run_is_whole_once_it_is_decided_whatever_failed():
    undecided, decided = ({"outcome": outcome} for outcome in (None, "precise"))
    assert not SUMMARY.whole
    assert not dataclasses.replace(SUMMARY, until=undecided).whole
    assert dataclasses.replace(SUMMARY, until=decided).whole
    nothing_failed = dataclasses.replace(COVERAGE, masked=2, failed=0)
    assert dataclasses.replace(SUMMARY, coverage=nothing_failed).whole
