"""Times in words, from values on the wire and a clock that is passed in."""

from __future__ import annotations

from datetime import UTC, datetime

from nemo_runs.durations import duration_in_words


def parsed(value: object) -> datetime | None:
    """The time of an ISO 8601 text, in UTC; `None` when it is none."""
    if isinstance(value, datetime):
        found = value
    elif isinstance(value, str) and value[4:5] == "-":
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            return None
    else:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def exact(moment: datetime) -> str:
    """ISO 8601 to the second, as in ``2026-11-29T16:43:32Z``."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def minute(moment: datetime) -> str:
    """For sentences, as in ``2026-11-29 16:43 UTC``."""
    return moment.strftime("%Y-%m-%d %H:%M UTC")


def relative(moment: datetime, now: datetime) -> str:
    """``3 min ago``, ``in 6 d`` or ``now``."""
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    words = duration_in_words(abs(seconds), units=1)
    return f"{words} ago" if seconds > 0 else f"in {words}"
