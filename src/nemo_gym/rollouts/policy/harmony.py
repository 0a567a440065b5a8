"""Answers in channels, as gpt-oss models write them: thoughts, calls of tools, the final answer. Pure.

Each message begins with ``<|start|>assistant<|channel|>NAME<|message|>``, the first one often without its
start, and ends with ``<|end|>``, ``<|return|>`` or ``<|call|>``. Servers parse this only when they are
asked to. Some leave out the marks and keep the names: ``analysis…assistantfinal…``. An answer may also
quote the marks, which is text: after decoding, a special token and its name look alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from nemo_runs.patterns import pattern

Piece = tuple[str, str, str] | str
"""A thought between its opening and its closing tag, or text of the answer."""

_TURN: Final = pattern(
    r"(?<!`)(?:(?:\A|<\|(?:end|call|return)\|>)\s*(?:<\|start\|>\s*assistant[^<]*)?|<\|start\|>\s*assistant[^<]*)"
    r"<\|channel\|>\s*(analysis|commentary|final)\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>\s*"
)
_END: Final = pattern(r"<\|(?:end|return|call)\|>\s*(?:<\|start\|>[^<]*(?:<\|channel\|>[^<]*)?)?\Z")
"""The end of the last message, with the header of one that was cut off."""
_CUT: Final = pattern(r"\s*(?:<\|start\|>\s*assistant[^<]*)?<\|channel\|>\s*([a-z]*)(?:\s+to=\S*)?\s*\Z")
_CHANNELS: Final = ("analysis", "commentary", "final")
_HEADER_MARKS: Final = ("<|start|>", "<|channel|>", "<|message|>")
_NAMES_ALONE: Final = pattern(r"\s*analysis(?=\S)")
_FINAL_ALONE: Final = "assistantfinal"


def may_hold_channels(text: str) -> bool:
    """Whether `split` may find anything; cheap, since it is asked of every answer."""
    return "<|channel|>" in text or _FINAL_ALONE in text


def split(text: str) -> list[Piece] | None:
    """A text in its order, ``None`` when it is not written in channels; the last piece is text of the answer.

    Only marks that frame a message count: at the beginning of the text, after the end of the message before
    or, where the model left that end out of a thought, with ``<|start|>``. Others are quoted, and are text.
    Everything outside of a final message is a thought; one that no final message follows leaves no answer.
    Text before the first frame is a thought whose beginning the server has cut out.
    """
    turns = _turns(text)
    if not turns:
        cut = _CUT.match(text)
        is_cut = cut is not None and any(name.startswith(cut[1]) for name in _CHANNELS)
        return [(text, "", ""), ""] if is_cut else _without_marks(text)
    before = text[: turns[0].start()]
    thought = before.rstrip()
    made: list[Piece] = [("", thought, before[len(thought) :])] if before else []
    for turn, end in zip(turns, [*(turn.start() for turn in turns[1:]), len(text)], strict=True):
        made += _message(turn[1], turn[0], text[turn.end() : end])
    return list(_joined([*made, ""]))


def _turns(text: str) -> list[re.Match[str]]:
    """The headers that frame the messages of a text; none when it only quotes such headers."""
    turns: list[re.Match[str]] = []
    for turn in _TURN.finditer(text):
        in_thought = bool(turns) and turns[-1][1] != "final"
        if turn.start() == 0 or in_thought or not turn[0].startswith("<|start|>"):
            turns.append(turn)
    before = text[: turns[0].start()] if turns else ""
    return [] if any(mark in before for mark in _HEADER_MARKS) else turns


def _message(channel: str, head: str, body: str) -> Iterator[Piece]:
    """One message, what follows its end included."""
    end = _END.search(body)
    body, tail = (body, "") if end is None else (body[: end.start()], body[end.start() :])
    if channel != "final":
        thought = body.rstrip()
        yield head, thought, body[len(thought) :] + tail
        return
    yield head, "", ""
    yield body
    if tail:
        yield tail, "", ""


def _joined(pieces: list[Piece]) -> Iterator[Piece]:
    """The same with marks between two pieces at the thought before them, and no empty text but the last."""
    kept: tuple[str, str, str] | None = None
    for piece in pieces[:-1]:
        if isinstance(piece, str):
            if not piece:
                continue
            if kept is not None:
                yield kept
                kept = None
            yield piece
        elif kept is not None and not piece[1]:
            kept = (kept[0], kept[1], f"{kept[2]}{''.join(piece)}")
        else:
            if kept is not None:
                yield kept
            kept = piece
    if kept is not None:
        yield kept
    yield pieces[-1]


def _without_marks(text: str) -> list[Piece] | None:
    """The pieces of a text of which only the channels' names are left."""
    start = _NAMES_ALONE.match(text)
    thought, final, answer = text.rpartition(_FINAL_ALONE)
    if start is None or not final:
        return None
    return [(start[0], thought[start.end() :], final), answer]
