"""A backend is one folder and one description: no other module of the sources names one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.source_tree import parsed, texts

from nemo_helix_plugin.customization import backends
from nemo_helix_server.customizer.backends import registry

SOURCES = Path(__file__).parents[2] / "src"
OWN = {
    "nemo_helix_plugin/customization/backends.py": "the registry",
    "nemo_helix_plugin/customization/types": "the input types",
    "nemo_helix_plugin/customization/common_fields.py": "where each backend has what all of them have",
    "nemo_helix_server/customizer/backends": "the folders, each of which may name its own backend",
}
OTHERS = {
    "nemo_engines": "names of engines, of which two are called as the backend that uses them",
    "nemo_helix_server/engines/catalogue.py": "names of engines",
    "nemo_models/engine.py": "names of engines",
    "nemo_helix_plugin/cli/filters.py": "an example in a help text",
}
"""Further places where a name of a backend may stand, and why."""


def naming(path: Path) -> list[str]:
    """The lines of a module whose strings have a backend's name as a word."""
    word = re.compile(rf"(?<![\w-])({'|'.join(backends.BUILT_IN)})(?![\w-])")
    place = path.relative_to(SOURCES)
    found = texts(parsed(path), docstrings=False)
    return [f"{place}:{line}: {text}" for line, text in found if word.search(text)]


def within(path: Path, places: dict[str, str]) -> bool:
    return any(f"{path.relative_to(SOURCES)}/".startswith(f"{place}/") for place in places)


def test_no_other_module_names_a_backend() -> None:
    modules = [path for path in SOURCES.rglob("*.py") if not within(path, OWN | OTHERS)]
    assert [line for path in modules for line in naming(path)] == []


@pytest.mark.parametrize("name", backends.BUILT_IN)
def test_the_folder_of_a_backend_names_no_other_one(name: str) -> None:
    folder = SOURCES / "nemo_helix_server" / "customizer" / "backends" / name
    lines = [line for path in folder.rglob("*.py") for line in naming(path)]
    assert [line for line in lines if not re.search(rf": .*\b{name}\b", line)] == []
    assert registry.find(name).name == name


@pytest.mark.parametrize("place", OTHERS)
def test_every_exception_is_one(place: str) -> None:
    path = SOURCES / place
    assert [line for module in (path.rglob("*.py") if path.is_dir() else [path]) for line in naming(module)]
