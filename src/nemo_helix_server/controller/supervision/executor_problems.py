"""What executors cannot do for a run at the moment, noted where the job's owner sees it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nemo_helix_server.executors.base import RunObservation, RunState
from nemo_helix_server.jobs.model import StepContext
from nemo_helix_server.jobs.stamps import EXECUTOR_PROBLEM
from nemo_helix_server.store.store import JobStore

_LOG = logging.getLogger(__name__)
_FALLBACK = "another way"
_UNSEEN = 5.0
"""Seconds for which a run may not be seen before that is noted: a look may still be under way."""


@dataclass(slots=True)
class _Failed:
    version: int
    """Of the step: what failed in an earlier status is over."""
    sentences: dict[str, str] = field(default_factory=dict)
    """By what failed."""
    logged: dict[str, str] = field(default_factory=dict)
    """The last sentence about each that was logged: what fails again in the same way is not news."""


@dataclass(slots=True)
class ExecutorProblems:
    """One sentence about each run of which something is wrong: the details of its step and job have it.

    It goes with the next status, and as soon as what failed works again.
    """

    store: JobStore
    _failed: dict[str, _Failed] = field(default_factory=dict)
    """By token."""
    _unseen_since: dict[str, float] = field(default_factory=dict)
    _unseen: dict[str, str] = field(default_factory=dict)
    _live: frozenset[str] = frozenset()

    def failed(
        self, context: StepContext, token: str, what: str, error: Exception, *, accepted: bool = False
    ) -> None:
        """Something that was asked of an executor about a run failed, and is tried again; logged once.

        ``accepted``: the step was accepted after the context was read.
        """
        sentence, version = f"{what} is tried again: {error}", context.step.version + accepted
        known = self._failed.get(token)
        if known is None or known.version != version:
            known = self._failed[token] = _Failed(version)
        if known.logged.get(what) != sentence:
            _LOG.warning("the step %s of %s: %s", context.step.name, context.job_name, sentence)
        known.sentences[what] = known.logged[what] = sentence

    def fell_back(self, context: StepContext, token: str, sentence: str) -> None:
        """A request was not answered, and another way is taken; an empty sentence says nothing."""
        if not sentence:
            return
        known = self._failed.get(token)
        if known is None or known.version != context.step.version:
            known = self._failed[token] = _Failed(context.step.version)
        if known.sentences.get(_FALLBACK) != sentence:
            _LOG.warning("the job %s: %s", context.job_name, sentence)
        known.sentences[_FALLBACK] = sentence

    def worked(self, token: str, what: str) -> None:
        """It works."""
        if (known := self._failed.get(token)) is not None:
            known.sentences.pop(what, None)

    def observed(self, seen: Mapping[str, RunObservation]) -> None:
        """What was seen of all runs in this pass."""
        now = self.store.clock.monotonic()
        unseen = {token: one for token, one in seen.items() if one.state is RunState.UNKNOWN}
        self._unseen_since = {token: self._unseen_since.get(token, now) for token in unseen}
        self._unseen = {
            token: one.unseen
            or one.fallback
            or f"it cannot be seen at the moment: {one.reason or 'its executor does not say why'}"
            for token, one in seen.items()
            if (now - self._unseen_since[token] >= _UNSEEN if token in unseen else one.unseen or one.fallback)
        }

    def note(self, live: Sequence[StepContext]) -> bool:
        """Write down what has changed; ``live`` are all steps with a run. Whether something has."""
        self._forget(frozenset(context.step.task for context in live if context.step.task))
        changed = [
            (context.step, sentence)
            for context in live
            if (sentence := self._sentence(context)) != context.step.status_details.get(EXECUTOR_PROBLEM)
        ]
        if changed:
            with self.store.write() as unit:
                for step, sentence in changed:
                    now = unit.steps.by_id(step.id)
                    if now is not None and now.version == step.version:
                        unit.steps.note(step.id, {EXECUTOR_PROBLEM: sentence})
                        unit.attempts.note(step.attempt_id, {EXECUTOR_PROBLEM: sentence})
        return bool(changed)

    def _sentence(self, context: StepContext) -> str | None:
        token = context.step.task or ""
        known = self._failed.get(token)
        if known is not None and known.version == context.step.version and known.sentences:
            return next(iter(known.sentences.copy().values()), None)
        return self._unseen.get(token)

    def _forget(self, live: frozenset[str]) -> None:
        for token in self._live - live:  # one that was started in this pass is not among them yet
            self._failed.pop(token, None)
        self._live = live
