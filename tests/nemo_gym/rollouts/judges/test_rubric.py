"""A judge that gives each answer a score."""

import asyncio
from pathlib import Path

import pytest
from tests.judges import saying
from tests.result_rows import run_config
from tests.verifier_answers import graded, spoken

from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.judges import pairwise, rubric
from nemo_gym.rollouts.judges.rubric import RubricVerifier
from nemo_gym.types import Task
from nemo_gym.verifiers.registry import grades_at_once, grades_stored_answers, load_verifier

ROW = {"question": "Capital of France?", "expected_answer": "Paris"}


def load(judge, **options):
    return load_verifier({"type": "judge", **options}, {"judge": judge})


def verdict(judge, row=ROW, **options):
    return asyncio.run(load(judge, **options).verify(Task(0, 0, row), spoken("It is Paris.")))


def test_the_score_becomes_a_reward_on_its_scale_and_the_reply_is_kept():
    judge = saying("Good.\n**Score: 7**")
    found = verdict(judge)
    assert found.reward == pytest.approx(6 / 9)
    assert found.metrics == {"unreadable": 0.0, "score": 7.0}
    assert found.fields == {"judged": {"replies": ["Good.\n**Score: 7**"], "said": 7.0}}
    (asked,) = judge.requests
    assert asked["temperature"] == 0
    for text in ("[Question]\nCapital of France?", "[Reference answer]\nParis", "[Answer]\nIt is Paris."):
        assert text in asked["input"][0]["content"]


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("Score: 10", 10.0),
        ("score = 3.5 points", 3.5),
        ("Score: 2\nNo, better:\nScore: 4", 4.0),
        ("Score: 11", None),
        ("Score: 0", None),
        ("Score: seven", None),
        ("Score: -3", None),
        ("Score: **\u22123**", None),
        ("Score: 4,5", None),
        ("Score: 4, since it is short.", 4.0),
        ("**Score:** 4/10", 4.0),
        ("Score: 4 out of 10.", 4.0),
        ("Score: 4/5", None),
        ("Score: 4 out of 100", None),
        ("Score: 2-3", None),
        ("7", None),
        ("", None),
    ],
)
def test_only_a_score_on_the_scale_is_read(reply, score):
    found = verdict(saying(reply), attempts=1)
    assert found.metrics.get("score") == score
    assert found.metrics["unreadable"] == float(score is None)


def test_a_reply_that_cannot_be_read_is_asked_for_again_in_the_same_conversation():
    judge = saying("I like it.", "Score: 10")
    assert verdict(judge).reward == 1.0
    first, second = judge.requests
    assert second["input"][: len(first["input"])] == first["input"]
    assert second["input"][1] == {"role": "assistant", "content": "I like it."}


def test_without_a_readable_reply_there_is_no_reward_and_it_is_counted_apart():
    found = verdict(saying("hm", "hm?"), attempts=2)
    assert (found.reward, found.metrics) == (None, {"unreadable": 1.0})
    assert found.fields["judged"]["replies"] == ["hm", "hm?"]


def test_a_conversation_holds_the_answer_so_the_prompt_needs_no_place_of_its_own():
    judge = saying("Score: 10")
    assert verdict(judge, prompt="Grade the last answer.\n\n{conversation}").reward == 1.0
    assert "Assistant: " in judge.requests[0]["input"][0]["content"]


def test_labels_stand_in_for_scores():
    labels = {"CORRECT": 1, "PARTLY": 0.5, "INCORRECT": 0}
    options = {"labels": labels, "prompt": "{question} {answer}", "pattern": r"(?i)grade: (\w+)"}
    assert verdict(saying("Grade: partly"), **options).reward == 0.5
    assert verdict(saying("Grade: maybe"), attempts=1, **options).reward is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "grader"}, "there is no judge model 'grader': judge_models has judge"),
        ({"prompt": "Grade {question}"}, "it has no {answer}, the answer to be graded"),
        ({"prompt": "{answer} {"}, "prompt:"),
        ({"low": 5, "high": 5}, "low must be below high"),
        ({"labels": {"A": 2}}, "the reward of A is not from 0 to 1"),
        ({"labels": {"A": 1}, "kappa_weights": "linear"}, "kappa_weights needs scores"),
        ({"pattern": "("}, "is not a regular expression"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(ConfigError) as refused:
        load(saying("x"), **options)
    assert message in str(refused.value)


def test_without_any_judge_model_the_refusal_says_how_one_is_added():
    with pytest.raises(ConfigError, match=r"judge_models is empty; \+judge_models\.judge="):
        load_verifier({"type": "judge"})


def test_rows_need_what_the_prompt_needs_and_a_persons_word_that_can_be_one():
    verifier = load(saying("x"), human_field="human")
    assert verifier.check_row({"question": "?"}) == "no 'expected_answer', which the judge's prompt needs"
    assert verifier.check_row({**ROW, "human": "good"}).startswith("'human' is neither a score nor a label")
    assert verifier.check_row({**ROW, "human": 10}) is None
    assert verifier.check_row({**ROW, "human": [10, 9, "8"]}) is None
    assert "11; scores are from 1 to 10" in verifier.check_row({**ROW, "human": [10, 11]})
    assert verifier.check_row(ROW) is None


def test_answers_are_stored_before_they_are_judged_and_can_be_judged_again():
    verifier = load(saying("x"))
    assert not grades_at_once(verifier)
    assert grades_stored_answers(verifier)


def test_agreement_with_people_is_over_the_rows_that_have_a_word_of_theirs():
    humans = [10, [10, 10, 1], 1, [1], None]
    judge = saying("Score: 10", "Score: 10", "Score: 1", "Score: 10", "Score: 5")
    verifier = load(judge, human_field="human")
    assert isinstance(verifier.inner, RubricVerifier)
    rollouts = graded(verifier, [({**ROW, "human": human}, "x") for human in humans])
    kappa = verifier.inner.aggregate(rollouts)["kappa"]
    assert kappa.value == pytest.approx(0.5)
    assert kappa.std_error > 0
    assert "kappa" not in load(saying("x")).metrics


def test_the_benchmark_of_the_how_to_page_judges(tmp_path):
    page = Path(__file__).parents[4] / "docs" / "how-to" / "grade-with-a-judge.md"
    config = tmp_path / "essays.yaml"
    config.write_text(page.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0])
    (tmp_path / "essays.jsonl").write_text('{"question": "Why?", "human_score": 4}\n')
    spec = run_config(config).benchmark.verifier
    verifier = load_verifier(spec, {"judge": saying("Score: 5")})
    row = {"question": "Why?", "human_score": 4}
    assert verifier.check_row(row) is None
    assert asyncio.run(verifier.verify(Task(0, 0, row), spoken("So."))).reward == 1.0


def test_what_a_judge_is_told_when_its_reply_cannot_be_read_is_plain_words():
    for told in (rubric._AGAIN, pairwise._AGAIN):
        assert "can be read. Reply with " in told
