"""The one place where a verifier's methods are called: whatever one does wrong names it and ends nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel

from nemo_gym import plugins
from nemo_gym.types import Episode, RolloutFailedError, Row, Task, Verdict, Verifier
from nemo_runs.extensions import entry_points

FAILURE = "verifier_error"
_DECLARED = (
    "metrics",
    "graded_ends",
    "grades_at_once",
    "grades_stored_answers",
    "aggregates_unscored",
    "graded_with",
)
_OF_A_RUN = ("start", "close")
_OF_MANY = ("grade_group", "aggregate")


class GuardedVerifier:
    """A verifier whose methods give what the protocol says, or an error that names verifier, package and row.

    It has those optional members that the other one has.
    """

    Options: ClassVar[type[BaseModel]] = BaseModel
    """None of its own: the other verifier has been built."""

    def __init__(self, verifier: Verifier, title: str) -> None:
        """``title`` names it in messages, such as ``the verifier 'toy' of the package toys``."""
        self.inner = verifier
        self.title = title
        for name in (*_DECLARED, *_OF_A_RUN):
            if hasattr(verifier, name):
                setattr(self, name, getattr(verifier, name))
        for name in _OF_MANY:
            function = getattr(verifier, name, None)
            if hasattr(verifier, name):
                setattr(self, name, self._of_many(name, function) if callable(function) else None)

    def check_row(self, row: Row) -> str | None:
        """What a row lacks; a check that fails is a reason too, since the row cannot be graded then."""
        try:
            found: object = self.inner.check_row(row)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - foreign code
            return f"{self.title} cannot check it: {entry_points.said(error)}"
        if found is None or isinstance(found, str):
            return found or None
        return f"{self.title} gave {found!r:.60} for it, and its check_row must give a text or None"

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Have one answer graded."""
        title = f"{self.title}, asked for the grade of row {task.task_index},"
        verdict = await plugins.awaited(title, lambda: self.inner.verify(task, episode), Verdict, FAILURE)
        for name in ("fields", "metrics"):
            found: object = getattr(verdict, name)
            if not isinstance(found, Mapping):
                raise RolloutFailedError(FAILURE, f"{title} gave a verdict whose {name} are {found!r:.60}")
        assert isinstance(verdict, Verdict)
        return verdict

    def _of_many(self, name: str, function: Callable[[Any], Any]) -> Callable[[Any], Mapping[str, Any]]:
        def call(rollouts: Any) -> Mapping[str, Any]:
            try:
                found = function(rollouts)
            except (Exception, KeyboardInterrupt):
                raise
            except BaseException as error:
                said = f"{self.title} raised {entry_points.said(error)} in {name}"
                raise RolloutFailedError(FAILURE, said) from error
            if not isinstance(found, Mapping):
                raise RolloutFailedError(
                    FAILURE, f"{self.title} gave {found!r:.60}, not a mapping, in {name}"
                )
            return found

        return call
