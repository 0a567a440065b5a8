"""A recorded rollout for a terminal: prompt, thoughts folded, answer, expected answer, grade and reason."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from nemo_gym.rollouts.reading.recorded import RecordedRollout, as_text
from nemo_gym.rollouts.reading.trajectory import THOUGHTS
from nemo_runs.counts import counted

_INDENT = "  "


def rollout_text(rollout: RecordedRollout, *, benchmark: str, thoughts: bool, width: int | None) -> str:
    """The rollout as lines; thoughts in one line unless ``thoughts`` unfolds them.

    Control characters of a model are shown escaped: they could move the cursor or change the terminal.
    """
    lines = [_head(rollout, benchmark)]
    for message in rollout.prompt:
        lines += _section(message["role"], message["content"], width)
    for step in rollout.steps:
        if step["kind"].endswith(f": {THOUGHTS}"):
            lines += _thoughts(step["content"], width, unfolded=thoughts, name=step["kind"])
        else:
            lines += _section(step["kind"], step["content"], width)
    if rollout.thoughts:
        lines += _thoughts(rollout.thoughts, width, unfolded=thoughts)
    if rollout.outcome != "failed":
        lines += _section("answer", rollout.answer_shown, width)
    if rollout.expected is not None:
        lines += _section("expected", rollout.expected, width)
    if rollout.extracted is not None:
        lines += _section("understood as", rollout.extracted, width)
    if rollout.metrics:
        lines += _section("metrics", metrics_text(rollout.metrics), width)
    for name, value in rollout.verdict.items():
        lines += _section(f"verdict: {name}", as_text(value) or "null", width)
    for number, failure in enumerate(rollout.failures, start=1):
        status = f" (HTTP {failure.http_status})" if failure.http_status is not None else ""
        said = f"{failure.failure_class}, {failure.kind}{status}: {failure.message}"
        lines += _section(f"failed attempt {number}", said, width)
    return "\n".join(lines)


def metrics_text(metrics: Mapping[str, float | None]) -> str:
    """A line for each metric with its value."""
    return "\n".join(
        f"{name}  {'not measured' if value is None else f'{value:g}'}" for name, value in metrics.items()
    )


def _head(rollout: RecordedRollout, benchmark: str) -> str:
    reward = "" if rollout.reward is None else f", reward {rollout.reward:g}"
    reason = f": {rollout.reason}" if rollout.reason else ""
    parts = [f"{benchmark} task {rollout.task}, repeat {rollout.repeat}: {rollout.outcome}{reward}{reason}"]
    latency, tokens = rollout.perf.get("total_latency_ms"), rollout.perf.get("completion_tokens")
    turns = rollout.perf.get("num_turns")
    facts = [
        *([f"{latency / 1000:,.1f} s"] if isinstance(latency, int | float) else []),
        *([counted(turns, "turn")] if isinstance(turns, int) and turns > 1 else []),
        *([counted(tokens, "token")] if isinstance(tokens, int) else []),
        *([f"ended: {rollout.end}"] if rollout.end not in (None, "completed") else []),
    ]
    return _safe(" | ".join([*parts, *([", ".join(facts)] if facts else [])]).replace("\n", " "))


def _thoughts(text: str, width: int | None, *, unfolded: bool, name: str = THOUGHTS) -> Iterator[str]:
    if unfolded:
        yield from _section(name, text, width)
        return
    size = f"{counted(len(text), 'character')}, folded; --thoughts shows all"
    first = " ".join(text.split())
    most = (width or 100) - len(_INDENT)
    yield f"{_INDENT}{name} ({size})"
    yield _INDENT * 2 + _safe(textwrap.shorten(first, max(most, 20), placeholder=" …"))


def _section(name: str, text: str, width: int | None) -> list[str]:
    shown = [f"{_INDENT}{_safe(name)}"]
    for line in text.splitlines() or [""]:
        safe = _safe(line)
        columns = None if width is None else max(width - 2 * len(_INDENT), 20)
        pieces = [safe] if columns is None or len(safe) <= columns else textwrap.wrap(safe, columns)
        shown += [f"{_INDENT * 2}{piece}".rstrip() for piece in pieces or [""]]
    return shown


def _safe(text: str) -> str:
    return "".join(
        character if character.isprintable() or character == "\t" else f"\\x{ord(character):02x}"
        for character in text
    )
