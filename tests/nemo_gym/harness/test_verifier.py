"""Which metric is the reward, and what becomes of lm-eval's table of results."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.harness import names, verifier
from nemo_gym.harness.process import HarnessError
from nemo_gym.rollouts.run_config.schema import BenchmarkConfig
from nemo_gym.rollouts.scores.whole_answers import load_grader
from nemo_gym.types import Estimate


@pytest.mark.parametrize(
    ("metrics", "wanted", "found"),
    [
        ({"exact_match,strict": 1.0, "exact_match,loose": 0.0}, None, "exact_match,strict"),
        ({"exact_match,strict": 1.0, "exact_match,loose": 0.0}, "exact_match,loose", "exact_match,loose"),
        ({"bleu,none": ["a", "b"], "acc,none": True}, None, "acc,none"),
        ({"off,none": 3.0, "near,none": 0.5}, None, "near,none"),
        ({"bleu,none": ["a", "b"]}, None, None),
        ({"word_perplexity,none": [-20.5, 4]}, "word_perplexity,none", None),
        ({}, None, None),
    ],
)
def test_the_reward_is_the_first_number_from_0_to_1(
    metrics: dict[str, Any], wanted: str | None, found: str | None
) -> None:
    assert verifier.chosen(metrics, wanted) == found


def test_a_metric_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(HarnessError, match=r"no metric 'acc'; there are acc,none"):
        verifier.chosen({"acc,none": 1.0}, "acc")


def test_values_of_one_task_have_their_own_names_and_their_standard_errors() -> None:
    table = {
        "x": {
            "name": "x",
            "sample_len": 4,
            "acc,none": 0.25,
            "acc_stderr,none": 0.1,
            "f1,none": float("nan"),
            "f1_stderr,none": "N/A",
        }
    }
    assert verifier.estimates(table) == {"acc,none": Estimate(0.25, 0.1), "f1,none": Estimate(None, None)}


def test_values_of_several_tasks_begin_with_the_task() -> None:
    table = {
        "x": {"acc,none": 0.0, "acc_stderr,none": 0.0},
        "all": {"acc,none": 1.0, "acc_stderr,none": "N/A"},
    }
    assert verifier.estimates(table) == {
        "x/acc,none": Estimate(0.0, 0.0),
        "all/acc,none": Estimate(1.0, None),
    }


@pytest.mark.parametrize("row", [{}, {"lm_eval": "x"}, {"lm_eval": {"task": "x", "doc_id": 1}}])
def test_a_row_that_lm_eval_did_not_make_is_refused(row: dict[str, Any]) -> None:
    assert verifier.HarnessVerifier(verifier.NoOptions(), {}).check_row(row) is not None


def test_the_grader_of_a_benchmark_knows_its_task_and_has_all_that_this_verifier_offers() -> None:
    benchmark = BenchmarkConfig.model_validate(names.configuration("lm_eval/x")["benchmark"])
    grader = load_grader(benchmark, repeats=3)
    for name in ("start", "close", "aggregate"):
        assert callable(getattr(grader.inner, name))
    assert getattr(grader.inner, "aggregates_unscored") is True  # noqa: B009 - an optional member
    grader.close()
