"""Records as documents that programs read: JSON, YAML, CSV, Markdown."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from nemo_helix_plugin.cli.output import columns

Record = Mapping[str, Any]


def json_text(value: Any) -> str:
    """Indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def json_line(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def yaml_text(value: Any) -> str:
    """YAML, keys in the order of the value; without a newline at its end."""
    from nemo_helix_plugin import yaml_text

    return yaml_text.dump(value, width=100).rstrip("\n")


def csv_text(records: Sequence[Record], names: Sequence[str]) -> str:
    """A header and a row a record; values that are neither text nor numbers are JSON."""
    held = io.StringIO()
    writer = csv.writer(held, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([plain(columns.value(record, name)) for name in names] for record in records)
    return held.getvalue().rstrip("\n")


def markdown_text(records: Sequence[Record], names: Sequence[str]) -> str:
    """A table in Markdown."""
    rows = [list(names), ["---"] * len(names)]
    rows += [[_escaped(plain(columns.value(record, name))) for name in names] for record in records]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def plain(value: Any) -> str:
    """A value as text: nothing for `None`, ``true`` and ``false``, JSON for what is nested."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json_line(value)


def _escaped(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split("\n"))
