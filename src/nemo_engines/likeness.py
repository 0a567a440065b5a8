"""Whether rows are alike: libraries make a table of them, in which each place holds one kind of value."""

from __future__ import annotations

from typing import Any

_LARGEST = 1 << 63


class Likeness:
    """What each place of the rows so far has held."""

    def __init__(self) -> None:
        self._kinds: dict[str, tuple[str, int]] = {}

    def check(self, row: dict[str, Any], line: int) -> None:
        """Raises `ValueError` for a place that holds another kind of value than in a row before."""
        for name, value in row.items():
            self._check(value, name, line)

    def _check(self, value: object, path: str, line: int) -> None:
        if value is None:
            return
        kind = _kind(value)
        known, since = self._kinds.setdefault(path, (kind, line))
        if known != kind:
            where = "elsewhere in the row" if since == line else f"in line {since}"
            raise ValueError(f"'{path}' is {kind}, and {where} it is {known}; write all rows alike")
        if isinstance(value, dict):
            for name, part in value.items():
                self._check(part, f"{path}.{name}", line)
        elif isinstance(value, list):
            for part in value:
                self._check(part, f"{path}[]", line)
        elif kind == "a number" and not -_LARGEST <= value < _LARGEST:  # type: ignore[operator]
            raise ValueError(f"'{path}' is a number of more than 64 bits")


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    kinds = {int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}
    return kinds[type(value)]
