"""The name of an executor stands in one place; every executor has one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from tests.source_tree import SOURCES, modules, texts

from nemo_gym.orchestration import executor_kinds
from nemo_gym.orchestration.executors.registry import executor_for

OF_EXECUTORS = ("nemo_gym.orchestration.executor_kinds", "nemo_gym.orchestration.executors")


def names_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text where a module writes an executor's name down, alone or as a word of a list of them."""
    known = "|".join(executor_kinds.TYPES)
    alone = re.compile(rf"[<\s]*(?:{known})[>\s]*|.*\b(?:{known}) or (?:{known})\b.*", re.S)
    return ((line, text) for line, text in texts(tree, docstrings=False) if alone.fullmatch(text))


def test_no_module_outside_its_folder_and_the_registry_names_an_executor() -> None:
    found = [
        f"{module}:{line}: {text!r}"
        for module, tree in modules().items()
        if module.startswith("nemo_gym.") and not module.startswith(OF_EXECUTORS)
        for line, text in names_in(tree)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    ["x = 'local'", "x = {'slurm': 1}", "x: Literal['local']", "Tag('<slurm>')", "x = 'a local or slurm'"],
)
def test_a_name_that_is_written_down_is_found(text: str) -> None:
    assert len(list(names_in(ast.parse(text)))) == 1


def test_every_name_has_its_executor_its_shell_and_a_word_for_its_jobs() -> None:
    shell = SOURCES / "nemo_gym" / "shell"
    for name in executor_kinds.TYPES:
        assert executor_for(name).name == name
        assert (shell / f"scheduler_{name}.sh").is_file()
    assert set(executor_kinds.JOBS) == set(executor_kinds.TYPES)
