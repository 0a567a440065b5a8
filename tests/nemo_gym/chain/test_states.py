"""What groups of states mean is said by properties of their enums, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.source_tree import nodes, parsed

import nemo_gym
from nemo_gym.chain.endings import BenchmarkState
from nemo_gym.chain.evidence import ChainAction, ChainState
from nemo_gym.chain.observation import JobState
from nemo_gym.chain.run_end import EndKind

ENUMS = {enum.__name__ for enum in (BenchmarkState, JobState, ChainState, ChainAction, EndKind)}


def literal_sets(tree: ast.AST) -> Iterator[int]:
    """Lines with a tuple, list or set that names two or more members of one enum, outside the enums."""
    inside = {
        id(node) for found in nodes(tree, ast.ClassDef) if found.name in ENUMS for node in ast.walk(found)
    }
    literals: list[ast.Tuple | ast.List | ast.Set] = [
        *nodes(tree, ast.Tuple),
        *nodes(tree, ast.List),
        *nodes(tree, ast.Set),
    ]
    for node in literals:
        if id(node) in inside:
            continue
        members = [
            each.value.id
            for each in node.elts
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in ENUMS
        ]
        if any(members.count(name) > 1 for name in members):
            yield node.lineno


def test_no_module_makes_a_set_of_states_of_its_own() -> None:
    sources = Path(nemo_gym.__file__).parent
    found = [
        f"{path.relative_to(sources)}:{line}"
        for path in sources.rglob("*.py")
        for line in literal_sets(parsed(path))
    ]
    assert found == []


def test_a_set_of_states_is_found() -> None:
    text = (
        "alive = state in (JobState.QUEUED, JobState.RUNNING)\nboth = (JobState.QUEUED, ChainState.FAILED)\n"
    )
    assert list(literal_sets(ast.parse(text))) == [1]
