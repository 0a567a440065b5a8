"""Numbers of bytes in words."""

from __future__ import annotations

_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size_in_words(count: float, *, binary: bool = False) -> str:
    """Bytes with three digits, in units of a thousand: ``1.23 GB``; negative is 0.

    ``binary``: in units of 1024, for limits that are set in them: ``256 MiB``.
    """
    value, units, step = max(float(count), 0.0), _BINARY if binary else _DECIMAL, 1024 if binary else 1000
    for unit in units:
        if value < step - 0.5 or unit == units[-1]:
            break
        value /= step
    digits = f"{value:.0f}" if unit == "B" or value >= 100 else f"{value:.3g}"
    return f"{digits} {unit}"
