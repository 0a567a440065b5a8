"""Write docs/reference/service-settings.md from the settings; ``--check`` ends with 1 when it differs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from nemo_helix_server.settings import Settings, variables

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "service-settings.md"

_INTRODUCTION = """\
# Settings of the service

Written by `scripts/write_settings_reference.py` from the settings; `make reference` writes it again.

`nemo services run --settings FILE` reads them from YAML, with a level for each dot of the name.
A variable wins over the file and holds YAML too; options of the command line win over both.
Periods are in seconds.

| Setting | Variable | Default | Meaning |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    return _INTRODUCTION + "".join(_row(name, path) for name, path in variables())


def _row(variable: str, path: tuple[str, ...]) -> str:
    section: type[BaseModel] = Settings
    for part in path[:-1]:
        section = section.model_fields[part].annotation  # type: ignore[assignment] # sections are classes
    field = section.model_fields[path[-1]]
    values = ", ".join(f"`{value}`" for value in choices(field.annotation))
    meaning = " ".join((field.description or "").replace("``", "`").replace("|", "\\|").split())
    meaning = f"One of {values}. {meaning}" if values else meaning
    cells = [f"`{'.'.join(path)}`", f"`{variable}`", _shown(field.default, field.default_factory), meaning]
    return f"| {' | '.join(cells)} |\n"


def choices(annotation: Any) -> list[str]:
    """The values of a setting that has a list of them, empty for any other."""
    if get_origin(annotation) is Literal:
        values = [str(value) for value in get_args(annotation)]
        return values if len(values) > 1 else []
    return [value for part in get_args(annotation) for value in choices(part)]


def _shown(default: Any, factory: Any) -> str:
    if default is None or (factory is not None and factory is not dict):
        return ""
    value = {} if factory is dict else default
    return f"`{json.dumps(list(value) if isinstance(value, tuple) else value)}`"


def main() -> int:
    """Write the page, or compare it."""
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text(encoding="utf-8") == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
