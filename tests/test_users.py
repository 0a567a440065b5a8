"""Every public function has a user in the product, or is listed as part of what others may use."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cache

import pytest
from tests import test_frozen
from tests.source_tree import ROOT, SOURCES, modules, nodes, texts

API = {
    "nemo_gym.api": "what `nemo_gym` offers to Python programs",
    "nemo_slurm.testing": "the stand-in of a cluster, for tests here and of other packages",
    "nemo_helix_server.executors.fake": "an executor without processes, for tests",
    "nemo_gym.orchestration.executors.fake": "an executor without processes, for tests",
    "nemo_gym.rollouts.data.wheel_files": "for prepare scripts of benchmarks",
    "nemo_gym.sandbox.protocol": "what agents and verifiers of others run code with",
    "nemo_gym.sandbox.registry.load_sandbox": "the same",
    "nemo_gym.sandbox.session.StartedProgram": "the same",
    "nemo_gym.bfcl.rows.write_rows": "what the prepare script of the benchmark bfcl calls",
    "nemo_runs.clock.MovableClock": "a clock for tests",
    "nemo_helix_plugin.client": "the SDK",
    "nemo_helix_server.store.migrations.versions": "run by alembic, by name",
    "nemo_runs.leases.machine_leases.Pool.holders": "says who holds what; nothing else shows it as values",
    "nemo_slurm.ssh.SshHost.shares": "says whose connection is used; nothing else shows it",
    "nemo_runs.processes.supervise.shim_command": "the supervisor as a program, without packages",
}
"""Modules, classes and functions that are there to be used from outside, each with the reason."""
FROZEN = {f"{module}.{name}" for module, names in test_frozen.NAMES.items() for name in names.split()} | {
    f"nemo_trainer.session.Session.{name}" for name in test_frozen.SESSION
}
FOREIGN = frozenset({"object", "Protocol", "Generic", "ABC", "StrEnum", "IntEnum", "Enum", "NamedTuple"})
"""Bases from outside that call nothing of their subclasses by name."""


def named_elsewhere() -> str:
    """Where names are written that no import shows: entry points, shell files, commands in docstrings."""
    texts = [ROOT / "pyproject.toml", *SOURCES.rglob("*.sh")]
    return "\n".join(path.read_text(encoding="utf-8") for path in texts)


def aliases(tree: ast.Module, known: dict[str, ast.Module]) -> dict[str, str]:
    """The modules that a module imports, by the name it gives them."""
    found = {}
    for node in nodes(tree, ast.ImportFrom):
        for each in node.names:
            if f"{node.module}.{each.name}" in known:
                found[each.asname or each.name] = f"{node.module}.{each.name}"
    for plain in nodes(tree, ast.Import):
        found |= {each.asname or each.name: each.name for each in plain.names if each.name in known}
    return found


def dotted(node: ast.expr) -> str:
    """The name that an expression is, ``a`` or ``a.b``; empty for every other expression."""
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return owner and f"{owner}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def programs(text: str) -> set[str]:
    """What a Python program in a string calls after ``from package import name``."""
    found = set()
    for package, name in re.findall(r"from ([\w.]+) import (\w+)", text):
        found |= {f"{package}.{name}"}
        found |= {f"{package}.{name}.{called}" for called in re.findall(rf"\b{name}\.(\w+)\(", text)}
    return found


def used_functions(trees: dict[str, ast.Module]) -> set[str]:
    """Dotted names that some module imports, calls or writes down as ``module:name``."""
    found: set[str] = set()
    for module, tree in trees.items():
        imported = aliases(tree, trees)
        for statement in nodes(tree, ast.ImportFrom):
            found |= {f"{statement.module}.{each.name}" for each in statement.names}
        for node in nodes(tree, ast.Attribute):
            if (owner := dotted(node.value)) in imported:
                found.add(f"{imported[owner]}.{node.attr}")
        found |= {f"{module}.{name.id}" for name in nodes(tree, ast.Name)}
        for _, text in texts(tree):
            found |= {place.replace(":", ".") for place in re.findall(r"[\w.]+:\w+", text)}
            found |= programs(text)
    return found


def used_attributes(trees: dict[str, ast.Module]) -> set[str]:
    """Names of attributes that are read or called anywhere, also by a name in a string."""
    found: set[str] = set()
    for tree in trees.values():
        found |= {node.attr for node in nodes(tree, ast.Attribute)}
        found |= {name for _, text in texts(tree) for name in re.findall(r"^\w+$|(?<=\.)\w+$", text)}
    return found


def is_foreign(base: ast.expr, own: set[str], imported: dict[str, str]) -> bool:
    """Whether a base class comes from outside and may call methods of its subclasses by name."""
    path, _, name = ast.unparse(base).partition("[")[0].rpartition(".")
    return name not in FOREIGN and (name not in own if not path else path not in imported)


def public_functions(trees: dict[str, ast.Module]) -> Iterator[tuple[str, bool]]:
    """Dotted name of each public function and method, and whether it is a method.

    Left out: what a decorator registers, and methods that a base class from outside may call.
    """
    own = {node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)}
    for module, tree in trees.items():
        imported = aliases(tree, trees)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if not node.name.startswith("_") and not node.decorator_list:
                    yield f"{module}.{node.name}", False
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                if any(is_foreign(base, own, imported) for base in node.bases):
                    continue
                for each in node.body:
                    if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name[0] != "_":
                        yield f"{module}.{node.name}.{each.name}", True


def named_in_templates() -> set[str]:
    """Names of attributes and methods that templates of pages use."""
    templates = (path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.html"))
    return {name for text in templates for name in re.findall(r"\.(\w+)", text)}


def without_user(
    trees: dict[str, ast.Module], elsewhere: str = "", in_templates: AbstractSet[str] = frozenset()
) -> list[str]:
    """Public functions and methods that nothing uses."""
    functions, attributes = used_functions(trees), used_attributes(trees) | in_templates
    return [
        name
        for name, is_method in public_functions(trees)
        if not (name.rpartition(".")[2] in attributes if is_method else name in functions)
        and f"{name.rpartition('.')[0]}:{name.rpartition('.')[2]}" not in elsewhere
    ]


@cache
def public_names() -> frozenset[str]:
    """Dotted names of all public functions and methods of the sources."""
    return frozenset(name for name, _ in public_functions(modules()))


def is_api(name: str) -> bool:
    """Whether a dotted name is frozen, or lies in a module or class that is there for others."""
    return name in FROZEN or any(f"{name}.".startswith(f"{prefix}.") for prefix in API)


def test_every_public_function_has_a_user() -> None:
    unused = without_user(modules(), named_elsewhere(), named_in_templates())
    assert [name for name in unused if not is_api(name)] == []


@pytest.mark.parametrize("prefix", API)
def test_what_is_listed_exists(prefix: str) -> None:
    assert prefix in modules() or any(f"{name}.".startswith(f"{prefix}.") for name in public_names())


@pytest.mark.parametrize(
    ("text", "unused"),
    [
        ("def alone(): ...", ["m.alone"]),
        ("def called(): ...\nx = called()", []),
        ("@command\ndef registered(): ...", []),
        ("def _private(): ...", []),
        ("class C:\n    def method(self): ...", ["m.C.method"]),
        ("class C:\n    def method(self): ...\nC().method()", []),
        ("class C(Foreign):\n    def hook(self): ...", []),
        ("def named(): ...\nx = 'm:named'", []),
        ("def main(): ...\nx = 'from m import main; main()'", []),
    ],
)
def test_a_function_without_a_user_is_found(text: str, unused: list[str]) -> None:
    assert without_user({"m": ast.parse(text)}) == unused
