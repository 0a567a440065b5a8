"""One mechanism for each kind of knowledge: what is called, defined or written in one module only."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source_tree import functions, nodes, parsed, texts

SOURCES = Path(__file__).parents[1] / "src"

CALLS = {
    "difflib.get_close_matches": {"nemo_runs/suggestions.py"},
    "fcntl.flock": {"nemo_runs/file_locks.py"},
    "fcntl.lockf": {"nemo_runs/file_locks.py"},
}
"""Functions that only these modules may use, by full name."""
DEFINITIONS = {
    "Lazy": {"nemo_cli/lazy_group.py"},
    "LazyGroup": {"nemo_cli/lazy_group.py"},
    "Clock": {"nemo_runs/clock.py"},
    "MovableClock": {"nemo_runs/clock.py"},
    "SystemClock": {"nemo_runs/clock.py"},
    "is_loopback": {"nemo_runs/addresses.py"},
}
"""Classes and functions that only these modules may define."""
WORDS = {
    "to see where": {"nemo_cli/program.py"},
    "did you mean": {"nemo_runs/suggestions.py"},
    **{unit: {"nemo_runs/sizes.py"} for unit in ("kB", "MB", "GB", "KiB", "MiB")},
    "GiB": {"nemo_runs/sizes.py", "nemo_trainer/fault_injection.py"},  # there in another program's words
}
"""What only these modules may write in a string that is not a docstring, in small letters."""


def uses(tree: ast.AST) -> Iterator[str]:
    """The full names of all that a module takes from another: ``module.name``, however it was imported."""
    names: dict[str, str] = {}
    for plain in nodes(tree, ast.Import):
        names.update({alias.asname or alias.name: alias.name for alias in plain.names})
    for node in nodes(tree, ast.ImportFrom):
        if node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for used in nodes(tree, ast.Attribute):
        if isinstance(used.value, ast.Name) and used.value.id in names:
            yield f"{names[used.value.id]}.{used.attr}"


@functools.cache
def modules() -> list[tuple[str, ast.Module]]:
    paths = sorted(SOURCES.rglob("*.py"))
    return [(str(path.relative_to(SOURCES)), parsed(path)) for path in paths]


@functools.cache
def names_used() -> list[tuple[str, frozenset[str]]]:
    return [(module, frozenset(uses(tree))) for module, tree in modules()]


@functools.cache
def names_defined() -> list[tuple[str, frozenset[str]]]:
    return [
        (module, frozenset(node.name for node in (*nodes(tree, ast.ClassDef), *functions(tree))))
        for module, tree in modules()
    ]


@functools.cache
def all_texts() -> list[tuple[str, str]]:
    return [
        (module, "\n".join(text for _, text in texts(tree, docstrings=False))) for module, tree in modules()
    ]


@pytest.mark.parametrize("name", CALLS)
def test_only_one_module_uses(name: str) -> None:
    assert {module for module, names in names_used() if name in names} == CALLS[name]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_only_one_module_defines(name: str) -> None:
    found = {module for module, names in names_defined() if name in names}
    assert found == DEFINITIONS[name]


def test_what_an_address_is_has_one_reader() -> None:
    """`ipaddress` knows several kinds of loopback, one of which depends on the version of Python."""
    found = {
        module
        for module, tree in modules()
        for node in nodes(tree, ast.Attribute)
        if node.attr == "is_loopback"
    }
    assert found == {"nemo_runs/addresses.py"}


def test_only_one_module_says_how_json_is_read() -> None:
    """`json.loads` with hooks of its own; what a model server answers is read leniently on purpose."""
    hooks = {"parse_constant", "parse_int", "parse_float", "object_pairs_hook"}
    found = {
        module
        for module, tree in modules()
        for node in nodes(tree, ast.Call)
        if hooks & {keyword.arg for keyword in node.keywords}
    }
    assert found == {"nemo_runs/strict_json.py", "nemo_gym/rollouts/policy/http_body.py"}


@pytest.mark.parametrize(
    "place",
    [
        "nemo_helix_plugin/cli/",
        "nemo_helix_server/api/",
        "nemo_helix_server/jobs/",
        "nemo_helix_server/store/filter",
    ],
)
def test_json_that_people_write_has_one_reader(place: str) -> None:
    """Bodies, filters and options; what programs of ours wrote is read with `json.loads`."""
    readers = {"json.loads", "json.load", "orjson.loads"}
    found = {module for module, names in names_used() if module.startswith(place) and names & readers}
    assert found == set()


@pytest.mark.parametrize("words", WORDS)
def test_only_one_module_writes(words: str) -> None:
    whole = re.compile(rf"(?<![A-Za-z]){words}(?![A-Za-z])")
    found = {module for module, text in all_texts() if whole.search(text)}
    assert found == WORDS[words]


@pytest.mark.parametrize(
    "source",
    [
        "import difflib as d\nd.get_close_matches",
        "from difflib import get_close_matches as near",
        "import difflib\nx = difflib.get_close_matches",
    ],
)
def test_a_use_is_seen_however_it_is_written(source: str) -> None:
    assert "difflib.get_close_matches" in set(uses(ast.parse(source)))
