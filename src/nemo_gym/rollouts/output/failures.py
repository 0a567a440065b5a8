"""What goes into the failures file about one failed rollout. Pure."""

from __future__ import annotations

import inspect
import math
import traceback
from dataclasses import dataclass, replace
from typing import Literal

from nemo_gym.rollouts.policy.errors import PolicyError
from nemo_gym.rollouts.policy.refusals import ServerRefusal, refusal_of
from nemo_gym.types import RolloutFailedError

Stage = Literal["agent", "verifier"]
MESSAGE_LIMIT = 2000
_CLASS_OF_STAGE = {"agent": "agent_run_error", "verifier": "verifier_error"}


@dataclass(frozen=True, slots=True)
class RolloutFailure:
    """One failed attempt at one rollout."""

    failure_class: str
    failure_type: str
    """The kind of a `PolicyError`, or the name of the exception."""
    message: str
    http_status: int | None = None
    response_body: str | None = None
    terminal: bool = False
    of_endpoint: bool = False
    """Whether others would have failed there too."""
    unreachable: bool = False
    """Whether no connection could be made at all."""
    refusal: ServerRefusal | None = None
    """The client error, where the server refused the request as such."""
    of_judge: bool = False
    """Whether a judge model gave no answer, as it would to others."""
    grading: bool = False
    """Whether there is an answer, and only its grading failed."""


def describe(error: Exception, stage: Stage, plugin: object) -> RolloutFailure:
    """Sort an exception of an agent or a verifier into its class.

    One that it did not mean to raise is reported with file and line in its own code.
    """
    return replace(_describe(error, stage, plugin), grading=stage == "verifier")


def no_json(what: str, error: TypeError) -> RolloutFailure:
    """An answer or a grade that no row can hold."""
    message = f"{what} is not JSON: {error}"
    return RolloutFailure("persistence_failed", type(error).__name__, message, grading=what == "the grade")


def place(error: BaseException, plugin: object) -> str:
    """Where in a plug-in's own code an exception came from, as ``file:line, in function``.

    The innermost place where nothing of its own is on the stack; empty where there is no stack.
    """
    while hasattr(plugin, "inner"):
        plugin = plugin.inner
    own = inspect.getsourcefile(type(plugin)) if _has_source(type(plugin)) else None
    frames = traceback.extract_tb(error.__traceback__)
    found = next((frame for frame in reversed(frames) if frame.filename == own), None)
    if found is None and frames:
        found = frames[-1]
    return "" if found is None else f"{found.filename}:{found.lineno}, in {found.name}"


def _title_of_package(plugin: object) -> str:
    """How a plug-in of another package is named; empty for a built-in one, whose place says enough."""
    while not hasattr(plugin, "title") and hasattr(plugin, "inner"):
        plugin = plugin.inner
    title = str(getattr(plugin, "title", ""))
    return title if " of the package " in title else ""


def _has_source(kind: type) -> bool:
    try:
        return inspect.getsourcefile(kind) is not None
    except TypeError:
        return False


def _describe(error: Exception, stage: Stage, plugin: object) -> RolloutFailure:
    if isinstance(error, PolicyError):
        return RolloutFailure(
            error.failure_class if stage == "agent" else "judge_failed",
            error.kind,
            str(error)[:MESSAGE_LIMIT],
            http_status=error.http_status,
            response_body=error.body,
            of_endpoint=error.of_endpoint and stage == "agent",
            of_judge=error.of_endpoint and stage == "verifier",
            unreachable=error.kind == "transport_unreachable" and stage == "agent",
            refusal=refusal_of(error) if stage == "agent" else None,
        )
    message = str(error)[:MESSAGE_LIMIT]
    if isinstance(error, RolloutFailedError):
        terminal = error.terminal or error.failure_class == "skipped"
        return RolloutFailure(error.failure_class, type(error).__name__, message, terminal=terminal)
    where = place(error, plugin)
    message = message or f"a bare {type(error).__name__}"
    if where:
        message = f"{message} ({where})"
    if title := _title_of_package(plugin):
        message = f"{title}: {message}"
    return RolloutFailure(_CLASS_OF_STAGE[stage], type(error).__name__, message)


def checked_reward(value: object) -> float | None:
    """The reward as a number in [0, 1] or ``None``; raises `RolloutFailedError` for anything else."""
    if value is None:
        return None
    if isinstance(value, int | float) and math.isfinite(value) and 0.0 <= value <= 1.0:
        return float(value)
    raise RolloutFailedError(
        "verifier_error", f"the verifier's reward is {value!r}, neither a number from 0 to 1 nor null"
    )
