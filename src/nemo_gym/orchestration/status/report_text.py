"""The status of submissions for a person: a table, and below it what there is to say about each benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nemo_gym.chain.endings import BenchmarkState, EndCause
from nemo_gym.orchestration.status.report import FRESH, BenchmarkStatus, SubmissionStatus
from nemo_gym.text_table import table
from nemo_runs.durations import duration_in_words

_COLUMNS = ("ID", "BENCHMARK", "STATE", "ROLLOUTS", "MEAN REWARD", "LEFT", "JOB")
_LEAST_SPACE = 16
"""Columns; a reason with less space is left out."""
_CODES: Mapping[str, str] = {
    BenchmarkState.RUNNING: "1;36",
    BenchmarkState.SUCCEEDED: "32",
    BenchmarkState.FAILED: "1;31",
    BenchmarkState.UNKNOWN: "33",
    BenchmarkState.STOPPED: "2",
    BenchmarkState.CANCELLED: "2",
}
"""Of a terminal: cyan, green, red, yellow, dim."""


def status_text(
    submissions: Sequence[SubmissionStatus], width: int | None = None, *, colour: bool = False
) -> str:
    """All of it; ``width`` is the number of columns that a terminal has, ``colour`` whether it shows any.

    Of several submissions each benchmark has one line, with why it waits, and below them is said only what is
    wrong with any.
    """
    shown = [status for submission in submissions for status in submission.benchmarks]
    rows = [row(status) for status in shown]
    whole = len(submissions) > 1
    columns, rows = _with_reasons(shown, rows, width) if whole else (_COLUMNS, rows)
    parts = [table(columns, rows, width, {_COLUMNS.index("STATE"): _coloured} if colour else None)]
    parts += _said([status for status in shown if not whole or _is_wrong(status)], whole=whole)
    silent = dict.fromkeys(status.silent for status in shown if status.silent)
    parts += [f"no answer: {why}. What is shown was known before." for why in silent]
    return "\n\n".join(parts)


def _with_reasons(
    shown: Sequence[BenchmarkStatus], rows: Sequence[list[str]], width: int | None
) -> tuple[Sequence[str], list[list[str]]]:
    """The table with why benchmarks wait, as far as a line of the terminal has space for it."""
    reasons = [" ".join(status.reason.split()) if status.state.live else "" for status in shown]
    if not any(reasons):
        return _COLUMNS, list(rows)
    taken = max(len(line) for line in table(_COLUMNS, rows).splitlines())
    space = None if width is None else width - taken - 2
    if space is not None and space < _LEAST_SPACE:
        return _COLUMNS, list(rows)
    cut = [why if space is None or len(why) <= space else f"{why[: space - 1].rstrip()}…" for why in reasons]
    return (*_COLUMNS, "WHY"), [[*cells, why] for cells, why in zip(rows, cut, strict=True)]


def _coloured(cell: str) -> str:
    """A state in the colour that `nemo` gives to its like."""
    code = _CODES.get(cell.partition(" ")[0])
    return f"\x1b[{code}m{cell}\x1b[0m" if code else cell


def _is_wrong(status: BenchmarkStatus) -> bool:
    """Whether a benchmark needs somebody: it has ended short of its end, or something is to be noted."""
    return bool(status.notes) or not (status.state.live or _is_done(status))


def _said(shown: Sequence[BenchmarkStatus], *, whole: bool) -> list[str]:
    """What there is to say; benchmarks with nothing but the same next command share one line."""
    parts: dict[str, list[str]] = {}
    for status in shown:
        if _needs_no_words(status) and not status.left_how:
            parts.setdefault(status.next_command, []).append(_name(status, whole=whole))
        else:
            parts["\n".join(details(status, whole=whole))] = []
    return [f"{', '.join(names)}: {said}" if names else said for said, names in parts.items()]


def row(status: BenchmarkStatus) -> list[str]:
    """One line of the table."""
    has_progress = status.done is not None and status.expected is not None
    return [
        status.gym_job_id,
        status.benchmark,
        status.state + _aged(status.state_age_s),
        f"{status.done:,}/{status.expected:,}{_aged(status.progress_age_s)}" if has_progress else "-",
        "-" if status.mean_reward is None else f"{status.mean_reward:.1%}",
        "-" if status.left_s is None else duration_in_words(status.left_s),
        _job(status),
    ]


def _job(status: BenchmarkStatus) -> str:
    if status.job_id is None:
        return "-"
    return f"{status.job_id} (run {status.links})" if status.links > 1 else status.job_id


def _aged(age: float | None) -> str:
    """How old something is, unless it is fresh."""
    return "" if age is None or age < FRESH else f" ({duration_in_words(age)} ago)"


def _is_done(status: BenchmarkStatus) -> bool:
    """Whether there is nothing to say about a benchmark, which succeeded."""
    return status.state == BenchmarkState.SUCCEEDED and not status.reason and not status.notes


def _needs_no_words(status: BenchmarkStatus) -> bool:
    return status.state.speaks_for_itself and not status.reason and not status.notes


def _name(status: BenchmarkStatus, *, whole: bool) -> str:
    return f"{status.benchmark} of {status.gym_job_id}" if whole else status.benchmark


def details(status: BenchmarkStatus, *, whole: bool = False) -> Iterable[str]:
    """Reason, notes and the next command, below the benchmark's name; ``whole``: its submission's too."""
    name = _name(status, whole=whole)
    if _needs_no_words(status):
        yield f"{name}: {status.next_command}"
        if status.left_how:
            yield f"  left: {status.left_how}"
        return
    reason = " ".join(status.reason.split())
    whose = cause_in_words(status.cause)
    yield f"{name}: {status.state}{f': {reason}' if reason else ''}{f' [{whose}]' if whose else ''}"
    if status.left_how:
        yield f"  left: {status.left_how}"
    yield from (f"  {note}" for note in status.notes)
    yield f"  next: {status.next_command}"


def cause_in_words(cause: EndCause | None) -> str:
    """Whose doing an end is; empty where that need not be said."""
    return {
        "infrastructure": "infrastructure ended it",
        "your code": "your code ended it",
        "your configuration": "your configuration",
        "a person": "",
        "a limit you set": "a limit you set",
        None: "",
    }[cause]
