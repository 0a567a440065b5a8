"""The turns of a rollout with tools as steps to read: what was said, each call, and what it gave."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nemo_gym.agents.tool_calls import CALL_KINDS, SAID, TRAJECTORY
from nemo_gym.types import output_text, reasoning_text

THOUGHTS = "thoughts"
"""How the kind of a step ends that is what the model thought."""


def turns_of(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The turns among the fields of an agent; none where it is another agent's."""
    found = fields.get(TRAJECTORY)
    turns = found if isinstance(found, list) else []
    whole = all(isinstance(turn, Mapping) and isinstance(turn.get("output"), list) for turn in turns)
    return turns if whole else []


def turn_steps(turns: list[Mapping[str, Any]]) -> list[dict[str, str]]:
    """All of it but the text and the thoughts of the last answer, which are shown apart."""
    found: list[dict[str, str]] = []
    for number, turn in enumerate(turns, start=1):
        found += _steps(number, turn, last=number == len(turns))
    return found


def _steps(number: int, turn: Mapping[str, Any], *, last: bool) -> Iterator[dict[str, str]]:
    title = f"turn {number}"
    if not last:
        if thoughts := reasoning_text(turn):
            yield {"kind": f"{title}: {THOUGHTS}", "content": thoughts}
        if text := output_text(turn):
            yield {"kind": f"{title}: text", "content": text}
    calls = turn.get("calls")
    results: Iterable[Any] = calls if isinstance(calls, list) else ()
    made = {result.get("call_id"): result for result in results if isinstance(result, Mapping)}
    for item in turn["output"]:
        if not isinstance(item, Mapping) or item.get("type") not in CALL_KINDS:
            continue
        result = made.get(item.get("call_id"))
        said = "" if result is not None else ", not made"
        given = item.get("arguments", item.get("input"))
        yield {"kind": f"{title}: call of {item.get('name')}{said}", "content": _text(given)}
        if result is not None:
            yield {"kind": f"{title}: {_title(result)}", "content": _text(result.get("result"))}
    if (spoken := turn.get(SAID)) is not None:
        yield {"kind": "user", "content": _text(spoken)}


def _title(result: Mapping[str, Any]) -> str:
    kind = "error" if result.get("error") else "result"
    seconds = result.get("seconds")
    facts = [f"{seconds:.1f} s"] if isinstance(seconds, int | float) else []
    if isinstance(whole := result.get("cut_from_bytes"), int):
        facts.append(f"cut from {whole:,} bytes")
    return f"{kind} of {result.get('name')}" + (f" ({', '.join(facts)})" if facts else "")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
