"""What of the rows' text a model's chat template does not write, whatever model it is.

Every piece of text in a conversation gets a stand-in that no text has. What the template makes of the
stand-ins shows which pieces it passed over; put back, they must give what it makes of the texts themselves,
or the texts are looked for in that.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

Row = Mapping[str, Any]
Render = Callable[[Sequence[dict[str, Any]], Any], str]
"""Messages and tools as the template writes them; `ValueError` where it refuses them."""

_NOT_TEXT: Final = frozenset({"role", "type", "id", "tool_call_id", "required"})
"""Keys whose values steer a template, or tie a call to its answer, as their order does."""
_TAG: Final = re.compile(r"<(/?)([^<>\s/]{1,40})>")
_STAND_IN: Final = re.compile(r"zq(\d+)qz")
_DEPTH: Final = 3
"""So many keys name a piece; below them are the names of the user's own fields."""


class Kind(NamedTuple):
    """One kind of text that is not written."""

    text: str
    """Role and key, for people."""
    times: int
    lines: list[int | str]
    """The rows that have such text, by their lines."""


class Losses:
    """Counts by kind, row by row."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()
        self._lines: dict[str, list[int | str]] = {}

    def add(self, found: Mapping[str, int], line: int | str) -> None:
        """Add what one row loses."""
        for text, times in found.items():
            self._times[text] += times
            lines = self._lines.setdefault(text, [])
            if lines[-1:] != [line]:
                lines.append(line)

    def kinds(self) -> list[Kind]:
        """All kinds, the most frequent first."""
        found = sorted(self._times.items(), key=lambda item: (-item[1], item[0]))
        return [Kind(text, times, self._lines[text]) for text, times in found]


def dropped(
    messages: Sequence[dict[str, Any]], tools: Any, render: Render, *, start: int = 0
) -> Counter[str]:
    """How often which kind of text of a conversation is not written; `ValueError` where none can be.

    Messages before ``start``, and with it the tools, belong to a conversation that was counted already.
    """
    written = render(messages, tools)
    pieces = _Pieces()
    marked = [*messages[:start], *(pieces.of_message(message) for message in messages[start:])]
    marked_tools = pieces.replaced(tools, ("tools",)) if tools and not start else tools
    missing = pieces.missing(written, lambda: render(marked, marked_tools))
    missing.update(_unwritten_messages(messages, tools, written, render, start))
    return missing


class _Pieces:
    """The pieces of text of one conversation, each with its stand-in."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str, str]] = []  # kind, text, and the text as it is put back

    def of_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The message with stand-ins."""
        role = str(message["role"])
        return {
            key: value if key in _NOT_TEXT else self.replaced(value, (f"{role}:", key))
            for key, value in message.items()
        }

    def replaced(self, value: Any, path: tuple[str, ...], *, encoded: bool = False) -> Any:
        """The same value with a stand-in for each piece of text in it."""
        if isinstance(value, str):
            if len(path) == 2 and path[1] == "content":
                return self._of_content(value, " ".join(path))
            return self._stand_in(value, " ".join((path[0], ".".join(path[1:]))), encoded=encoded)
        if isinstance(value, Mapping):
            encoded = encoded or len(path) > 1
            return {
                key: inner
                if key in _NOT_TEXT
                else self.replaced(inner, (*path, key)[: _DEPTH + 1], encoded=encoded)
                for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self.replaced(inner, path, encoded=encoded) for inner in value]
        return value

    def _of_content(self, text: str, kind: str) -> str:
        """Text with tags in it, such as thoughts, in parts: templates treat those differently."""
        made, end, opened = "", 0, ""
        for tag in _TAG.finditer(text):
            closes = tag[2] if tag[1] else ""
            made += self._stand_in(text[end : tag.start()], _within(kind, closes or opened)) + tag[0]
            end, opened = tag.end(), "" if tag[1] else tag[2]
        return made + self._stand_in(text[end:], _within(kind, opened))

    def _stand_in(self, text: str, kind: str, *, encoded: bool = False) -> str:
        core = text.strip()
        if not core:
            return text
        self._found.append((kind, core, json.dumps(core, ensure_ascii=False)[1:-1] if encoded else core))
        return text.replace(core, f"zq{len(self._found) - 1}qz", 1)

    def missing(self, written: str, marked: Callable[[], str]) -> Counter[str]:
        """How many pieces of which kind are not in what the template wrote."""
        if not self._found:
            return Counter()
        try:
            text = marked()
        except ValueError:  # it looks into some text, and refuses a stand-in
            text = ""
        kept = {int(number) for number in _STAND_IN.findall(text) if int(number) < len(self._found)}
        if _STAND_IN.sub(lambda found: self._put_back(int(found[1]), found[0]), text) == written:
            return Counter(kind for number, (kind, *_) in enumerate(self._found) if number not in kept)
        return Counter(
            kind for kind, core, back in self._found if core not in written and back not in written
        )

    def _put_back(self, number: int, otherwise: str) -> str:
        return self._found[number][2] if number < len(self._found) else otherwise


def _within(kind: str, tag: str) -> str:
    return f"{kind} in <{tag}>" if tag else kind


def _unwritten_messages(
    messages: Sequence[dict[str, Any]], tools: Any, written: str, render: Render, start: int
) -> Iterator[str]:
    """Messages without any text that the template passes over, as some do with an empty system message."""
    for index, message in enumerate(messages[start:], start):
        if any(value for key, value in message.items() if key != "role"):
            continue
        try:
            without = render([*messages[:index], *messages[index + 1 :]], tools)
        except ValueError:
            continue
        if without == written:
            yield f"{message['role']}: message without text"
