"""The verifier of BFCL: answers are checked by bfcl-eval's own checkers, in processes of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym import package_environments
from nemo_gym.bfcl import categories, environment, world
from nemo_gym.bfcl.answers import BROKEN, FIELD, SAID, said_in, shown
from nemo_gym.bfcl.places import Place
from nemo_gym.bfcl.world import BrokenWorldError
from nemo_gym.reports import to_stderr
from nemo_gym.sandbox.protocol import SandboxError
from nemo_gym.types import ANSWER_ENDS, Episode, Policy, RolloutFailedError, Row, Task, Verdict
from nemo_gym.verifiers.grading_processes import GradingProcesses

_NEEDED = {True: ("turns", "later_tools", "initial_config", "involved_classes"), False: ("functions",)}
_SANDBOX = "benchmark.verifier.sandbox"
_TIME = 60.0
"""Seconds that the check of one answer without a conversation may take."""


class BfclVerifierOptions(BaseModel):
    """Options of the BFCL verifier."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sandbox: dict[str, Any] = Field(default_factory=dict)
    """Where conversations are checked; the Python in it is always that of BFCL."""
    seconds: float = Field(300, gt=0, allow_inf_nan=False)
    """How long the check of one conversation may take; one that takes longer is wrong."""


class BfclVerifier:
    """The reward says whether bfcl-eval calls the answer valid."""

    Options: ClassVar[type[BaseModel]] = BfclVerifierOptions
    graded_ends = frozenset(ANSWER_ENDS)
    """As bfcl-eval does: it does not look how an answer ended."""

    def __init__(self, options: BaseModel, _models: Mapping[str, Policy] | None = None) -> None:
        self.options = cast("BfclVerifierOptions", options)
        self._place = Place(self.options.sandbox, where=_SANDBOX)
        self._processes: GradingProcesses | None = None
        self._talks = False

    def check_row(self, row: Row) -> str | None:
        """The row must have been made from the version of bfcl-eval that checks."""
        about = row.get(FIELD)
        if not isinstance(about, dict) or row.get("category") not in categories.ALL or "id" not in row:
            return f"lacks {FIELD}, id or a category of BFCL: it was not made by the benchmark bfcl"
        if about.get("version") != environment.version():
            return (
                f"was made from bfcl-eval {about.get('version')}, and bfcl-eval {environment.version()} "
                "checks; prepare the benchmark again"
            )
        of_turns = row["category"] in categories.MULTI_TURN
        self._talks = self._talks or of_turns
        missing = [key for key in _NEEDED[of_turns] if key not in about]
        return f"lacks {FIELD}.{missing[0]}" if missing else None

    def start(self) -> None:
        """Have the environment before there is an answer, and a sandbox that works if rows need one.

        Raises `nemo_gym.errors.GymError`.
        """
        if self._talks:
            asyncio.run(Place(self.options.sandbox, where=_SANDBOX).get())
        self._processes = _checking()

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Check an answer, or a conversation."""
        row = task.row
        if row["category"] in categories.MULTI_TURN:
            said = episode.fields.get(SAID, [])
            found = await self._conversation(row, said, episode.fields.get(BROKEN))
        else:
            said = said_in(episode.response)
            found = await self._answer(row, said)
        fields = {key: found[key] for key in ("error_type", "error") if found.get(key) is not None}
        return Verdict(float(found["valid"]), shown(said), fields)

    async def _answer(self, row: Row, said: Any) -> Row:
        if self._processes is None:
            self._processes = await asyncio.to_thread(_checking)
        found: Row = await self._processes.call(
            category=row["category"],
            functions=row[FIELD]["functions"],
            said=said,
            expected=row["expected_answer"],
        )
        return found

    async def _conversation(self, row: Row, said: Any, broken: str | None) -> Row:
        if broken is not None:
            return {"valid": False, "error_type": "multi_turn:broken", "error": broken}
        try:
            sandbox, python = await self._place.get()
            return await world.checked(sandbox, python, row, said, self.options.seconds)
        except BrokenWorldError as error:
            return {"valid": False, "error_type": "multi_turn:broken", "error": str(error)}
        except SandboxError as error:
            raise RolloutFailedError("verifier_error", str(error)) from error


def _checking() -> GradingProcesses:
    """Processes that check, once they are needed, in the interpreter that has bfcl-eval."""
    python = environment.ensure_python(to_stderr)
    return GradingProcesses(
        "nemo_gym.bfcl.worker.grading:grader",
        {},
        time_limit=_TIME,
        python=(str(python), "-P"),
        environ=package_environments.worker_environ(),
    )
