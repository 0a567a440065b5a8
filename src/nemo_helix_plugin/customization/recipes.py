"""Recipes that ship: specs in common names for models and tasks that people have, as files.

The first line of a file is its title, the comment behind it says what it needs.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from nemo_helix_plugin import errors, yaml_text
from nemo_runs import suggestions

SCHEME = "recipe://"
"""A source that begins so is a file that ships with the recipes."""
_FOLDER = "recipe_files"


class Recipe(NamedTuple):
    """A spec that ships."""

    name: str
    title: str
    notes: str
    """What its rows are, and what it needs; empty, or sentences."""
    spec: dict[str, Any]
    text: str
    path: Path

    @property
    def method(self) -> str:
        """The method that it is for."""
        return str(self.spec["method"])


class UnknownRecipeError(errors.NemoError):
    """There is no recipe of that name."""

    exit_status = errors.EXIT_USAGE


def folder() -> Path:
    """Where the files are."""
    return Path(str(resources.files("nemo_helix_plugin.customization") / _FOLDER))


def all_recipes() -> list[Recipe]:
    """All recipes, by name."""
    return [_read(path) for path in sorted(folder().glob("*.yaml"))]


def find(name: str) -> Recipe:
    """A recipe by name; raises `UnknownRecipeError`."""
    names = [path.stem for path in folder().glob("*.yaml")]
    if name not in names:
        raise UnknownRecipeError(
            f"there is no recipe '{name}'{suggestions.suggestion(name, names)}; "
            "`nemo customization recipes list` shows all"
        )
    return _read(folder() / f"{name}.yaml")


def shipped_file(source: str) -> Path | None:
    """The file that ``recipe://NAME`` names; `None` for any other source, or where there is none."""
    if not source.startswith(SCHEME):
        return None
    path = folder() / source.removeprefix(SCHEME)
    return path if path.parent == folder() and path.is_file() else None


def _read(path: Path) -> Recipe:
    text = path.read_text(encoding="utf-8")
    comments = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        comments.append(line.lstrip("# "))
    notes = " ".join(line for line in comments[1:] if line)
    return Recipe(path.stem, comments[0], notes, yaml_text.load(text), text, path)
