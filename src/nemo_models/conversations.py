"""Conversations with one model or two, as a terminal, a pipe or a program asks for them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from nemo_models.talking import AnswerPart, Message, RefusedQuestionError, Talker
from nemo_runs.durable.files import replace_file


@dataclass(slots=True)
class ModelAnswer:
    """What one model has answered to one question."""

    model: str
    text: str = ""
    finish: str | None = None
    """``stop``, ``length``, or ``interrupted``; `None` while it goes on."""
    error: str | None = None
    """Why there is no answer."""

    def to_json(self) -> dict[str, Any]:
        """As one JSON object."""
        found = {"model": self.model, "answer": self.text, "finish_reason": self.finish}
        return {**found, "error": self.error} if self.error else found


class AnswerView(Protocol):
    """Shows answers while they come."""

    def begin(self, models: Sequence[str]) -> None:
        """A question was asked of these models."""

    def piece(self, answer: ModelAnswer, text: str) -> None:
        """An answer has grown by a text."""

    def end(self, answers: Sequence[ModelAnswer]) -> None:
        """All have answered, or the answers were ended."""


@dataclass(slots=True)
class Dialogue:
    """One conversation with each of some models, which hear the same questions and their own answers."""

    talker: Talker
    models: Sequence[str]
    system: str | None = None
    turns: list[tuple[str, list[ModelAnswer]]] = field(default_factory=list)

    def ask(self, question: str, view: AnswerView) -> list[ModelAnswer]:
        """Ask every model; Ctrl-C ends the answers, which stay as far as they are.

        A question that a model has refused is forgotten again.
        """
        answers = [ModelAnswer(model) for model in self.models]
        view.begin(self.models)
        try:
            for answer in answers:
                self._answer(answer, question, view)
        except KeyboardInterrupt:
            for answer in answers:
                answer.finish = answer.finish or "interrupted"
        view.end(answers)
        if not any(answer.error for answer in answers):
            self.turns.append((question, answers))
        return answers

    def _answer(self, answer: ModelAnswer, question: str, view: AnswerView) -> None:
        messages = [*self.messages(answer.model), {"role": "user", "content": question}]
        try:
            with closing(self.talker.answer(answer.model, messages)) as parts:
                for part in parts:
                    _grow(answer, part, view)
        except RefusedQuestionError as error:
            answer.finish, answer.error = "error", str(error)

    def messages(self, model: str) -> list[Message]:
        """The conversation with one model, as it is sent."""
        found: list[Message] = [{"role": "system", "content": self.system}] if self.system else []
        for question, answers in self.turns:
            found.append({"role": "user", "content": question})
            text = next(one.text for one in answers if one.model == model)
            found.append({"role": "assistant", "content": text})
        return found


def _grow(answer: ModelAnswer, part: AnswerPart, view: AnswerView) -> None:
    answer.text += part.text
    answer.finish = part.finish or answer.finish
    if part.text:
        view.piece(answer, part.text)


@dataclass(slots=True)
class SavedConversations:
    """A file of conversations, one on each line, as trainings read them; what it holds stays."""

    path: Path
    _before: bytes = b""

    def __post_init__(self) -> None:
        if self.path.exists():
            self._before = self.path.read_bytes()
            if self._before and not self._before.endswith(b"\n"):
                self._before += b"\n"

    def write(self, conversation: Dialogue) -> None:
        """Write the conversation with the first model as the last line; again after each turn."""
        if conversation.turns:
            replace_file(self.path, self._before + self._line(conversation), mode=0o600)

    def close(self, conversation: Dialogue) -> None:
        """The conversation has ended; the next one is another line."""
        if conversation.turns:
            self._before += self._line(conversation)

    def _line(self, conversation: Dialogue) -> bytes:
        document = {"messages": conversation.messages(conversation.models[0])}
        return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def lines_of_stdin() -> Iterator[str]:
    """The questions of standard input, one on each line; empty lines are passed over."""
    for line in sys.stdin:
        if line.strip():
            yield line.strip()


def document(question: str, answers: Sequence[ModelAnswer]) -> Mapping[str, Any]:
    """A question with its answers, as one JSON object."""
    return {"question": question, "answers": [answer.to_json() for answer in answers]}
