"""NLTK's data that definitions look for and download while they are read: noted then, and brought later.

Nothing may be downloaded before it was named, and reading a definition is how it becomes known. So while
definitions are read, `nltk.download` only takes down what is wanted.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

_KINDS = ("tokenizers", "corpora", "taggers", "models", "chunkers", "grammars", "misc")
_wanted: dict[str, None] = {}


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """While definitions are read: whatever they want of NLTK's data is noted, and nothing is downloaded."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    if "nltk" in sys.modules:
        finder.hold(sys.modules["nltk"])
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        finder.release()


def missing() -> list[str]:
    """What is wanted and not on this machine, by NLTK's names."""
    return [name for name in _wanted if _path(name) is None]


def bring() -> dict[str, str]:
    """Download what is missing; all that is wanted, with where it is. Raises `OSError` or `ValueError`."""
    for name in missing():
        from nltk.downloader import download

        download(name, quiet=True, raise_on_error=True)
    return {name: path for name in _wanted if (path := _path(name)) is not None}


def _path(name: str) -> str | None:
    import nltk

    for folder in (Path(folder) / kind for folder in nltk.data.path for kind in _KINDS):
        for path in (folder / name, folder / f"{name}.zip"):
            if path.exists():
                return str(path)
    return None


class _Finder(importlib.abc.MetaPathFinder):
    """Holds NLTK's functions from the moment at which it is imported."""

    def __init__(self) -> None:
        self._held: list[tuple[Any, str, Any]] = []

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != "nltk":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def hold_then(module: ModuleType) -> None:
                execute(module)
                self.hold(module)

            spec.loader.exec_module = hold_then  # type: ignore[method-assign]
        return spec

    def hold(self, nltk: Any) -> None:
        find = nltk.data.find

        def note(info_or_id: object = None, *_args: Any, **_kwargs: Any) -> bool:
            names = info_or_id if isinstance(info_or_id, list | tuple) else [info_or_id]
            _wanted.update((name, None) for name in names if isinstance(name, str))
            return True

        def note_found(resource: str, *args: Any, **kwargs: Any) -> Any:
            kind, _, rest = resource.partition("/")
            if kind in _KINDS and rest:
                _wanted[rest.split("/")[0].removesuffix(".zip")] = None
            return find(resource, *args, **kwargs)

        self._held = [(nltk, "download", nltk.download), (nltk.data, "find", find)]
        nltk.download, nltk.data.find = note, note_found

    def release(self) -> None:
        for owner, name, function in self._held:
            setattr(owner, name, function)
