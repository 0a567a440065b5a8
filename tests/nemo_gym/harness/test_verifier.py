"""Which metric is the reward, and what becomes of lm-eval's table of results."""

from __future__ import annotations

import asyncio
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.harness import names, verifier
from nemo_gym.harness.options import HarnessOptions
from nemo_gym.harness.process import HarnessError
from nemo_gym.rollouts.run_config.schema import BenchmarkConfig
from nemo_gym.rollouts.scores.whole_answers import load_grader
from nemo_gym.types import Episode, Estimate, Task


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


GRADER = """#!{python}
import json, os, sys
starts = sys.path[0] and open({starts!r}, "a").write("x")
for line in sys.stdin:
    asked = json.loads(line)
    answers = [row["answer"] for row in asked.get("rows", [])]
    if "deadly" in answers or ("once" in answers and len(open({starts!r}).read()) == 1):
        os.kill(os.getpid(), 9)
    graded = [{{"metrics": {{"acc,none": 1.0}}, "extracted": {{"none": answer}}}} for answer in answers]
    print(json.dumps({{"id": asked["id"], "ok": graded}}), flush=True)
"""


@pytest.fixture
def grader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> verifier.HarnessVerifier:
    """A verifier whose process dies of the answer ``deadly``, and of ``once`` the first time."""
    program = tmp_path / "python"
    program.write_text(GRADER.format(python=sys.executable, starts=str(tmp_path / "starts")))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(verifier.environment, "ensure_python", lambda _report: program)
    monkeypatch.setattr(verifier.environment, "worker_environ", lambda **_: {})
    monkeypatch.setattr(verifier.rows, "open_task", lambda *_, **__: {})
    made = verifier.HarnessVerifier(verifier.NoOptions(), {})
    made.bind(HarnessOptions(task="sums"), repeats=1)
    return made


def graded(made: verifier.HarnessVerifier, answers: list[str]) -> list[Any]:
    row = {verifier.FIELD: {"task": "sums", "doc_id": 0, "doc_hash": "x"}}

    async def grade(answer: str) -> Any:
        item = {"type": "message", "content": [{"type": "output_text", "text": answer}]}
        return await made.verify(Task(0, 0, row), Episode({"output": [item]}))

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*map(grade, answers), return_exceptions=True)

    try:
        return asyncio.run(all_of_them())
    finally:
        made.close()


@pytest.mark.slow
def test_an_answer_that_ends_the_process_is_the_only_one_that_gets_no_grade(
    grader: verifier.HarnessVerifier,
) -> None:
    found = graded(grader, ["a", "deadly", "b", "c"])
    assert [getattr(verdict, "reward", None) for verdict in found] == [1.0, None, 1.0, 1.0]
    assert "the process that has lm-eval ended with signal 9" in str(found[1])


@pytest.mark.slow
def test_a_process_that_somebody_has_ended_costs_no_grade(grader: verifier.HarnessVerifier) -> None:
    assert [verdict.reward for verdict in graded(grader, ["a", "once"])] == [1.0, 1.0]


@pytest.mark.slow
def test_a_process_that_always_ends_is_not_started_for_ever(
    grader: verifier.HarnessVerifier, tmp_path: Path
) -> None:
    assert not any(hasattr(verdict, "reward") for verdict in graded(grader, ["deadly"] * 40))
    assert len((tmp_path / "starts").read_text()) <= 6
