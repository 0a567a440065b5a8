"""Turns with tools as messages of an Inspect log, and the events that its viewer shows as a transcript."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nemo_gym.types import output_text, reasoning_text


def turn_messages(turns: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The messages of all turns but the last answer, which the sample has as its output; without ids."""
    for number, turn in enumerate(turns):
        if number < len(turns) - 1:
            text, thoughts = output_text(turn), reasoning_text(turn)
            content = [{"type": "reasoning", "reasoning": thoughts}, {"type": "text", "text": text}]
            calls = [_call(item) for item in turn["output"] if item.get("type") == "function_call"]
            said = {"role": "assistant", "content": content if thoughts else text, "source": "generate"}
            yield said | ({"tool_calls": calls} if calls else {})
        for result in turn.get("calls") or ():
            yield _result(result)


def sample_events(sample: Mapping[str, Any], *, model: str, at: str, scorer: str) -> list[dict[str, Any]]:
    """What happened in a sample: its last request, which had all messages before the answer, and its score.

    Inspect's viewer and its tables of messages read events. Earlier requests would hold the same messages
    again. ``at`` is the date of all events: when each happened is not recorded.
    """
    place = f"{sample['id']} {sample['epoch']}"
    common = {"timestamp": at, "working_start": 0.0}
    messages, output = sample["messages"], sample["output"]
    asked = {
        "event": "model",
        "uuid": f"model {place}",
        **common,
        "model": model,
        "input": messages[:-1] if output["choices"] else messages,
        "tools": [],
        "tool_choice": "auto",
        "config": {},
        "output": output,
    }
    if error := sample.get("error"):
        asked["error"] = error["message"]
    scored = [
        {
            "event": "score",
            "uuid": f"score {place}",
            **common,
            "score": score,
            "target": sample["target"],
            "intermediate": False,
            "scorer": scorer,
        }
        for score in sample["scores"].values()
    ]
    return [asked, *scored]


def _call(item: Mapping[str, Any]) -> dict[str, Any]:
    given, problem = item.get("arguments") or "{}", None
    try:
        arguments = given if isinstance(given, dict) else json.loads(given)
    except (ValueError, RecursionError) as error:
        arguments, problem = None, str(error)
    if not isinstance(arguments, dict):
        arguments, problem = {"invalid_arguments": given}, problem or "not a JSON object"
    found = {"id": str(item.get("call_id")), "function": str(item.get("name")), "arguments": arguments}
    return found | {"type": "function"} | ({"parse_error": problem} if problem else {})


def _result(result: Mapping[str, Any]) -> dict[str, Any]:
    content = str(result.get("result", ""))
    found = {"role": "tool", "content": content, "tool_call_id": result.get("call_id")}
    found["function"] = result.get("name")
    return found | ({"error": {"type": "unknown", "message": content}} if result.get("error") else {})
