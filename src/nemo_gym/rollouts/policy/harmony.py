"""Answers in channels, as gpt-oss models write them: thoughts, calls of tools, the final answer. Pure.

Each message begins with ``<|start|>assistant<|channel|>NAME<|message|>``, the first one often without its
start, and ends with ``<|end|>``, ``<|return|>`` or ``<|call|>``. Servers parse this only when they are
asked to. Some leave out the marks and keep the names: ``analysis…assistantfinal…``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nemo_runs.patterns import pattern

Piece = tuple[str, str, str] | str
"""A thought between its opening and its closing tag, or text of the answer."""

_TURN: Final = pattern(
    r"(?<!`)(?:<\|(?:end|call|return)\|>\s*)?(?:<\|start\|>\s*assistant[^<]*)?"
    r"<\|channel\|>\s*(analysis|commentary|final)\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>\s*"
)
_END: Final = pattern(r"<\|(?:end|return|call|start|channel)\|>")
_CUT: Final = pattern(r"\s*(?:<\|start\|>\s*assistant[^<]*)?<\|channel\|>[^<]*\Z")
_NAMES_ALONE: Final = pattern(r"\s*analysis(?=\S)")
_FINAL_ALONE: Final = "assistantfinal"


def may_hold_channels(text: str) -> bool:
    """Whether `split` may find anything; cheap, since it is asked of every answer."""
    return "<|channel|>" in text or _FINAL_ALONE in text


def split(text: str) -> list[Piece] | None:
    """A text in its order, ``None`` when it is not written in channels; the last piece is text of the answer.

    All that is in no final message is a thought; what no final message follows leaves no answer. Text before
    the first mark is a thought whose beginning the server has cut out.
    """
    turns = list(_TURN.finditer(text))
    if not turns:
        return [(text, "", ""), ""] if _CUT.match(text) else _without_marks(text)
    before = text[: turns[0].start()]
    if before.strip() and turns[0][1] != "final" and not turns[0][0].startswith("<|end|>"):
        return None  # an answer that tells of the marks
    thought = before.rstrip()
    made: list[Piece] = [("", thought, before[len(thought) :])] if before else []
    for turn, end in zip(turns, [*(turn.start() for turn in turns[1:]), len(text)], strict=True):
        made += _message(turn[1], turn[0], text[turn.end() : end])
    return list(_joined([*made, ""]))


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
