"""Which text of conversations a template does not write, for templates of several kinds."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from nemo_engines.data.dropped_text import Losses, dropped

Messages = Sequence[dict[str, Any]]


def plain(messages: Messages, tools: Any) -> str:
    """Role and content of each message, trimmed, and the tools' names."""
    names = "".join(f"[{tool['function']['name']}]" for tool in tools or ())
    return names + "".join(f"<{one['role']}>{(one.get('content') or '').strip()}\n" for one in messages)


def without_old_thoughts(messages: Messages, _tools: Any) -> str:
    """As Qwen3's: only the last answer keeps its thoughts, which are trimmed."""
    made = ""
    for index, one in enumerate(messages):
        content = one["content"]
        if one["role"] == "assistant" and "</think>" in content:
            thought, answer = content.split("</think>")
            thought = thought.split("<think>")[-1].strip()
            content = answer.lstrip("\n")
            if index == len(messages) - 1:
                content = f"<think>\n{thought}\n</think>\n\n{content}"
        made += f"<{one['role']}>{content}\n"
    return made


def without_empty_system(messages: Messages, tools: Any) -> str:
    return plain([one for one in messages if one["role"] != "system" or one["content"]], tools)


def calls(messages: Messages, _tools: Any) -> str:
    """Names and arguments of calls, as JSON, and contents."""
    made = ""
    for one in messages:
        for call in one.get("tool_calls", ()):
            made += json.dumps(call["function"], ensure_ascii=False)
        made += one.get("content") or ""
    return made


def said(role: str, content: str | None, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def test_thoughts_of_earlier_answers_are_found_though_their_words_stand_elsewhere() -> None:
    talk = [
        said("user", "1"),
        said("assistant", "<think>1</think>\n\n2"),
        said("user", "more"),
        said("assistant", "<think>\nlast\n</think>\n\n3"),
    ]
    assert dropped(talk, None, without_old_thoughts) == {"assistant: content in <think>": 1}
    assert dropped(talk, None, plain) == {}
    opened_by_the_template = [said("user", "1"), said("assistant", "1</think>2"), said("user", "1")]
    assert dropped(opened_by_the_template, None, without_old_thoughts) == {"assistant: content in <think>": 1}


def test_names_and_other_keys_that_no_template_writes_are_counted() -> None:
    talk = [
        said("user", "hello", name="Bob", mood={"now": "glad", "then": ["sad", "sad"]}),
        said("assistant", "  hi  "),
    ]
    found = dropped(talk, None, plain)
    assert found == {"user: name": 1, "user: mood.now": 1, "user: mood.then": 2}


def test_an_empty_message_is_counted_only_where_it_makes_no_difference() -> None:
    talk = [said("system", ""), said("user", "hello")]
    assert dropped(talk, None, without_empty_system) == {"system: message without text": 1}
    assert dropped(talk, None, plain) == {}


def test_calls_are_whole_whatever_must_be_escaped_in_them() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "w", "arguments": {"city": 'Par"is\n'}}}
    talk = [said("assistant", None, tool_calls=[call]), said("tool", "12", name="w", tool_call_id="c1")]
    assert dropped(talk, None, calls) == {"tool: name": 1}
    assert dropped(talk, None, plain) == {
        "tool: name": 1,
        "assistant: tool_calls.function.name": 1,
        "assistant: tool_calls.function.arguments": 1,
    }


def test_what_the_tools_say_and_the_template_does_not() -> None:
    parameters = {"type": "object", "required": ["city"], "properties": {"city": {"description": "where"}}}
    tools = [
        {"type": "function", "function": {"name": "w", "description": "weather", "parameters": parameters}}
    ]
    lost = {"tools function.description": 1, "tools function.parameters.properties": 1}
    talk = [said("user", "hello"), said("assistant", "hi", name="A")]
    assert dropped(talk, tools, plain) == {**lost, "assistant: name": 1}
    # the prompt and its tools were counted with the other answer
    assert dropped(talk, tools, plain, start=1) == {"assistant: name": 1}


def test_a_template_that_looks_into_the_text_is_judged_by_the_text() -> None:
    def only_short(messages: Messages, _tools: Any) -> str:
        return "".join(one["content"] for one in messages if re.fullmatch("[abc]+", one["content"]))

    def refuses(messages: Messages, _tools: Any) -> str:
        if any(re.search("[0-9]", one["content"]) for one in messages):
            raise ValueError("digits")
        return "".join(one["content"] for one in messages[1:])

    talk = [said("user", "abc"), said("assistant", "other")]
    assert dropped(talk, None, only_short) == {"assistant: content": 1}
    assert dropped(talk, None, refuses) == {"user: content": 1}


def test_counts_are_kept_by_kind_and_by_line() -> None:
    found = Losses()
    found.add({"user: name": 1}, 1)
    found.add({"user: name": 2, "assistant: content in <think>": 4}, 7)
    assert [tuple(kind) for kind in found.kinds()] == [
        ("assistant: content in <think>", 4, [7]),
        ("user: name", 3, [1, 7]),
    ]
