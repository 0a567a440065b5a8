"""Write docs/reference/python-evaluations.md from the functions and classes that `nemo_gym` offers.

``--check`` ends with 1 when it differs.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nemo_gym

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "python-evaluations.md"
FUNCTIONS = ("run", "reverify", "submit", "results", "compare")
CLASSES = (
    *("EvalResult", "EvalResults", "EvalSubmission", "EvalProgress", "BenchmarkProgress"),
    "RunComparisons",
)
_HEAD = """\
# Evaluations from Python

Written by `make reference` from the code.
[Evaluate from Python](../how-to/evaluate-from-python.md) shows them at work.
`import nemo_gym` loads nothing else until one of these names is used.
Errors are those of `nemo_gym.errors`, below `GymError`; each message is one sentence.
"""
_ARGUMENT = re.compile(r"^(\w+(?:, \w+)*): (.*)$")


def page() -> str:
    """The whole page."""
    return (
        _HEAD + "".join(function(name) for name in FUNCTIONS) + "".join(one_class(name) for name in CLASSES)
    )


def function(name: str) -> str:
    """The section of a function."""
    called = getattr(nemo_gym, name)
    shown = f"nemo_gym.{name}{signature(called)}"
    return f"\n## `{name}`\n\n```py\n{shown}\n```\n\n{body(called)}\n"


def one_class(name: str) -> str:
    """The section of a class: its fields, properties and methods."""
    cls = getattr(nemo_gym, name)
    rows = "".join(f"| `{one_line(member)}` | {meaning} |\n" for member, meaning in members(cls))
    return f"\n## `{name}`\n\n{body(cls)}\n\n| Member | Meaning |\n| --- | --- |\n{rows}"


def members(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """Each public member and what it means."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    for node, below in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            said = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            meaning = str(ast.literal_eval(below.value)) if said else ""  # type: ignore[union-attr]
            yield f"{node.target.id}: {ast.unparse(node.annotation)}", one_line(meaning)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            value = vars(cls)[node.name]
            returned = ast.unparse(node.returns) if node.returns else ""
            if isinstance(value, property):
                yield f"{node.name}: {returned}", one_line(inspect.getdoc(value) or "")
            else:
                asked = ", ".join(argument.arg for argument in (*node.args.args[1:], *node.args.kwonlyargs))
                yield f"{node.name}({asked}) -> {returned}", one_line(inspect.getdoc(value) or "")


def signature(called: Any) -> str:
    """The signature as it is written, one argument a line where it is long."""
    found = inspect.signature(called)
    shown = []
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        shown.append(f"{star}{parameter.name}: {parameter.annotation}{default}")
    arguments = ", ".join(shown)
    if len(arguments) > 80:
        arguments = "\n" + "".join(f"    {line},\n" for line in shown)
    return f"({arguments}) -> {found.return_annotation}"


def body(documented: Any) -> str:
    """A docstring as Markdown; lines ``name: meaning`` become a table."""
    paragraphs = (inspect.getdoc(documented) or "").split("\n\n")
    return "\n\n".join(
        table(text) if _ARGUMENT.match(text.partition("\n")[0]) else one_line(text) for text in paragraphs
    )


def table(text: str) -> str:
    """A paragraph that explains arguments."""
    rows: list[list[str]] = []
    for line in text.splitlines():
        begins = _ARGUMENT.match(line)
        if begins and not line.startswith(" "):
            rows.append([begins[1], begins[2]])
        else:
            rows[-1][1] += f" {line.strip()}"
    shown = "".join(
        f"| {', '.join(f'`{name}`' for name in names.split(', '))} | {one_line(meaning)} |\n"
        for names, meaning in rows
    )
    return f"| Argument | Meaning |\n| --- | --- |\n{shown}".rstrip()


def one_line(text: str) -> str:
    """Text in one line, code as Markdown has it."""
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def main() -> int:
    """Write the page, or compare it."""
    wanted = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text(encoding="utf-8") == wanted else 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
