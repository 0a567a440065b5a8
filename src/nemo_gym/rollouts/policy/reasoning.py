"""Thoughts that a model writes into its text: kept apart from the answer, without losing a character. Pure.

Models that reason put their thoughts between tags, ``<think>`` and ``</think>`` mostly. Servers cut these out
only when they are asked to, and sometimes cut only one of the two tags. Others write in channels
(`nemo_gym.rollouts.policy.harmony`). A thought becomes an item of its own with the tags as they were
(``tags``), so `with_thoughts` can put the text together again as it was sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from nemo_gym.rollouts.policy import harmony
from nemo_gym.types import Row
from nemo_runs.patterns import pattern

TAGS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
)
"""Opening and closing tags of models that are in use; upper and lower case count alike."""

MORE_TOKENS: Final = (
    "a model that thinks needs more tokens (--max-output-tokens N), or less thought "
    "(responses_create_params.reasoning.effort)"
)
"""What helps where an answer was cut within a thought."""
_CLOSING = {opening.lower(): pattern(re.escape(closing), re.IGNORECASE) for opening, closing in TAGS}
_OPEN = pattern(
    r"^[^\S\n]*(" + "|".join(re.escape(opening) for opening, _ in TAGS) + ")", re.IGNORECASE | re.MULTILINE
)
_CLOSE = pattern("(?<!`)(?:" + "|".join(re.escape(closing) for _, closing in TAGS) + ")(?!`)", re.IGNORECASE)


def without_thoughts(items: list[Row]) -> list[Row]:
    """Output items in which every thought within a message's text is in a reasoning item before it.

    The list itself when there is no thought. A tag that opens and is never closed leaves no answer behind it;
    a tag that closes without having been opened makes everything before it a thought.
    """
    found: list[Row] | None = None
    for number, item in enumerate(items):
        if _may_hold_thoughts(item):
            found = list(items[:number]) if found is None else found
            found.extend(_of_message(item))
        elif found is not None:
            found.append(item)
    return items if found is None else found


def with_thoughts(items: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The items with the thoughts that were cut out of their texts put back as they were sent."""
    found: list[Row] = []
    before = ""
    for item in items:
        tags = item.get("tags") if item.get("type") == "reasoning" else None
        if isinstance(tags, list) and len(tags) == 2:
            before += f"{tags[0]}{item['content'][0]['text']}{tags[1]}"
            continue
        if before and item.get("type") == "message":
            first, *others = item["content"]
            found.append({**item, "content": [{**first, "text": before + first["text"]}, *others]})
            before = ""
            continue
        found.append(dict(item))
    return found


def reasoning_item(text: str, **more: Any) -> Row:
    """A reasoning item of the Responses API with a thought in full."""
    return {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": text}],
        **more,
    }


def split(text: str) -> Iterator[tuple[str, str, str] | str]:
    """A text in its order: thoughts as (opening tag, thought, closing tag), and what lies between them.

    White space around a tag belongs to the tag. An opening tag counts at the beginning of a line only, and a
    tag in backticks is one that is spoken of. The last piece is always plain text, an empty one if need be.
    """
    in_channels = harmony.split(text) if harmony.may_hold_channels(text) else None
    return _split_at_tags(text) if in_channels is None else iter(in_channels)


def _split_at_tags(text: str) -> Iterator[tuple[str, str, str] | str]:
    stray = _stray_closing(text)
    at = 0
    if stray is not None:
        start, at = _widened(text, stray, 0)
        yield "", text[:start], text[start:at]
    while (opening := _OPEN.search(text, at)) is not None:
        start, inside = _widened(text, opening, at)
        if start > at:
            yield text[at:start]
        closing = _CLOSING[opening[1].lower()].search(text, inside)
        if closing is None:
            yield text[start:inside], text[inside:], ""
            at = len(text)
            break
        end, at = _widened(text, closing, inside)
        yield text[start:inside], text[inside:end], text[end:at]
    yield text[at:]


def _widened(text: str, tag: re.Match[str], least: int) -> tuple[int, int]:
    """Where a tag begins and ends with the white space around it, not before ``least``."""
    start = least + len(text[least : tag.start()].rstrip())
    return start, len(text) - len(text[tag.end() :].lstrip())


def _stray_closing(text: str) -> re.Match[str] | None:
    """The last closing tag before which no tag was opened."""
    opening = _OPEN.search(text)
    found = None
    for closing in _CLOSE.finditer(text, 0, opening.start() if opening else len(text)):
        found = closing
    return found


def _may_hold_thoughts(item: Row) -> bool:
    """Whether the words of a tag are anywhere in the text; cheap, since it is asked of every answer."""
    if item.get("type") != "message":
        return False
    for part in item.get("content") or ():
        text = part.get("text") if part.get("type") == "output_text" else None
        if isinstance(text, str) and (lower := text.lower()) and ("think" in lower or "thought" in lower):
            return True
        if isinstance(text, str) and harmony.may_hold_channels(text):
            return True
    return False


def _of_message(message: Row) -> Iterator[Row]:
    """The message with thoughts before it; text between two thoughts is a part of its own before the last."""
    parts: list[Row] = []
    for part in message["content"]:
        if part.get("type") != "output_text" or not isinstance(part.get("text"), str):
            parts.append(part)
            continue
        pieces = list(split(part["text"]))
        if len(pieces) == 1:
            parts.append(part)
            continue
        for piece in pieces[:-1]:
            if isinstance(piece, str):
                parts.append({**part, "text": piece})
                continue
            if parts:
                yield {**message, "content": parts}
                parts = []
            yield reasoning_item(piece[1], tags=[piece[0], piece[2]])
        parts.append({**part, "text": pieces[-1]})
    yield {**message, "content": parts}
