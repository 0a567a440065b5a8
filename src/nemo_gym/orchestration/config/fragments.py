"""A submit file in parts: its ``defaults`` list names files beside it, as Hydra's does.

``- cluster`` is ``cluster.yaml`` in the folder of the file, merged at the root; ``- compute: lab`` is
``compute/lab.yaml``, merged below the key ``compute``. Later entries win over earlier ones. ``_self_`` is the
place of the file's own keys, the last one unless given. A part may have ``defaults`` of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.composition import load_yaml, merge
from nemo_gym.errors import ConfigError
from nemo_runs.suggestions import suggestion

KEY = "defaults"
_SELF = "_self_"
_ENDINGS = (".yaml", ".yml")


class SubmitFile(NamedTuple):
    """A submit file over its parts."""

    content: dict[str, Any]
    files: tuple[Path, ...]
    """Every file that was read, the submit file itself last."""


def load(path: Path) -> SubmitFile:
    """Read a submit file and its parts; raises `ConfigError`, one sentence that names the file."""
    return _load(path, ())


def _load(path: Path, open_: tuple[Path, ...]) -> SubmitFile:
    if path in open_:
        chain = " → ".join(str(one) for one in (*open_[open_.index(path) :], path))
        raise ConfigError(f"{KEY}: a file is a part of itself: {chain}.")
    own = load_yaml(path)
    if KEY not in own:
        return SubmitFile(own, (path,))
    listed = own.pop(KEY)
    result: dict[str, Any] = {}
    files: list[Path] = []
    for entry in _entries(listed, path):
        if entry is None:
            result = merge(result, own)
            continue
        part = _load(_find(entry, path), (*open_, path))
        below = {entry.group: part.content} if entry.group else part.content
        result = merge(result, below)
        files += part.files
    return SubmitFile(result, (*dict.fromkeys(files), path))


class _Entry(NamedTuple):
    name: str
    group: str
    """The key below which the part is merged, and the folder that it is in; empty for the root."""


def _entries(listed: Any, path: Path) -> Iterator[_Entry | None]:
    """The parts in the order of merging, with `None` at the place of the file itself."""
    if not isinstance(listed, list):
        raise ConfigError(f"{path}: {KEY} must be a list of names of files beside this one.")
    with_self = False
    for entry in listed:
        if entry == _SELF:
            with_self = True
            yield None
        elif isinstance(entry, str) and entry:
            yield _Entry(entry, "")
        elif isinstance(entry, dict) and len(entry) == 1:
            ((group, name),) = entry.items()
            if name is None:
                continue
            if not isinstance(name, str) or not _is_key(group):
                raise ConfigError(
                    f"{path}: {KEY}: {group}: {name} is not understood; write KEY: NAME for KEY/NAME.yaml, "
                    "with the name of one file."
                )
            yield _Entry(name, group)
        else:
            raise ConfigError(f"{path}: {KEY}: {entry!r} is not understood; write NAME, or KEY: NAME.")
    if not with_self:
        yield None


def _is_key(group: Any) -> bool:
    """Whether a group is a plain key: Hydra's ``override``, ``optional`` and packages are not read."""
    return isinstance(group, str) and bool(group) and not set(group) & set(" /@.")


def _find(entry: _Entry, path: Path) -> Path:
    folder = path.parent / entry.group if entry.group else path.parent
    named = Path(os.path.abspath(folder / entry.name))
    tried = (
        [named]
        if named.suffix in _ENDINGS
        else [named.with_name(f"{named.name}{ending}") for ending in _ENDINGS]
    )
    for one in tried:
        if one.is_file():
            return one
    there = [one.stem for one in named.parent.glob("*.y*ml") if one != path]
    label = f"{entry.group}: {entry.name}" if entry.group else entry.name
    raise ConfigError(f"{path}: {KEY}: {label}: there is no {tried[0]}{suggestion(named.stem, there)}.")
