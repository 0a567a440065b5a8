"""The calls in an answer, and what the conversation goes on with. Pure."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_gym.types import Row

TRAJECTORY = "trajectory"
"""Field of a result row: what happened in each turn."""
SAID = "then_said"
"""Of a turn: what the user said after it."""
TOOL_ERRORS, TOOL_RESULTS_CUT = "tool_errors", "tool_results_cut"
"""Fields of a result row: how many calls gave an error, and how many results were cut."""
CALL_KINDS = frozenset({"function_call", "custom_tool_call"})


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that a model made."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] | None
    """``None`` where they are not a JSON object."""
    written: Any = ""
    """They as the model wrote them."""
    problem: str = ""
    """What is wrong with them, for the model."""


def with_call_ids(output: Sequence[Row], used: set[str]) -> list[Row]:
    """The items of an answer, each call with an id that no other of the conversation has; ``used`` grows.

    Servers leave ids out, or count them from zero in each answer.
    """
    return [
        {**item, "call_id": _free(item.get("call_id"), used)} if item.get("type") in CALL_KINDS else item
        for item in output
    ]


def calls_of(output: Iterable[Row]) -> list[ToolCall]:
    """The calls of functions among the items of an answer, in order."""
    found = []
    for item in output:
        if item.get("type") == "function_call":
            written = item.get("arguments")
            arguments, problem = _arguments(written)
            found.append(ToolCall(str(item["call_id"]), str(item.get("name")), arguments, written, problem))
    return found


def as_input(output: Iterable[Row]) -> list[Row]:
    """The items of an answer as input of the next request.

    Servers read the arguments of earlier calls as JSON and refuse the whole request where they are none, so
    such arguments are put into an object.
    """
    return [
        {**item, "arguments": _readable(item.get("arguments"))}
        if item.get("type") == "function_call"
        else item
        for item in output
    ]


def result_item(call_id: str, content: str) -> Row:
    """The result of a call as input of the next request."""
    return {"type": "function_call_output", "call_id": call_id, "output": content}


def conversation(given: Any) -> list[Row]:
    """The input of a request as a list."""
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given or ())


def cut(content: str, size: int | None, limit: int) -> tuple[str, int | None]:
    """A result as the model sees it, and its whole size in bytes where it was cut.

    ``size`` is that of the whole where ``content`` is its beginning.
    """
    data = content.encode("utf-8", "replace")
    whole = max(len(data), size or 0)
    if whole <= limit:
        return data.decode(), None
    shown = data[:limit].decode("utf-8", "ignore")
    return f"{shown}\n[cut: these are the first {limit:,} of {whole:,} bytes]", whole


def _free(wanted: Any, used: set[str]) -> str:
    if not isinstance(wanted, str) or not wanted or wanted in used:
        wanted = next(name for number in itertools.count(len(used)) if (name := f"call_{number}") not in used)
    used.add(wanted)
    return str(wanted)


def _readable(given: Any) -> str:
    found = _arguments(given)[0]
    if found is None:
        return json.dumps({"invalid_arguments": str(given)})
    return given if isinstance(given, str) and given.strip() else json.dumps(found)


def _arguments(given: Any) -> tuple[Mapping[str, Any] | None, str]:
    if given is None or (isinstance(given, str) and not given.strip()):
        return {}, ""
    try:
        found = given if isinstance(given, dict) else json.loads(given)
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return None, "the arguments hold half of a surrogate pair, which no text can have"
    except (TypeError, ValueError, RecursionError) as error:
        return None, f"the arguments are not JSON: {error}"
    if not isinstance(found, dict):
        return None, "the arguments must be a JSON object"
    return found, ""
