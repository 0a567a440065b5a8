"""What a result says of its rollout, taken from the bytes of its row, mostly without parsing it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final, Literal

from nemo_gym.rollouts.output.rows import REWARD, SUFFIX, SUMMED, decode_row
from nemo_gym.types import is_truncated

Outcome = Literal["right", "partly right", "wrong", "not scored", "masked", "not graded yet", "failed"]
"""``right``: reward 1; ``partly right``: between 0 and 1; ``wrong``: 0. ``failed``: no answer was had."""

WRONG: Final[frozenset[Outcome]] = frozenset({"partly right", "wrong"})
"""The outcomes with a reward below 1."""

_LATENCY: Final = b'"total_latency_ms":'
_TOKENS: Final = b'"completion_tokens":'
_MASK: Final = b"mask_sample"
_OUR_END: Final = SUMMED[: SUMMED.index(b"%")]


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What lists of rollouts show of one with a result."""

    outcome: Outcome
    reward: float | None
    truncated: bool
    """Whether the answer stopped at the token limit."""
    latency_ms: float | None
    tokens: int | None
    """Tokens of the answer."""


def facts_of(line: bytes) -> RowFacts:
    """The facts in a row that was found whole."""
    reward, masked = _grade(line)
    tokens = _number_behind(line, _TOKENS)
    return RowFacts(
        outcome_of(reward, masked=masked),
        reward,
        is_cut(line),
        latency_of(line),
        None if tokens is None else int(tokens),
    )


def facts_of_end(end: bytes, *, cut: bool) -> RowFacts:
    """The facts at the end of a row that is too long to be held, as far as they are there.

    ``cut``: whether its answer stopped at the token limit, which its end does not say.
    """
    at = end.rfind(REWARD)
    reward = _number_behind(end, REWARD) if at >= 0 else None
    tokens = _number_behind(end, _TOKENS)
    outcome = outcome_of(reward, masked=False)
    return RowFacts(
        outcome, reward, cut, _number_behind(end, _LATENCY), None if tokens is None else int(tokens)
    )


def outcome_of(reward: float | None, *, masked: bool) -> Outcome:
    """What became of an answer that was graded."""
    if masked:
        return "masked"
    if reward is None:
        return "not scored"
    if reward > 0:
        return "right" if reward >= 1 else "partly right"
    return "wrong"


def is_wrong(line: bytes) -> bool:
    """Whether a row has a reward below 1 that counts."""
    reward, masked = _grade(line)
    return outcome_of(reward, masked=masked) in WRONG


def is_cut(line: bytes) -> bool:
    """Whether the answer in a row stopped at the token limit."""
    if b"max_output_tokens" not in line:
        return False
    response = decode_row(line).get("response")
    return isinstance(response, dict) and is_truncated(response)


def latency_of(line: bytes) -> float | None:
    """Milliseconds; our own rows have them near their end, behind all that a model wrote."""
    found = _number_behind(line, _LATENCY)
    if found is not None:
        return found
    perf = decode_row(line).get("ng_perf")
    latency = perf.get("total_latency_ms") if isinstance(perf, dict) else None
    return float(latency) if isinstance(latency, int | float) else None


def _grade(line: bytes) -> tuple[float | None, bool]:
    """The reward, ``None`` where the row has none, and whether the row is left out of the score."""
    at = line.rfind(REWARD)
    if at >= 0 and _MASK not in line and line[-SUFFIX:].startswith(_OUR_END):
        text = line[at + len(REWARD) : line.find(b",", at + 1)]
        if text == b"null":
            return None, False
        with contextlib.suppress(ValueError):
            return float(text), False
    row = decode_row(line)
    reward = row.get("reward")
    return float(reward) if isinstance(reward, int | float) else None, row.get("mask_sample") is True


def _number_behind(line: bytes, name: bytes) -> float | None:
    at = line.rfind(name)
    if at >= 0:
        with contextlib.suppress(ValueError):
            return float(line[at + len(name) : line.find(b",", at + 1)].removesuffix(b"}"))
    return None
