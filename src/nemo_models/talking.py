"""Asking a served model: an answer comes in pieces, and can be ended between any two of them."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from nemo_models.errors import ModelsError

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """A part of an answer; the last one says why it ended."""

    text: str
    finish: str | None = None
    """``stop``, or ``length`` where it was cut at its limit."""


class RefusedQuestionError(ModelsError):
    """This question was refused; others may be answered."""


@dataclass(frozen=True, slots=True)
class Talker:
    """Asks the models of one server."""

    client: httpx.Client
    settings: Mapping[str, Any]
    """Fields of every request, such as ``temperature``."""

    def answer(self, model: str, messages: Sequence[Message]) -> Generator[AnswerPart]:
        """The answer of a model to a conversation; closing the iterator ends it at the server too."""
        body = {**self.settings, "model": model, "messages": list(messages), "stream": True}
        try:
            with self.client.stream("POST", "chat/completions", json=body) as reply:
                if reply.status_code != 200:
                    raise RefusedQuestionError(_refusal(reply))
                for line in reply.iter_lines():
                    yield from _part(line)
        except httpx.HTTPError as error:
            raise ModelsError(f"the server of the model has gone: {error}") from error


def connected(url: str, key: str, settings: Mapping[str, Any]) -> Talker:
    """Ask a server of this machine, whatever proxies the environment names; answers may take their time."""
    timeout = httpx.Timeout(None, connect=30.0)
    headers = {"Authorization": f"Bearer {key}"}
    client = httpx.Client(base_url=f"{url}/", headers=headers, timeout=timeout, trust_env=False)
    return Talker(client, settings)


def shown(text: str) -> str:
    """Text of a model without what could steer a terminal; its lines, tabs and joiners stay."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t\u200c\u200d" else "\N{REPLACEMENT CHARACTER}"
        for letter in text.replace("\r\n", "\n")
    )


def _part(line: str) -> Iterator[AnswerPart]:
    data = line.removeprefix("data: ") if line.startswith("data: ") else ""
    if not data or data == "[DONE]":
        return
    for choice in json.loads(data)["choices"]:
        yield AnswerPart(choice["delta"].get("content") or "", choice.get("finish_reason"))


def _refusal(reply: httpx.Response) -> str:
    reply.read()
    try:
        return str(reply.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the server answered with status {reply.status_code}"
