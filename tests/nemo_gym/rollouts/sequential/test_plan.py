"""What a plan keeps of the one before it."""

from pathlib import Path

import pytest

from nemo_gym.errors import ResumeRefusedError
from nemo_gym.rollouts.sequential.plan import ReferenceScores, StoppingPlan, load_plan

PATH = Path("rollouts_until.json")


def made(half_width, *, tasks=10, seed=3):
    return StoppingPlan.make({"half_width": half_width}, seed, (tasks, 1), None)


def test_more_tasks_keep_order_and_bets_of_the_first_ones():
    first = made(0.1)
    more = made(0.02, tasks=40).follows(first, path=PATH)
    assert (more.tasks, more.rule, more.tuned_for) == (40, {"half_width": 0.02}, 0.1)
    assert [task for task in more.order if task < 10] == first.order
    with pytest.raises(ResumeRefusedError, match=r"until\.seed: 3 → 4"):
        made(0.1, tasks=40, seed=4).follows(first, path=PATH)


def test_more_tasks_may_be_another_kind_of_question():
    reference = ReferenceScores("other", "other/rollouts.jsonl", [0.5] * 40)
    versus = StoppingPlan.make({"better_than": "other"}, 3, (40, 1), reference)
    assert versus.follows(made(0.1), path=PATH) == versus
    with pytest.raises(ResumeRefusedError, match="another rule"):
        versus.follows(made(0.1, tasks=40), path=PATH)


def test_a_plan_is_read_as_it_was_written(tmp_path):
    plan = made(0.1)
    plan.given_up.append(7)
    plan.save(tmp_path / "plan.json")
    found = load_plan(tmp_path / "plan.json")
    assert found == plan
    assert found.gone == {7}
