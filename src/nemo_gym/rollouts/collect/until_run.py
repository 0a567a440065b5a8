"""A run that may stop early: its plan is made or taken up, and its store gives tasks in the drawn order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.collect.until_store import UntilStore
from nemo_gym.rollouts.output import framing, rows
from nemo_gym.rollouts.output.inputs import PlannedTasks
from nemo_gym.rollouts.output.result_rows import measured_reward
from nemo_gym.rollouts.output.store import OutputStore
from nemo_gym.rollouts.sequential.plan import ReferenceScores, StoppingPlan, load_plan, sentence

if TYPE_CHECKING:
    from nemo_gym.job_paths import RolloutPaths
    from nemo_gym.rollouts.run_config.schema import RunConfig
    from nemo_gym.rollouts.sequential.decision import StoppingState

_WINDOWS = 4
"""A failed rollout is tried again after so many times the concurrency of others."""


class UntilRun:
    """The plan of a run and the store that keeps to it; made by `open`, let go by `close`."""

    def __init__(self, plan: StoppingPlan, store: OutputStore, config: RunConfig) -> None:
        self._plan = plan
        self._path = store.paths.until
        self.store = UntilStore(
            store,
            plan,
            PlannedTasks(store.paths.materialized_inputs, store.manifest.num_repeats),
            _rewards(store) if plan.decision is None else {},
            window=_WINDOWS * config.num_samples_in_parallel,
            decided=self._decided,
        )

    @classmethod
    def open(cls, store: OutputStore, config: RunConfig, *, report: Callable[[str], None]) -> UntilRun | None:
        """Take up the plan beside the output, or make it; ``None`` for a run that asks all tasks.

        The reference is read once, when the plan is made. Raises `ConfigError` for one that does not fit, and
        `ResumeRefusedError` for a rule other than the plan's.
        """
        path = store.paths.until
        if config.until is None:
            path.unlink(missing_ok=True)
            return None
        before, size = load_plan(path), (store.manifest.num_tasks, store.manifest.num_repeats)
        rule = config.until.rule()
        fits = before is not None and before.tasks == size[0] and before.rule == rule
        reference = before.reference if fits and before is not None else None
        if reference is None and config.until.better_than is not None:
            reference = _reference(config.until.better_than, store, config)
        plan = StoppingPlan.make(rule, config.until.seed, size, reference)
        if before is not None:
            plan = replace(plan.follows(before, path=path), given_up=[])  # they may be tried again
        if plan != before:
            plan.save(path)
        run = cls(plan, store, config)
        if run.store.finding is not None:
            report(run.sentence + ".")
        return run

    @property
    def decided(self) -> bool:
        """Whether no further rollout is needed."""
        return self.store.finding is not None

    @property
    def sentence(self) -> str:
        """What was decided, or how far it is."""
        return sentence(self._plan, self.store.known)

    def keep_given_up(self) -> None:
        """Write into the plan what failed for good, where nothing is decided; rows and failures do not say
        how often a rollout may be tried.
        """
        given_up = list(self.store.known.given_up)
        if not self.decided and given_up:
            replace(self._plan, given_up=given_up).save(self._path)

    def _decided(self, finding: StoppingState) -> None:
        replace(self._plan, decision=finding).save(self._path)


def is_decided(paths: RolloutPaths, config: RunConfig, tasks: int) -> bool:
    """Whether the plan beside an output has its decision, by the rule that is asked now."""
    if config.until is None:
        return False
    plan = load_plan(paths.until)
    asked = (config.until.rule(), config.until.seed, tasks, config.repeats)
    known = plan and (plan.rule, plan.seed, plan.tasks, plan.repeats)
    return plan is not None and plan.decision is not None and known == asked


def _reference(name: str, store: OutputStore, config: RunConfig) -> ReferenceScores:
    from nemo_gym.rollouts.scores.reference_scores import reference_output, reference_scores

    paths = reference_output(name, config.benchmark.name)
    if paths.output.absolute() == store.paths.output.absolute():
        raise ConfigError("until.better_than: a run cannot be compared with itself; name another one.")
    return ReferenceScores(name, str(paths.output), reference_scores(paths, store.paths, store.manifest))


def _rewards(store: OutputStore) -> dict[int, float]:
    """The rewards that earlier runs recorded and that count, by rollout."""
    found: dict[int, float] = {}
    repeats = store.manifest.num_repeats
    if not store.recorded:
        return found
    for _, line, identity in framing.read_rows(store.paths.output):
        if identity is None or identity[1] >= repeats:
            continue
        reward = measured_reward(rows.decode_row(line))
        if reward is not None:
            found.setdefault(identity[0] * repeats + identity[1], reward)
    return found
