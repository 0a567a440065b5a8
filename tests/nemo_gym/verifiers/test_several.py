"""Several verifiers in one benchmark, one of which gives the score."""

import asyncio
from typing import ClassVar, cast

import pytest

from nemo_gym.errors import ConfigError
from nemo_gym.types import Episode, GradedRollout, MetricInfo, Task, Verdict
from nemo_gym.verifiers.registry import declared_metrics, grades_at_once, load_verifier
from nemo_gym.verifiers.several import SeveralOptions, SeveralVerifier

SPEC = {
    "type": "several",
    "score": "text",
    "verifiers": {"text": {"type": "match"}, "number": {"type": "match", "mode": "numeric"}},
}


def episode(text):
    part = {"type": "output_text", "text": text}
    return Episode({"output": [{"type": "message", "content": [part]}]})


def test_one_gives_the_score_and_the_others_metrics_under_their_names():
    verifier = load_verifier(SPEC)
    verdict = asyncio.run(verifier.verify(Task(0, 0, {"expected_answer": "4"}), episode("it is 4")))
    assert (verdict.reward, verdict.extracted_answer) == (0.0, "it is 4")
    assert verdict.metrics == {"number": 1.0}
    assert verdict.fields["number"] == {"extracted_answer": "4"}
    assert declared_metrics(verifier)["number"] == MetricInfo(True, 0.0, 1.0, unseen=0.0)
    assert grades_at_once(verifier)


def test_a_row_must_fit_all_of_them():
    problem = load_verifier(SPEC).check_row({"expected_answer": "four"})
    assert "not one number" in problem
    assert problem.endswith("(for the verifier 'number')")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": "txt"}, "score names none of the verifiers; known are text, number"),
        ({"verifiers": {}}, "verifiers"),
        ({"verifiers": {"a/b": {"type": "match"}}, "score": "a/b"}, "leave out the slash"),
        ({"verifiers": {"text": {"type": "mach"}}}, "benchmark.verifier.verifiers.text.type: no verifier"),
        ({"verifiers": {"text": {"type": "match", "mood": 1}}}, "did you mean 'mode'"),
    ],
)
def test_what_cannot_be_is_refused_by_its_place(change, message):
    with pytest.raises(ConfigError) as refused:
        load_verifier({**SPEC, **change})
    assert message in str(refused.value)


class Inner:
    """A verifier with metrics of every kind."""

    metrics: ClassVar = {"length": MetricInfo(higher_is_better=False)}
    graded_ends = frozenset({"refusal"})

    def __init__(self, name):
        self.name = name

    def check_row(self, row):
        return None

    async def verify(self, task, episode):
        return Verdict(0.5, self.name, {"by": self.name}, {"length": float(len(episode.text))})

    def grade_group(self, rollouts):
        self.got = [one.verdict for one in rollouts]
        return {"most": max(one.verdict.metrics["length"] for one in rollouts)}

    def aggregate(self, rollouts):
        assert [one.verdict for one in rollouts] == [one.verdict for one in rollouts] == self.got
        return {"all": float(len(list(rollouts)))}


def test_each_gets_its_own_verdicts_back_for_groups_and_for_the_run(monkeypatch):
    monkeypatch.setattr("nemo_gym.verifiers.several.load_verifier", lambda spec, *_, where: Inner(spec["n"]))
    options = SeveralOptions(verifiers={"a": {"n": "a"}, "b": {"n": "b"}}, score="b")
    several = SeveralVerifier(options)
    task = Task(0, 0, {})
    verdicts = [asyncio.run(several.verify(task, episode(text))) for text in ("x", "xyz")]
    assert verdicts[0].metrics == {"b/length": 1.0, "a": 0.5, "a/length": 1.0}
    assert several.graded_ends == {"refusal"}
    rollouts = [GradedRollout(task, episode("x"), verdict) for verdict in verdicts]
    assert several.grade_group(rollouts) == {"a/most": 3.0, "b/most": 3.0}
    assert several.aggregate(rollouts) == {"a/all": 2.0, "b/all": 2.0}
    for name, inner in several.verifiers.items():
        got = cast("Inner", inner).got
        assert [(one.reward, one.extracted_answer, one.fields) for one in got] == [
            (0.5, name, {"by": name})
        ] * 2
    assert {name: info.higher_is_better for name, info in several.metrics.items()} == {
        "a": True,
        "a/length": False,
        "b/length": False,
    }
