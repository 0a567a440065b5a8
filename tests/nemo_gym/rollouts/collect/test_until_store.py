"""A run that may stop early, killed at every step: whatever happens, the same decision falls."""

import random
from types import SimpleNamespace

import pytest

from nemo_gym.rollouts.collect.until_store import UntilStore
from nemo_gym.rollouts.sequential.plan import StoppingPlan
from nemo_gym.types import Task

TASKS, REPEATS, ATTEMPTS = 40, 2, 3


class DurableRows:
    """What an output keeps; it outlives the run that writes to it."""

    def __init__(self):
        self.rows, self.failures = {}, {}
        self.manifest = SimpleNamespace(num_repeats=REPEATS)

    def _open(self, at):
        return at not in self.rows and self.failures.get(at, 0) < ATTEMPTS

    def wanted(self, *, failed_only):
        places = range(TASKS * REPEATS)
        return bytes(self._open(at) and (not failed_only or at in self.failures) for at in places)

    def may_be_asked(self, task, repeat):
        return self._open(task * REPEATS + repeat)

    def recorded_at(self, at):
        return at in self.rows

    def settled(self, task):
        return not any(self.may_be_asked(task, repeat) for repeat in range(REPEATS))

    def answered(self):
        return iter(())

    def record(self, task, fields):
        self.rows.setdefault(task.task_index * REPEATS + task.rollout_index, fields)

    def fail(self, task, **_failure):
        at = task.task_index * REPEATS + task.rollout_index
        self.failures[at] = self.failures.get(at, 0) + 1


class Planned:
    def at(self, index):
        task, repeat = divmod(index, REPEATS)
        return Task(task, repeat, {})


def reward(at):
    """Most are right."""
    return float(random.Random(at).random() < 0.9)


def fails(at, tried):
    """Some fail once, and one for good."""
    return at == 5 or (at % 7 == 3 and tried == 1)


class Run:
    """Four at once; which of them is ready first is drawn."""

    def __init__(self, rows, plan, rng, kept):
        self.rows, self.rng, self.steps, self.kept = rows, rng, 0, kept
        rewards = {at: fields["reward"] for at, fields in rows.rows.items()}
        self.store = UntilStore(rows, plan, Planned(), rewards, window=6, decided=kept.append)

    def go_on(self, most=None):
        """Until nothing is left to do, or so many answers have come: then it is killed."""
        for source in (self.store.pending, *[self.store.retryable] * ATTEMPTS):
            flying, tasks = [], source()
            while True:
                while len(flying) < 4 and (task := next(tasks, None)) is not None:
                    flying.append(task)
                if not flying:
                    break
                if most is not None and self.steps >= most:
                    return False
                self._end(flying.pop(self.rng.randrange(len(flying))))
        return True

    def _end(self, task):
        self.steps += 1
        at = task.task_index * REPEATS + task.rollout_index
        if fails(at, self.rows.failures.get(at, 0) + 1):
            self.store.fail(task, failure_class="policy_error")
        else:
            self.store.record(task, {"reward": reward(at)})


PLANS = {
    "half_width": lambda: StoppingPlan.make({"half_width": 0.2}, 1, (TASKS, REPEATS), None),
    "better_than": lambda: StoppingPlan.make(
        {"better_than": "other"}, 1, (TASKS, REPEATS), SimpleNamespace(scores=[0.2] * TASKS)
    ),
}


@pytest.mark.parametrize("rule", PLANS)
def test_the_same_decision_falls_wherever_a_run_is_killed_and_however_answers_arrive(rule):
    plan, rows, kept = PLANS[rule](), DurableRows(), []
    run = Run(rows, plan, random.Random(0), kept)
    assert run.go_on()
    [decision] = kept
    assert decision.outcome == ("precise" if rule == "half_width" else "better")
    assert 5 < decision.tasks_used < TASKS
    for killed_after in range(run.steps + 1):
        rng, again, found = random.Random(killed_after), DurableRows(), []
        assert not Run(again, plan, rng, found).go_on(killed_after) or found
        Run(again, plan, rng, found).go_on()
        assert found[-1] == decision
        used = {task * REPEATS + repeat for task in plan.order[: decision.tasks_used] for repeat in (0, 1)}
        assert used <= again.rows.keys() | {5}


def test_what_is_in_flight_when_it_falls_is_recorded_and_no_more_is_begun():
    plan, rows, kept = PLANS["half_width"](), DurableRows(), []
    run = Run(rows, plan, random.Random(0), kept)
    run.go_on()
    beyond = len(rows.rows) - kept[0].tasks_used * REPEATS
    assert 0 < beyond + 1 <= 6 + 4
    done = len(rows.rows)
    resumed = Run(rows, plan, random.Random(0), kept)
    assert resumed.go_on()
    assert (resumed.steps, len(rows.rows)) == (0, done)


def test_a_failed_rollout_is_tried_again_long_before_all_tasks_are_asked():
    plan, rows, kept = StoppingPlan.make({"half_width": 0.01}, 1, (TASKS, REPEATS), None), DurableRows(), []
    store = UntilStore(rows, plan, Planned(), {}, window=6, decided=kept.append)
    order = []
    for task in store.pending():
        at = task.task_index * REPEATS + task.rollout_index
        order.append(at)
        if len(order) == 1:
            store.fail(task, failure_class="policy_error")
        else:
            store.record(task, {"reward": 1.0})
    assert order.index(order[0], 1) == 7


def test_a_decision_that_could_not_be_written_is_written_by_the_next_try():
    plan, rows, kept = PLANS["half_width"](), DurableRows(), []
    full = [True]

    def keep(decision):
        if full:
            full.clear()
            raise OSError("no space left")
        kept.append(decision)

    store = UntilStore(rows, plan, Planned(), {}, window=6, decided=keep)
    for task in store.pending():
        try:
            store.record(task, {"reward": 1.0})
        except OSError:
            store.record(task, {"reward": 1.0})
    [decision] = kept
    assert (store.finding, decision.outcome) == (decision, "precise")
