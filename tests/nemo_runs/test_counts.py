"""One of a thing, and many."""

import pytest

from nemo_runs.counts import counted, every, noun


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 rollouts have"), (1, "1 rollout has"), (2, "2 rollouts have"), (1234, "1,234 rollouts have")],
)
def test_noun_and_verb_follow_the_number(number: int, said: str) -> None:
    assert counted(number, "rollout has", "rollouts have") == said


def test_a_noun_without_a_plural_of_its_own_gets_an_s() -> None:
    assert [counted(number, "row") for number in (1, 3)] == ["1 row", "3 rows"]
    assert [noun(number, "stays", "stay") for number in (1, 3)] == ["stays", "stay"]


def test_all_of_one_is_the_only_one() -> None:
    assert every(1, "rollout has", "rollouts have") == "the only rollout has"
    assert every(1200, "rollout has", "rollouts have") == "all 1,200 rollouts have"
