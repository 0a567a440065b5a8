"""ROUGE by its usual library, the reference that fits best."""

import pytest
from rouge_score.rouge_scorer import RougeScorer
from tests.verifier_answers import verdicts

from nemo_gym.errors import ConfigError
from nemo_gym.verifiers.registry import declared_metrics, load_verifier

REFERENCES = ["The cat sat on the mats.", "A dog was running."]
ANSWERS = ["the cat was sitting on the mat", "the dogs run", "", "naïve Übung"]


@pytest.mark.slow
def test_values_are_those_of_the_library():
    spec = {"type": "rouge", "kinds": ["rouge1", "rouge2"], "score": "rougeL"}
    rows = [({"expected_answer": REFERENCES}, answer) for answer in ANSWERS]
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    for answer, verdict in zip(ANSWERS, verdicts(spec, rows), strict=True):
        theirs = [scorer.score(reference, answer) for reference in REFERENCES]
        best = {kind: max(one[kind].fmeasure for one in theirs) for kind in theirs[0]}
        assert verdict.reward == best.pop("rougeL")
        assert verdict.metrics == best


def test_the_kind_that_is_the_score_is_no_metric():
    assert set(declared_metrics(load_verifier({"type": "rouge", "score": "rouge2"}))) == {"rouge1", "rougeL"}


def test_a_kind_that_is_not_known_is_refused():
    with pytest.raises(ConfigError, match=r"benchmark\.verifier\.score"):
        load_verifier({"type": "rouge", "score": "rouge3"})
