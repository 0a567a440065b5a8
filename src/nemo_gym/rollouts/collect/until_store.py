"""The store of a run that may stop early: rollouts come in the drawn order, and none any more once it is
decided.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nemo_gym.rollouts.output.inputs import PlannedTasks
from nemo_gym.rollouts.output.result_rows import measured_reward
from nemo_gym.rollouts.output.store import OutputStore
from nemo_gym.rollouts.sequential.decision import StoppingState
from nemo_gym.rollouts.sequential.plan import StoppingPlan
from nemo_gym.types import Row, Task


class UntilStore:
    """Wraps an output's store for the collector.

    A rollout that failed is tried again after ``window`` further ones were begun, not after all tasks: the
    decision looks at no task behind one without its result. ``rewards`` are those recorded so far, by
    rollout; ``decided`` is called once, with what was found.
    """

    def __init__(
        self,
        store: OutputStore,
        plan: StoppingPlan,
        planned: PlannedTasks,
        rewards: Mapping[int, float],
        *,
        window: int,
        decided: Callable[[StoppingState], None],
    ) -> None:
        self._store = store
        self._plan = plan
        self._planned = planned
        self._rewards = dict(rewards)
        self._repeats = store.manifest.num_repeats
        self._window = window
        self._decided = decided
        self._decider = plan.decider()
        self._begun = 0
        self._again: deque[tuple[int, Task]] = deque()
        """Failed rollouts, and how many others must have been begun before each is tried again."""
        self.finding = plan.decision
        if self.finding is None:
            self._look()

    @property
    def known(self) -> StoppingState:
        """What was decided, or how far it is."""
        return self.finding or self._decider.finding

    def pending(self) -> Iterator[Task]:
        """In the drawn order; failed ones in between."""
        for index in self._in_order(failed_only=False):
            while self._again and self._again[0][0] <= self._begun and self.finding is None:
                failed = self._again.popleft()[1]
                if self._store.may_be_asked(failed.task_index, failed.rollout_index):
                    self._begun += 1
                    yield failed
            if self.finding is not None:
                return
            self._begun += 1
            yield self._planned.at(index)

    def retryable(self) -> Iterator[Task]:
        """In the drawn order."""
        self._again.clear()
        for index in self._in_order(failed_only=True):
            if self.finding is not None:
                return
            yield self._planned.at(index)

    def answered(self) -> Iterator[tuple[int, int, Row]]:
        """Stored answers; after the decision their grades would change nothing."""
        for stored in self._store.answered():
            if self.finding is not None:
                return
            yield stored

    def turns(self, task: Task) -> Sequence[Row]:
        """See the store."""
        return self._store.turns(task)

    def add_turn(self, task: Task, entry: Mapping[str, Any]) -> None:
        """See the store."""
        self._store.add_turn(task, entry)

    def answer(self, task: Task, fields: Mapping[str, Any]) -> None:
        """See the store."""
        self._store.answer(task, fields)

    def record(self, task: Task, fields: Mapping[str, Any]) -> None:
        """Record, also after the decision, and look whether it falls."""
        self._store.record(task, fields)
        reward = measured_reward(fields)
        if reward is not None:
            self._rewards.setdefault(task.task_index * self._repeats + task.rollout_index, reward)
        self._look()

    def fail(self, task: Task, **failure: Any) -> None:
        """Record the failure; the last one that a rollout may have settles it."""
        self._store.fail(task, **failure)
        if self._store.may_be_asked(task.task_index, task.rollout_index):
            self._again.append((self._begun + self._window, task))
        self._look()

    def tick(self) -> None:
        """See the store."""
        self._store.tick()

    def close(self) -> None:
        """Close what was opened here; the store stays open."""
        self._planned.close()

    def _in_order(self, *, failed_only: bool) -> Iterator[int]:
        wanted = self._store.wanted(failed_only=failed_only)
        for task in self._plan.order:
            first = task * self._repeats
            yield from (at for at in range(first, first + self._repeats) if wanted[at])

    def _look(self) -> None:
        """Take the scores of all tasks up to the first one that is not settled."""
        decider, order = self._decider, self._plan.order
        while self.finding is None:
            if decider.outcome is not None:
                self._decided(decider.finding)  # on a full disk this is tried again, with the same decision
                self.finding = decider.finding
                return
            if decider.tasks_used == len(order):
                return
            task = order[decider.tasks_used]
            if not self._store.settled(task):
                return
            first = task * self._repeats
            places = range(first, first + self._repeats)
            rewards = [self._rewards[at] for at in places if at in self._rewards]
            given_up = [at for at in places if not self._store.recorded_at(at)]
            decider.take(rewards, given_up)
