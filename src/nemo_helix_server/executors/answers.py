"""What executors answer, checked where it comes in: it may be of another package."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, cast

from nemo_helix_server.customizer.facts import EngineFacts, TrainingMachine
from nemo_helix_server.executors.base import (
    Admitted,
    RunObservation,
    RunPlace,
    RunState,
    Software,
    StepExecutor,
    WaitingForCapacity,
)
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.storage.run_storage import RunStorage
from nemo_runs.findings import Finding
from nemo_trainer.contract.allocation import Allocation

_METHODS = (
    "start",
    "observe",
    "request_pause",
    "withdraw_pause",
    "stop",
    "kill",
    "last_request",
    "close",
)
_OF_A_PLACE = ("environment", "machine", "engine", "python", "has_program", "environment_digest")
_OF_A_STORAGE = ("paths", "prepare", "trainer", "log", "size", "reclaim", "discard")
Answer = TypeVar("Answer")


class WrongAnswerError(Exception):
    """An answer is not what was asked for; the message is a clause whose subject is the answer."""


def nothing(_found: object) -> None:
    """Of a method whose answer does not matter."""


def one_of(*kinds: type | None) -> Callable[[object], Any]:
    """A check that an answer is of one of these types; `None` among them allows `None`."""
    types = tuple(kind for kind in kinds if kind is not None)
    names = " or ".join("None" if kind is None else kind.__name__ for kind in kinds)

    def check(found: object) -> object:
        right = found is None if None in kinds and found is None else isinstance(found, types)
        if not right or (isinstance(found, bool) and bool not in types):
            raise WrongAnswerError(f"it is {shown(found)}, and has to be {names}")
        return found

    return check


def executor(found: object) -> StepExecutor:
    """What opening an executor gives: every method of the protocol is there."""
    missing = _missing(found, _METHODS)
    if missing:
        raise WrongAnswerError(f"it is {shown(found)}, which has no {', '.join(missing)}")
    return cast("StepExecutor", found)


def storage(found: object) -> RunStorage:
    """The storage of a run's files."""
    if _missing(found, _OF_A_STORAGE):
        raise WrongAnswerError(f"it is {shown(found)}, and has to be a RunStorage")
    return cast("RunStorage", found)


def place(found: object) -> RunPlace:
    """The place to run."""
    if _missing(found, _OF_A_PLACE):
        raise WrongAnswerError(f"it is {shown(found)}, and has to be a RunPlace")
    return cast("RunPlace", found)


def variables(found: object) -> Mapping[str, str]:
    """The variables of an environment."""
    if not isinstance(found, Mapping) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in found.items()
    ):
        raise WrongAnswerError(f"it is {shown(found)}, and has to be a mapping of text to text")
    return found


def admission(found: object) -> Admitted | WaitingForCapacity:
    """Whether a run may start."""
    answer = cast("Admitted | WaitingForCapacity", one_of(Admitted, WaitingForCapacity)(found))
    if isinstance(answer, Admitted):
        sequence_of(str)(answer.devices)
    else:
        one_of(str)(answer.reason)
    return answer


def sequence_of(kind: type[Answer]) -> Callable[[object], Sequence[Answer]]:
    """A check that an answer is a list or a tuple of values of a type."""

    def check(found: object) -> Sequence[Answer]:
        if not isinstance(found, list | tuple) or not all(
            isinstance(one, kind) and not isinstance(one, bool) for one in found
        ):
            raise WrongAnswerError(f"it is {shown(found)}, and has to be a sequence of {kind.__name__}")
        return found

    return check


runs = sequence_of(StepRun)
findings = sequence_of(Finding)
software: Callable[[object], Software | None] = one_of(Software, None)
number: Callable[[object], int | None] = one_of(int, None)
text: Callable[[object], str | None] = one_of(str, None)
fact: Callable[[object], bool] = one_of(bool)
training_machine: Callable[[object], TrainingMachine | None] = one_of(TrainingMachine, None)
engine_facts: Callable[[object], EngineFacts] = one_of(EngineFacts)


def descriptors(found: object) -> tuple[int, ...]:
    """Numbers of open descriptors that never block."""
    numbers = sequence_of(int)(found)
    for one in numbers:
        try:
            blocks = os.get_blocking(one)
        except (OSError, OverflowError, ValueError) as error:
            raise WrongAnswerError(f"it has {one}, and no descriptor of that number is open") from error
        if blocks:
            raise WrongAnswerError(
                f"it has the descriptor {one}, which blocks; `os.set_blocking` changes that"
            )
    return tuple(numbers)


def observations(found: object, wanted: Collection[str]) -> tuple[dict[str, RunObservation], str]:
    """What an answer says of these tokens, and what is wrong with the rest; empty when nothing is."""
    if not isinstance(found, Mapping):
        raise WrongAnswerError(f"it is {shown(found)}, and has to be a mapping of tokens to RunObservation")
    good: dict[str, RunObservation] = {}
    wrong = ""
    for token in wanted:
        problem = _problem(token, found[token]) if token in found else f"it says nothing of {token}"
        if problem:
            wrong = wrong or problem
        else:
            good[token] = found[token]
    return good, wrong


def _problem(token: str, seen: object) -> str:
    if not isinstance(seen, RunObservation):
        return f"of {token} it says {shown(seen)}, and has to say a RunObservation"
    for name, is_right in _PARTS:
        value = getattr(seen, name)
        if not is_right(value):
            return f"of {token} it says {name}={shown(value)}"
    return ""


def _is_int(value: object) -> bool:
    return type(value) is int


def _is_status(value: object) -> bool:
    return value is None or type(value) is int


def _is_moment(value: object) -> bool:
    return value is None or (type(value) in {int, float} and math.isfinite(cast("float", value)))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_fact(value: object) -> bool:
    return isinstance(value, bool)


def _are_nodes(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(one, str) for one in value)


_PARTS: tuple[tuple[str, Callable[[object], bool]], ...] = (
    ("state", lambda value: isinstance(value, RunState)),
    ("exit_status", _is_status),
    ("signal", _is_int),
    ("eligible_at", _is_moment),
    ("started_at", _is_moment),
    ("ended_at", _is_moment),
    ("failed_nodes", _are_nodes),
    ("notice", lambda value: value is None or isinstance(value, Allocation)),
    *((name, _is_text) for name in ("interrupted", "reason", "place", "fallback", "unseen")),
    *(
        (name, _is_fact)
        for name in ("out_of_memory", "disk_full", "timed_out", "stopped", "asked", "never_started")
    ),
)


def _missing(found: object, names: Sequence[str]) -> list[str]:
    return [name for name in names if not callable(getattr(found, name, None))]


def shown(value: object) -> str:
    """A value as a message has it, shortened; it may be of a class whose `repr` fails."""
    try:
        written = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - it comes from another package
        written = f"a {type(value).__name__}"
    return written if len(written) <= 80 else f"{written[:79]}…"
