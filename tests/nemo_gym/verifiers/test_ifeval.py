"""The instructions of IFEval, by if-verifiable."""

import pytest
from tests.verifier_answers import graded

from nemo_gym.verifiers import ifeval
from nemo_gym.verifiers.registry import load_verifier

ROW = {
    "prompt": "Write two sections without commas.",
    "instruction_id_list": ["punctuation:no_comma", "keywords:existence"],
    "kwargs": [{}, {"keywords": ["river"], "relation": None}],
}


@pytest.mark.slow
def test_each_level_is_a_metric_and_the_instruction_level_is_over_all_instructions():
    one = {**ROW, "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    answers = [(ROW, "A river runs."), (ROW, "A stream runs."), (ROW, "First, a line\nA river."), (one, "")]
    verifier = load_verifier({"type": "ifeval", "timeout_seconds": 300})
    rollouts = graded(verifier, answers)
    assert [rollout.verdict.reward for rollout in rollouts] == [1.0, 0.0, 0.0, 0.0]
    assert [rollout.verdict.metrics["inst_level_strict"] for rollout in rollouts] == [1.0, 0.5, 0.5, 0.0]
    assert [rollout.verdict.metrics["prompt_level_loose"] for rollout in rollouts] == [1.0, 0.0, 1.0, 0.0]
    assert rollouts[1].verdict.fields == {"followed": {"strict": [True, False], "loose": [True, False]}}
    assert isinstance(verifier.inner, ifeval.IfevalVerifier)
    assert verifier.inner.aggregate(rollouts) == {"inst_level_strict": 4 / 7, "inst_level_loose": 5 / 7}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, None),
        ({"instruction_id_list": []}, "no 'instruction_id_list'"),
        ({"kwargs": [{}]}, "no 'kwargs', a list with an object for each instruction"),
        ({"prompt": None}, "no 'prompt'"),
        ({"instruction_id_list": ["punctuation:no_comma", "keywords:none"]}, "'keywords:none' is not known"),
    ],
)
def test_rows_need_known_instructions(change, problem):
    found = load_verifier({"type": "ifeval"}).check_row({**ROW, **change})
    assert (found is None) if problem is None else (problem in found)


@pytest.mark.slow
def test_an_instruction_that_needs_data_which_is_not_here_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(ifeval, "_has_sentences", lambda: False)
    row = {**ROW, "instruction_id_list": ["length_constraints:number_sentences"], "kwargs": [{}]}
    problem = load_verifier({"type": "ifeval"}).check_row(row)
    assert "'length_constraints:number_sentences' needs NLTK's data 'punkt_tab'" in problem
