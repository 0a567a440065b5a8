"""What commands write, read by a mapping: samples, repeats, failures, scores, and what is refused."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.docs.pages import ROOT, blocks

from nemo_gym.agents.registry import load_agent
from nemo_gym.command_benchmark.options import ResultsMapping
from nemo_gym.command_benchmark.results import CommandResults, read_results
from nemo_gym.errors import DataError
from nemo_gym.types import Episode, GradedRollout, RolloutFailedError, Task, Verdict
from nemo_gym.verifiers.registry import load_verifier

MAPPING: dict[str, Any] = {
    "path": "out.json",
    "score": "scores.accuracy",
    "samples": "samples",
    "input": "input",
    "expected": "target",
    "answer": "said.text",
    "reward": "grade.value",
    "error": "error",
    "values": {"C": 1, "I": 0},
    "input_tokens": "usage.0",
    "output_tokens": "usage.1",
    "metrics": {"steps": "steps"},
}


def sample(name: Any, grade: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "input": f"question {name}",
        "target": "yes",
        "said": {"text": "yes"},
        "grade": {"value": grade},
        "usage": [9, 3],
        **more,
    }


def read(folder: Path, found: Any, score: Any = 0.5, **mapping: Any) -> CommandResults:
    (folder / "out.json").write_text(json.dumps({"scores": {"accuracy": score}, "samples": found}))
    return read_results(folder, ResultsMapping.model_validate({**MAPPING, **mapping}))


def graded(results: CommandResults, task: int, repeat: int = 0, **mapping: Any) -> tuple[Episode, Verdict]:
    """A sample, as agent and verifier give it."""
    agent, verifier = load_agent({"type": "command"}), load_verifier({"type": "command"})
    agent.inner.bind(results)  # type: ignore[attr-defined]
    verifier.inner.bind(ResultsMapping.model_validate({**MAPPING, **mapping}))  # type: ignore[attr-defined]
    asked = Task(task, repeat, results.questions[task].row)
    episode = asyncio.run(agent.run(asked, None))  # type: ignore[arg-type]
    return episode, asyncio.run(verifier.verify(asked, episode))


def test_samples_are_rollouts_with_question_answer_grade_and_tokens(tmp_path: Path) -> None:
    found = read(tmp_path, [sample(2, "I"), sample(10, "C"), sample(1, "C", steps=4)])
    assert [question.row["id"] for question in found.questions] == [1, 2, 10]
    assert found.questions[0].row == {
        "id": 1,
        "responses_create_params": {"input": "question 1"},
        "expected_answer": "yes",
    }
    assert (found.repeats, found.score) == (1, 0.5)
    episode, verdict = graded(found, 0)
    assert (episode.text, episode.response["usage"]["total_tokens"]) == ("yes", 12)
    assert (verdict.reward, verdict.extracted_answer, verdict.metrics) == (1.0, "yes", {"steps": 4.0})
    assert graded(found, 1)[1].reward == 0.0


def test_samples_of_one_question_are_its_repeats_and_what_failed_has_failed_for_good(tmp_path: Path) -> None:
    found = read(tmp_path, [sample("a", 1), sample("b", True), sample("a", 0.25, error={"message": "gone"})])
    assert found.repeats == 2
    assert graded(found, 1)[1].reward == 1.0
    for task, repeat, message in ((0, 1, '{"message": "gone"}'), (1, 1, "the command wrote no such sample")):
        with pytest.raises(RolloutFailedError) as failed:
            graded(found, task, repeat)
        assert (str(failed.value), failed.value.failure_class) == (message, "command_error")
        assert failed.value.terminal


def test_without_samples_the_score_is_the_result_and_it_is_reported_beside_samples(tmp_path: Path) -> None:
    only = read(tmp_path, [], 62.5, samples=None, best=100)
    assert [len(question.samples) for question in only.questions] == [1]
    assert graded(only, 0, best=100)[1].reward == 0.625
    found = read(tmp_path, [sample(1, "C")])
    episode, verdict = graded(found, 0)
    verifier = load_verifier({"type": "command"})
    rollout = GradedRollout(Task(0, 0, {}), episode, verdict)
    assert verifier.aggregate([rollout])["reported"].value == 0.5  # type: ignore[attr-defined]


def test_the_newest_file_counts_and_lines_are_samples(tmp_path: Path) -> None:
    for name, grade, at in (("a", "C", 2), ("b", "I", 1)):
        path = tmp_path / f"log-{name}.jsonl"
        path.write_text(json.dumps(sample(1, grade)) + "\n\n")
        os.utime(path, (at, at))
    mapping = {**MAPPING, "path": "log-*.jsonl", "samples": "", "score": None}
    found = read_results(tmp_path, ResultsMapping.model_validate(mapping))
    assert graded(found, 0)[1].reward == 1.0


def test_messages_stay_messages_and_a_sample_without_a_question_is_named(tmp_path: Path) -> None:
    asked = [{"role": "system", "content": "s", "id": "x"}, {"role": "user", "content": [{"text": "q"}]}]
    found = read(tmp_path, [sample(1, "C", input=asked), sample(2, "C", input=None)])
    assert [question.row["responses_create_params"]["input"] for question in found.questions] == [
        [{"role": "system", "content": "s"}, {"role": "user", "content": '[{"text": "q"}]'}],
        "sample 2",
    ]


@pytest.mark.parametrize(
    ("samples", "score", "phrase"),
    [
        ([sample(1, "P")], 0.5, r"sample 0: .*reward: the grade 'P' is not a number, and .* has C, I"),
        ([sample(1, 7)], 0.5, r"the grade 7 is not from 0 to 1 \(results.best\)"),
        ([sample(1, float("nan"))], 0.5, r"the grade nan is not a number"),
        ([sample(1, 10**400)], 0.5, r"the grade 10{59} is not a number"),
        ([sample(1, [1])], 0.5, r"the grade \[1\] is not a number"),
        ([sample(1, "C")], None, r"results.score: there is nothing at 'scores.accuracy'"),
        ([sample(1, "C")], 50, r"results.score: the grade 50 is not from 0 to 1"),
        ([], 0.5, r"results.samples: there is no list of samples at 'samples'"),
        ({"1": sample(1, "C")}, 0.5, r"there is no list of samples"),
        ([sample(1, "C"), sample(1, "C", input="other")], 0.5, r"sample 1: another one is named 1 and asks"),
    ],
)
def test_results_that_say_something_else_are_refused_with_their_place(
    tmp_path: Path, samples: Any, score: Any, phrase: str
) -> None:
    with pytest.raises(DataError, match=phrase):
        read(tmp_path, samples, score)


def test_a_file_that_is_not_there_or_not_whole_is_named(tmp_path: Path) -> None:
    mapping = ResultsMapping.model_validate(MAPPING)
    with pytest.raises(DataError, match=r"the command ended well and left no out.json"):
        read_results(tmp_path, mapping)
    (tmp_path / "out.json").write_text('{"samples": [')
    with pytest.raises(DataError, match=r"out.json: it cannot be read as JSON"):
        read_results(tmp_path, mapping)
    (tmp_path / "out.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"out.json: it cannot be read as JSON"):
        read_results(tmp_path, mapping)


def test_a_log_of_inspect_is_read_as_the_how_to_page_maps_it(tmp_path: Path) -> None:
    page = blocks("docs/how-to/run-another-harness.md")
    (block,) = (one.text for one in page if "INSPECT_EVAL_MODEL" in one.text)
    mapping = ResultsMapping.model_validate(yaml.safe_load(block)["benchmark"]["command"]["results"])
    log = json.loads((ROOT / "tests" / "fixtures" / "inspect" / "log.json").read_bytes())
    log["samples"][0]["scores"]["includes"]["value"] = "I"
    log["samples"][1]["error"] = {"message": "the sandbox ended"}
    (tmp_path / "log.json").write_text(json.dumps(log))
    found = read_results(tmp_path, mapping)
    assert [question.row["responses_create_params"]["input"] for question in found.questions] == [
        "0 + 1?",
        "1 + 1?",
    ]
    assert (found.repeats, found.score) == (2, 1.0)
    samples = [sample for question in found.questions for sample in question.samples]
    assert [sample.grade for sample in samples].count("C") == 3
    assert [sample.error for sample in samples].count('{"message": "the sandbox ended"}') == 1
    assert {(sample.answer, sample.input_tokens) for sample in samples} == {
        ("0 + 1 = 1", 9),
        ("1 + 1 = 2", 9),
    }
