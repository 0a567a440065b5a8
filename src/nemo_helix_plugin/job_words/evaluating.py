"""What a training's checkpoints answered while it ran, in words: scores with their intervals, and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nemo_runs.counts import counted
from nemo_runs.durations import duration_in_words

Record = Mapping[str, Any]


def evaluation(found: Record) -> str:
    """``arithmetic 0.42 [0.33, 0.51] at step 300; 3 evaluations, 2 min 10 s in all, for which it waited``."""
    said = _said(found)
    if not said:
        return ""
    shown = _records(said.get("shown"))
    parts = []
    scored = [one for one in shown if _number(one.get("score")) is not None]
    if scored:
        parts.append(f"{said.get('benchmark')} {score(scored[-1])} at step {scored[-1].get('step')}")
    if count := said.get("count"):
        waited = ", for which it waited" if said.get("device") == "same" else f" on {said.get('device')}"
        took = duration_in_words(_number(said.get("seconds")) or 0.0)
        parts.append(f"{counted(int(count), 'evaluation')}, {took} in all{waited}")
    if running := said.get("running"):
        parts.append(f"step {running} is being evaluated")
    return "; ".join(parts)


def failure(found: Record) -> str:
    """Why the newest evaluation that failed did; nothing where the newest one did not."""
    shown = _records(_said(found).get("shown"))
    if not shown or not shown[-1].get("error"):
        return ""
    why = " ".join(str(shown[-1]["error"]).split())
    return f"the evaluation of step {shown[-1].get('step')} failed, and training went on: {why}"


def score(result: Record) -> str:
    """``0.42 [0.33, 0.51]``: a score with its interval of 95 %."""
    value, low, high = (_number(result.get(key)) for key in ("score", "low", "high"))
    if value is None:
        return "failed" if result.get("error") else ""
    return f"{value:.3g} [{low:.3g}, {high:.3g}]" if low is not None and high is not None else f"{value:.3g}"


def rows(found: Record) -> list[dict[str, Any]]:
    """The evaluations that are shown, oldest first; what one of them does not have is null."""
    names = ("step", "score", "low", "high", "rows", "seconds", "error")
    return [{name: one.get(name) for name in names} for one in _records(_said(found).get("shown"))]


def side_by_side(found: Record) -> list[dict[str, Any]]:
    """Each fixed prompt with its answers: ``prompt``, and ``answers`` with ``step`` and ``text``."""
    return [
        {"prompt": str(one.get("prompt")), "answers": _records(one.get("answers"))}
        for one in _records(_said(found).get("prompts"))
    ]


def _said(found: Record) -> Record:
    said = found.get("evaluation")
    return said if isinstance(said, Mapping) else {}


def _records(value: Any) -> list[Record]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, Sequence) else []


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
