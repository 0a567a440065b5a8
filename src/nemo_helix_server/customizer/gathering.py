"""Checks one after the other, whose refusals are said together."""

from __future__ import annotations

from types import TracebackType

from nemo_helix_plugin.body_problems import in_lines
from nemo_helix_server.customizer.support import SpecRefusedError
from nemo_helix_server.errors import ForbiddenError, InvalidError, ServerError, StateConflictError

_REFUSALS = (ForbiddenError, InvalidError, StateConflictError)


class Gathered:
    """Each ``with`` block is a check: what it refuses is kept, and the next one goes on."""

    def __init__(self) -> None:
        self._errors: list[ServerError] = []

    def __enter__(self) -> None:
        """Begin a check."""

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None
    ) -> bool:
        """Keep a refusal; any other error goes its way."""
        if not isinstance(error, _REFUSALS):
            return False
        self._errors.append(error)
        return True

    def raise_all(self) -> None:
        """Raise the only refusal as it is, or several as one, with the status of the first."""
        if not self._errors:
            return
        first = self._errors[0]
        if len(self._errors) == 1:
            raise first
        problems: list[str] = []
        for error in self._errors:
            problems += error.problems if isinstance(error, SpecRefusedError) else [error.detail]
        status = ServerError if isinstance(first, SpecRefusedError) else type(first)
        raise SpecRefusedError(problems) if status is ServerError else status(in_lines(problems))
