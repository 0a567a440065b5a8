"""A judge that compares each answer with a reference, in both orders."""

import asyncio

import pytest
from tests.judges import ScriptedJudge, saying
from tests.result_rows import result, write_output
from tests.verifier_answers import graded, spoken

from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.judges.pairwise import PairwiseVerifier, ReferenceRun
from nemo_gym.types import RolloutFailedError, Task
from nemo_gym.verifiers.registry import graded_with, load_verifier

ROW = {"question": "Why?", "reference": "Since it is so."}


def load(judge, **options):
    spec = {"type": "pairwise", **(options or {"reference_field": "reference"})}
    return load_verifier(spec, {"judge": judge})


def verdict(judge, text="Because.", row=ROW, **options):
    return asyncio.run(load(judge, **options).verify(Task(0, 0, row), spoken(text)))


def prefers(better):
    """A judge that prefers the answer with this text, wherever it is."""

    def reply(text, _number):
        a = text.index("[Answer A]")
        b = text.index("[Answer B]")
        return "[[A]]" if a < text.index(better) < b else "[[B]]"

    return ScriptedJudge(reply)


def test_the_better_answer_wins_in_both_orders():
    won, lost = verdict(prefers("Because.")), verdict(prefers("Since it is so."))
    assert (won.reward, lost.reward) == (1.0, 0.0)
    assert won.metrics == {
        "win": 1.0,
        "tie": 0.0,
        "loss": 0.0,
        "same_in_both_orders": 1.0,
        "prefers_first": 0.5,
        "unreadable": 0.0,
    }
    assert (lost.metrics["loss"], lost.metrics["win"]) == (1.0, 0.0)
    assert won.fields["preferences"]["in_order"] == ["answer", "answer"]


def test_a_judge_that_prefers_what_comes_first_gives_a_tie_and_is_found_out():
    found = verdict(saying("[[A]]"))
    assert (found.reward, found.metrics["tie"]) == (0.5, 1.0)
    assert (found.metrics["same_in_both_orders"], found.metrics["prefers_first"]) == (0.0, 1.0)


def test_ties_count_half():
    assert verdict(saying("[[C]]")).reward == 0.5
    one_of_them = ScriptedJudge(
        lambda text, _: "[[C]]" if text.index("Because") < text.index("Since") else "[[B]]"
    )
    assert verdict(one_of_them).reward == 0.75


def test_an_order_that_cannot_be_read_leaves_no_reward():
    judge = ScriptedJudge(lambda text, _: "[[A]]" if "Because" in text.split("[Answer B]")[0] else "both")
    found = verdict(judge)
    assert (found.reward, found.metrics) == (None, {"unreadable": 1.0})
    assert [len(replies) for replies in found.fields["preferences"]["replies"]] == [1, 2]


@pytest.fixture
def reference(tmp_path):
    results = {(task, repeat): result(f"old {task}.{repeat}") for task in (1, 0) for repeat in (0, 1)}
    return write_output(tmp_path, results, tasks=2, repeats=2).output


def asked(task):
    return {"responses_create_params": {"input": [{"role": "user", "content": f"What is {task} + 0?"}]}}


def test_answers_of_another_run_are_found_by_what_was_asked(reference):
    run = ReferenceRun(reference)
    assert [run.answer(Task(7, repeat, asked(1))) for repeat in range(3)] == ["old 1.0", "old 1.1", "old 1.0"]
    assert run.answer(Task(0, 0, asked(5))) is None


def test_the_reference_run_is_what_the_judge_compares_with(reference):
    found = verdict(prefers("old 0.0"), row={**ROW, **asked(0)}, reference=str(reference))
    assert found.reward == 0.0
    with pytest.raises(RolloutFailedError, match="has no answer to this question"):
        verdict(prefers("x"), row={**ROW, **asked(9)}, reference=str(reference))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"reference": "a", "reference_field": "b"},
            "either reference, the rows of a run, or reference_field",
        ),
        ({"reference": "/nowhere/rollouts.jsonl"}, "/nowhere/rollouts.jsonl cannot be read"),
        ({"reference_field": "r", "prompt": "{answer_a}"}, "it has no {answer_b}"),
        ({"reference_field": "r", "model": "other"}, "no judge model 'other'"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(ConfigError) as refused:
        load(saying("x"), **options)
    assert message in str(refused.value)


def test_an_empty_file_is_no_run(tmp_path):
    (tmp_path / "rollouts.jsonl").write_text("\n")
    with pytest.raises(ConfigError, match=r"has no answers; name the rollouts.jsonl of a run"):
        load(saying("x"), reference=str(tmp_path / "rollouts.jsonl"))


def test_rows_need_their_reference_answer_and_a_preference_that_can_be_one():
    verifier = load(saying("x"), reference_field="reference", human_field="human")
    assert verifier.check_row({"question": "?"}) == "no 'reference', the text of the reference answer"
    assert "none of answer, tie, reference" in verifier.check_row({**ROW, "human": "A"})
    assert verifier.check_row({**ROW, "human": "tie"}) is None


def test_agreement_with_people():
    verifier = load(prefers("good"), reference_field="reference", human_field="human")
    assert isinstance(verifier.inner, PairwiseVerifier)
    answers = [
        ({**ROW, "human": "answer"}, "good"),
        ({"question": "?", "reference": "good", "human": "reference"}, "x"),
        ({**ROW, "human": "reference"}, "good"),
        ({"question": "?", "reference": "good", "human": "answer"}, "x"),
    ]
    assert verifier.inner.aggregate(graded(verifier, answers))["kappa"].value == pytest.approx(0.0)


def test_the_answers_of_the_reference_run_are_part_of_the_grading_and_their_grades_are_not(tmp_path):
    def digest(name, text="old", reward=1.0, order=(0, 1)):
        results = {(task, 0): result(f"{text} {task}", reward=reward) for task in order}
        output = write_output(tmp_path / name, results, tasks=2, repeats=1).output
        return graded_with(load(saying("x"), reference=str(output)))["reference_sha256"]

    first = digest("a")
    assert digest("b", reward=0.0, order=(1, 0)) == first
    assert digest("c", text="new") != first
    assert graded_with(load(saying("x"))) == {}
    output = str(tmp_path / "a" / "rollouts.jsonl")
    several = {
        "type": "several",
        "score": "first",
        "verifiers": {"first": {"type": "pairwise", "reference": output}, "second": {"type": "match"}},
    }
    assert graded_with(load_verifier(several, {"judge": saying("x")})) == {"first/reference_sha256": first}
