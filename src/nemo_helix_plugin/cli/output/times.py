"""Times and sizes in words, from values on the wire and a clock that is passed in."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")


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


def span(seconds: float, *, units: int = 1) -> str:
    """A span in its largest units, rounded down: ``6 d``, ``2 h``, ``40 s``; with two ``6 d 23 h``."""
    parts: list[str] = []
    for size, unit in _UNITS:
        if seconds >= size or parts:
            parts.append(f"{int(seconds // size)} {unit}")
            seconds %= size
        if len(parts) == units:
            break
    return " ".join(part for part in parts if not part.startswith("0 ")) or "0 s"


def relative(moment: datetime, now: datetime) -> str:
    """``3 min ago``, ``in 6 d`` or ``now``."""
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def size(count: float) -> str:
    """Bytes in units of a thousand, with three digits: ``1.23 GB``."""
    value = float(count)
    for unit in _SIZES:
        if abs(value) < 999.5 or unit == _SIZES[-1]:
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
