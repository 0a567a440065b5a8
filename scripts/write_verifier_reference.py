"""Write the tables of options in docs/reference/ (verifiers.md, agents.md) from the code; ``--check`` ends
with 1 when one differs. What is around the tables is written by hand.
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

from nemo_gym.agents.registry import AGENTS
from nemo_gym.plugins import PluginKind, load_class
from nemo_gym.sandbox.options import SandboxOptions
from nemo_gym.tools.toolbox import TOOLS
from nemo_gym.verifiers.registry import VERIFIERS

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
SANDBOXES = "Sandboxes"
SECTIONS: dict[str, list[tuple[PluginKind | None, str]]] = {
    "verifiers.md": [*((VERIFIERS, name) for name in VERIFIERS.built_in), (None, SANDBOXES)],
    "agents.md": [(AGENTS, "tools"), (AGENTS, "bfcl"), *((TOOLS, name) for name in TOOLS.built_in)],
}
"""Page -> what has a table there; sandboxes are no plug-ins."""
_HEAD = "| Option | Default | Meaning |\n| --- | --- | --- |\n"


def page(text: str, sections: list[tuple[PluginKind | None, str]]) -> str:
    """The page ``text`` with the tables as they should be; `ValueError` for one without a section."""
    for kind, name in sections:
        title = name if kind is None else f"`{name}`"
        section = re.search(rf"^## {title}\n.*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
        if section is None or _HEAD.splitlines()[0] not in section[0]:
            raise ValueError(f"there is no section '## {title}' with a table of options")
        changed = re.sub(
            r"^\| Option \| Default \| Meaning \|\n(?:\|.*\n)*",
            lambda _, kind=kind, name=name: table(name, kind),  # type: ignore[misc] # bound on purpose
            section[0],
            count=1,
            flags=re.MULTILINE,
        )
        text = text[: section.start()] + changed + text[section.end() :]
    return text


def table(name: str, kind: PluginKind | None = VERIFIERS) -> str:
    """The table of the options of one verifier, agent or toolset, or of sandboxes."""
    options: type[BaseModel] = SandboxOptions
    if kind is not None:
        options = load_class(kind, {"type": name}, where=kind.noun).cls.Options
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
    differs = False
    for name, sections in SECTIONS.items():
        path = REFERENCE / name
        text = path.read_text(encoding="utf-8")
        wanted = page(text, sections)
        differs = differs or text != wanted
        if "--check" not in sys.argv[1:]:
            path.write_text(wanted, encoding="utf-8")
    return int(differs and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
