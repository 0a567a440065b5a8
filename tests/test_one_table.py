"""What a thing is called and how it is grouped stands in one place: statuses, roles, retention periods."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source_tree import nodes, parsed

from nemo_helix_plugin.access.roles import Role
from nemo_helix_plugin.jobs.statuses import HelixJobStatus

SOURCES = Path(__file__).resolve().parents[1] / "src"
HELIX = ("nemo_helix_plugin", "nemo_helix_server", "nemo_trainer", "nemo_engines")
"""The packages that know statuses of jobs; `nemo_gym` and `nemo_slurm` know those of a scheduler."""
TABLES = {
    "nemo_helix_plugin/jobs/statuses.py": "groups the statuses",
    "nemo_helix_server/jobs/states.py": "is the table of the state machine",
}
VALUES = frozenset(HelixJobStatus) | frozenset(Role)


def named(node: ast.expr) -> str | None:
    """The status or role that an expression writes down: ``Status.PAUSED`` or ``"paused"``."""
    if isinstance(node, ast.Attribute) and node.attr.isupper():
        return node.attr.lower()
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def groups(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """Line and members of each set, tuple, list and pattern that names two or more statuses or roles."""
    together: list[ast.Set | ast.Tuple | ast.List | ast.MatchOr] = [
        *nodes(tree, ast.Set),
        *nodes(tree, ast.Tuple),
        *nodes(tree, ast.List),
        *nodes(tree, ast.MatchOr),
    ]
    for node in together:
        if isinstance(node, ast.MatchOr):
            members = [named(each.value) for each in node.patterns if isinstance(each, ast.MatchValue)]
        else:
            members = [named(element) for element in node.elts]
        found = [member for member in members if member in VALUES]
        if len(found) > 1:
            yield node.lineno, found


@pytest.mark.parametrize(
    "text",
    [
        "x = {'paused', 'error'}",
        "x = status in (S.PAUSED, S.ERROR)",
        "x = frozenset([Status.CREATED, *LIVE, Status.QUEUED])",
        "match status:\n    case S.PAUSED | S.ERROR: pass",
        "x = ['read', 'admin']",
    ],
)
def test_groups_of_every_spelling_are_found(text: str) -> None:
    assert [len(members) for _, members in groups(ast.parse(text))] == [2]


@pytest.mark.parametrize("text", ["x = {'paused'}", "x = {S.PAUSED: 1, S.ERROR: 2}", "x = ('id', 'status')"])
def test_single_statuses_and_mappings_from_them_are_no_groups(text: str) -> None:
    assert list(groups(ast.parse(text))) == []


def test_statuses_and_roles_are_grouped_in_their_tables_only() -> None:
    found = [
        f"{relative}:{line}: {', '.join(members)}"
        for package in HELIX
        for path in sorted((SOURCES / package).rglob("*.py"))
        if (relative := path.relative_to(SOURCES).as_posix()) not in TABLES
        for line, members in groups(parsed(path))
    ]
    assert found == [], "use a comprehension over the properties of HelixJobStatus, or jobs.states.origins"


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_there(table: str) -> None:
    assert list(groups(ast.parse((SOURCES / table).read_text(encoding="utf-8")))) != []


PROPERTIES = sorted(name for name, value in vars(HelixJobStatus).items() if isinstance(value, property))


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_property_of_a_status_tells_some_from_others(name: str) -> None:
    said = {bool(getattr(status, name)) for status in HelixJobStatus}
    assert said == {True, False}


def test_retention_periods_have_their_defaults_in_the_settings_only() -> None:
    names = {"paused_storage_ttl_seconds", "maximum_pause_ttl_seconds", "failed_storage_ttl_seconds"}
    found = sorted(
        (path.relative_to(SOURCES).as_posix(), node.target.id)
        for path in SOURCES.rglob("*.py")
        for node in nodes(parsed(path), ast.AnnAssign)
        if isinstance(node.target, ast.Name)
        if node.target.id in names and node.value is not None
    )
    assert found == [("nemo_helix_server/settings.py", name) for name in sorted(names)]
