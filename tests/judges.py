"""A judge model whose replies are chosen, for tests of verifiers that ask one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class ScriptedJudge:
    """Answers with what ``reply(text of the last message, how many requests before)`` says."""

    def __init__(self, reply: Callable[[str, int], str]) -> None:
        self.reply = reply
        self.requests: list[Mapping[str, Any]] = []

    async def respond(self, params: Mapping[str, Any]) -> dict[str, Any]:
        number = len(self.requests)
        self.requests.append(params)
        text = self.reply(params["input"][-1]["content"], number)
        part = {"type": "output_text", "text": text}
        return {"output": [{"type": "message", "content": [part]}], "status": "completed"}


def saying(*replies: str) -> ScriptedJudge:
    """A judge that says these one after the other, and the last one again and again."""
    return ScriptedJudge(lambda _text, number: replies[min(number, len(replies) - 1)])
