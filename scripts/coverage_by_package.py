"""Print which share of each package's lines ran, from the JSON report of coverage; see `make coverage`.

    python scripts/coverage_by_package.py REPORT [LEAST]

Ends with 1 when the share of all lines is below LEAST percent, by default that of ``pyproject.toml``.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def shares(report: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Name, lines that ran and lines in all, of each package and at last of everything."""
    ran: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for file, found in report["files"].items():
        package = Path(file).parts[1]
        ran[package] += found["summary"]["covered_lines"]
        lines[package] += found["summary"]["num_statements"]
    each = [(name, ran[name], lines[name]) for name in sorted(lines)]
    return [*each, ("all", ran.total(), lines.total())]


def table(found: list[tuple[str, int, int]]) -> str:
    """The shares as a text table."""
    rows = [f"{name:<20}{ran:>8}{lines:>8}{percent(ran, lines):>8.1f}%" for name, ran, lines in found]
    return "\n".join([f"{'PACKAGE':<20}{'RAN':>8}{'LINES':>8}{'SHARE':>9}", *rows])


def percent(ran: int, lines: int) -> float:
    """A share in percent; of nothing, all of it."""
    return 100 * ran / lines if lines else 100.0


def _fast_least() -> float:
    """What `make coverage`, which runs the fast tests alone, must reach."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return float(settings["tool"]["coverage"]["report"]["fail_under"])


def main() -> int:
    """Print the table; the exit status says whether the share is large enough."""
    found = shares(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    print(table(found))
    least = float(sys.argv[2]) if len(sys.argv) > 2 else _fast_least()
    share = percent(*found[-1][1:])
    if share < least:
        print(f"coverage: {share:.1f}% of all lines ran; asked for are at least {least:g}%", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
