"""The file beside the results that says when the run may stop: rule, seed, order, reference, decision.

It is written before the first request, so that order and reference are fixed before anything is known, and
once more when the decision falls.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from nemo_gym.errors import DataError, ResumeRefusedError
from nemo_gym.rollouts.sequential.decision import LEVEL, Decider, StoppingState, task_order
from nemo_runs.counts import counted
from nemo_runs.durable import files

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ReferenceScores:
    """The run that is compared with, as it was when this one began."""

    run: str
    """As it was named."""
    output: str
    scores: list[float]
    """By task."""

    @property
    def sha256(self) -> str:
        """Digest of the scores."""
        return hashlib.sha256(json.dumps(self.scores).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StoppingPlan:
    """When a run may stop; all of it but what it came to is fixed before the first answer."""

    rule: dict[str, Any]
    """``half_width`` or ``better_than``, as it was written."""
    seed: int
    tasks: int
    repeats: int
    """Rollouts of each task."""
    order: list[int] = field(repr=False)
    """Task indexes as they are asked."""
    tuned_for: float | None = None
    """The half width that was asked for first: bets may not depend on what was seen since."""
    reference: ReferenceScores | None = None
    level: float = LEVEL
    decision: StoppingState | None = None
    given_up: list[int] = field(default_factory=list)
    """Rollouts of the first tasks that had failed for good when a run ended without a decision."""
    schema_version: int = SCHEMA_VERSION

    @classmethod
    def make(
        cls, rule: Mapping[str, Any], seed: int, size: tuple[int, int], reference: ReferenceScores | None
    ) -> StoppingPlan:
        """A fresh plan; ``size`` is the number of tasks and of repeats."""
        order = task_order(size[0], seed)
        return cls(dict(rule), seed, *size, order, rule.get("half_width"), reference)

    def follows(self, before: StoppingPlan, *, path: Path) -> StoppingPlan:
        """This plan on an output that has one: what was fixed then stays, and so does a decision.

        A plan for another number of tasks or repeats is another question, in the same order. Another
        ``half_width`` is looked at with the bets of the first one. Raises `ResumeRefusedError` for another
        seed, and on the same tasks for another kind of rule or reference.
        """
        same = (before.tasks, before.repeats) == (self.tasks, self.repeats)
        fixed: list[tuple[str, Any, Any]] = [("seed", before.seed, self.seed)]
        if same:
            fixed += [("better_than", before.rule.get("better_than"), self.rule.get("better_than"))]
        changes = [f"until.{name}: {old} → {new}" for name, old, new in fixed if old != new]
        if changes or (same and before.rule.keys() != self.rule.keys()):
            said = "; ".join(changes) or f"until: {before.rule} → {self.rule}"
            raise ResumeRefusedError(
                f"{path}: the run was begun with another rule ({said}), and an interval that is valid at any "
                "time allows no other once answers are known. Undo the change, leave until out to have all "
                "tasks asked, or choose another --output."
            )
        if not same:
            tuned = self.tuned_for and (before.tuned_for or self.tuned_for)
            return replace(self, tuned_for=tuned)
        kept = before.decision if before.rule == self.rule else None
        return replace(before, rule=self.rule, decision=kept)

    @property
    def gone(self) -> frozenset[int]:
        """The rollouts that count as failed for good, whatever became of them since."""
        return frozenset(self.given_up if self.decision is None else self.decision.given_up)

    def decider(self) -> Decider:
        """A decider that has taken nothing yet."""
        reference = None
        if self.reference is not None:
            reference = [self.reference.scores[task] for task in self.order]
        return Decider(
            self.tasks,
            half_width=self.rule.get("half_width"),
            tuned_for=self.tuned_for,
            reference=reference,
            alpha=1 - self.level,
        )

    def found(self, task: Callable[[int], tuple[Sequence[float], Sequence[int]] | None]) -> StoppingState:
        """What follows from the tasks, up to the first one that is not settled.

        ``task`` gives for an index the measured rewards and the rollouts that were given up, ``None`` for a
        task that still waits for one of its rollouts.
        """
        decider = self.decider()
        for index in self.order:
            settled = task(index)
            if settled is None or decider.take(*settled) is not None:
                break
        return decider.finding

    def summed(self, finding: StoppingState) -> dict[str, Any]:
        """For summaries: the plan without its long lists, and what was found."""
        reference = self.reference
        return {
            "rule": self.rule,
            "seed": self.seed,
            "level": self.level,
            "tasks": self.tasks,
            "repeats": self.repeats,
            "order_sha256": hashlib.sha256(json.dumps(self.order).encode()).hexdigest(),
            "reference": reference
            and {"run": reference.run, "output": reference.output, "scores_sha256": reference.sha256},
            **finding.to_json(),
            "sentence": sentence(self, finding),
        }

    def save(self, path: Path) -> None:
        """Replace the file durably."""
        found = asdict(self) | {"decision": self.decision and self.decision.to_json()}
        files.replace_file(path, json.dumps(found).encode() + b"\n")


def load_plan(path: Path) -> StoppingPlan | None:
    """The plan beside an output, ``None`` where there is none.

    Raises `DataError` for a file that is damaged or of a newer schema.
    """
    try:
        found = json.loads(files.read_document(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{path}: it cannot be read ({error.strerror or error}).") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error}).") from error
    try:
        if found["schema_version"] > SCHEMA_VERSION:
            raise DataError(f"{path}: written by a newer gym (schema {found['schema_version']}).")
        reference, decision = found["reference"], found["decision"]
        plan = StoppingPlan(
            **found
            | {
                "reference": None if reference is None else ReferenceScores(**reference),
                "decision": None if decision is None else StoppingState.of_json(decision),
            }
        )
        if sorted(plan.order) != list(range(plan.tasks)):
            raise DataError(f"{path}: its order does not name each of its tasks once.")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: not a whole plan ({type(error).__name__}: {error}).") from error
    return plan


def sentence(plan: StoppingPlan, finding: StoppingState) -> str:
    """What was decided, or how far it is, for a person."""
    used = f"{finding.tasks_used:,} of {counted(plan.tasks, 'task')}"
    limits, what = finding.score, "score"
    if finding.difference is not None:
        limits, what = finding.difference, "difference"
    sign = "+" if finding.difference is not None else ""
    interval = f"{what} {limits.low:{sign}.1%} to {limits.high:{sign}.1%}"
    if finding.outcome is None:
        return f"not decided after {used}: {interval}"
    if finding.difference is None:
        return f"decided after {used}: within ±{limits.half_width:.2%} ({interval})"
    against = plan.reference.run if plan.reference is not None else "the reference"
    than = "equal to" if finding.outcome == "equal" else f"{finding.outcome} than"
    return f"decided after {used}: {than} {against} ({interval})"
