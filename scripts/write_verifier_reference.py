"""Write the tables of options in docs/reference/verifiers.md from the verifiers; ``--check`` ends with 1 when
one differs. What is around the tables is written by hand.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from nemo_gym.plugins import load_class
from nemo_gym.verifiers.registry import VERIFIERS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "verifiers.md"
_HEAD = "| Option | Default | Meaning |\n| --- | --- | --- |\n"


def page(text: str) -> str:
    """The page ``text`` with the tables as they should be; `ValueError` for a verifier without a section."""
    for name in VERIFIERS.built_in:
        section = re.search(rf"^## `{name}`\n.*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
        if section is None or _HEAD.splitlines()[0] not in section[0]:
            raise ValueError(f"{PAGE}: there is no section '## `{name}`' with a table of options")
        changed = re.sub(
            r"^\| Option \| Default \| Meaning \|\n(?:\|.*\n)*",
            lambda _, name=name: table(name),  # type: ignore[misc] # the name is bound on purpose
            section[0],
            count=1,
            flags=re.MULTILINE,
        )
        text = text[: section.start()] + changed + text[section.end() :]
    return text


def table(name: str) -> str:
    """The table of one verifier's options."""
    options: type[BaseModel] = load_class(VERIFIERS, {"type": name}, where="verifier").cls.Options
    meanings = docstrings(options)
    rows = [
        f"| `{option}` | `{default(field)}` | {meanings[option]} |\n"
        for option, field in options.model_fields.items()
    ]
    return _HEAD + "".join(rows)


def default(field: FieldInfo) -> str:
    """The default as the pages write it: as JSON."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, str) and "\n" in value:
        value = f"{value.splitlines()[0]} …"  # the page has all of it
    return json.dumps(value, ensure_ascii=False)


def docstrings(options: type[BaseModel]) -> dict[str, str]:
    """The docstring below each field, in one line."""
    found: dict[str, str] = {}
    for cls in reversed(options.__mro__):
        if cls is BaseModel or not issubclass(cls, BaseModel):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                assert isinstance(field.target, ast.Name)
                said = ast.literal_eval(below.value).replace("``", "`").replace("|", "\\|")
                found[field.target.id] = " ".join(said.split())
    return found


def main() -> int:
    """Write the page, or compare it."""
    text = PAGE.read_text(encoding="utf-8")
    wanted = page(text)
    if "--check" in sys.argv[1:]:
        return 0 if text == wanted else 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
