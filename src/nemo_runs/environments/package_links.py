"""The folder that puts packages of ours on another interpreter's path, and nothing else.

Such an interpreter has its own versions of everything. The folder in which this project is installed may be a
whole site-packages, which would shadow them; so it gets a folder of links to the few packages that it needs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from nemo_runs.errors import RunsError

_OF_PYTHON = ("PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE")
"""Variables that say which packages an interpreter finds."""


class NoPackageError(RunsError):
    """A package of ours is not installed beside this one."""


def package_folder(name: str) -> Path:
    """Where a package of ours lies; found, not imported. Raises `NoPackageError`."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise NoPackageError(f"the package {name} is not installed here")
    return Path(next(iter(spec.submodule_search_locations))).resolve()


def link_folder(cache: Path, packages: Iterable[str]) -> Path:
    """The folder for ``PYTHONPATH``, made when it is not there. Safe to call from several processes at
    once.
    """
    folders = {name: package_folder(name) for name in packages}
    key = hashlib.sha256("\0".join(map(str, folders.values())).encode()).hexdigest()[:16]
    target = cache / "sources" / key
    target.mkdir(parents=True, exist_ok=True)
    for name, folder in folders.items():
        _link(target / name, folder)
    return target


def variables(folder: Path | str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of such an interpreter's process: those of ``environ``, and ``folder`` alone on its
    path.
    """
    kept = {name: value for name, value in environ.items() if name not in _OF_PYTHON}
    return {**kept, "PYTHONPATH": str(folder), "PYTHONNOUSERSITE": "1"}


def _link(link: Path, folder: Path) -> None:
    try:
        link.symlink_to(folder, target_is_directory=True)
    except FileExistsError:
        if link.is_symlink() and link.readlink() == folder:
            return
        temporary = link.with_name(f".{link.name}.{os.getpid()}")
        temporary.symlink_to(folder, target_is_directory=True)
        temporary.replace(link)
