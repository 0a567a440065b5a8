"""Answers of a model that calls functions, and the right ones for a row of BFCL."""

from __future__ import annotations

import ast
import json
from typing import Any

USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


def spoken(text: str) -> dict[str, Any]:
    """An answer that is text."""
    content = [{"type": "output_text", "text": text}]
    message = {"type": "message", "role": "assistant", "content": content}
    return {"status": "completed", "output": [message], "usage": USAGE}


def called(**calls: Any) -> dict[str, Any]:
    """An answer that calls functions with arguments, given as values or as text."""
    output = [
        {"type": "function_call", "call_id": "call_0", "name": name, "arguments": _text(arguments)}
        for name, arguments in calls.items()
    ]
    return {"status": "completed", "output": output, "usage": USAGE}


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def right_calls(row: dict[str, Any]) -> list[dict[str, str]]:
    """The calls that a row without turns expects, with the first value that each argument may have."""
    return [
        {
            name.replace(".", "_"): json.dumps(
                {key: _value(values) for key, values in arguments.items() if _given(values)}
            )
        }
        for expected in row["expected_answer"]
        for name, arguments in expected.items()
    ]


def _given(values: list[Any]) -> bool:
    return bool(values) and values[0] != ""


def _value(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        return {key: inner[0] for key, inner in first.items() if _given(inner)}
    return first


def right_turns(row: dict[str, Any]) -> list[list[Any]]:
    """All that is said in a conversation in which each answer makes one expected call."""
    later = [tool for tools in row["bfcl"]["later_tools"].values() for tool in tools]
    tools = [tool["function"] for tool in [*row["responses_create_params"]["tools"], *later]]
    known = {tool["name"]: list(tool["parameters"]["properties"]) for tool in tools}
    return [[*([_call(text, known)] for text in turn), "Done."] for turn in row["expected_answer"]]


def _call(text: str, known: dict[str, list[str]]) -> dict[str, str]:
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Call)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    arguments = {
        key: ast.literal_eval(value) for key, value in zip(known.get(name, []), node.args, strict=False)
    }
    arguments |= {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
    return {name: json.dumps(arguments)}
