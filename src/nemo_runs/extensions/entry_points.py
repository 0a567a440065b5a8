"""What other installed packages bring by entry point: the one loader of every group.

Nothing of a package is imported before its entry is asked for, and one that is broken harms only those who
ask for it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from nemo_runs.errors import EntryPointError
from nemo_runs.extensions.metadata import InstalledEntry, entries_in

OWN_PACKAGE = "nemo-baton"
"""The distribution that brings what is built in; its own entries take the name of nothing."""
WITHOUT = "NEMO_WITHOUT_PACKAGES"
"""Variable; set, what other packages of this interpreter's ``site-packages`` offer is left out."""
SLOW_SECONDS = 3.0
"""An import that takes longer is named on standard error, so that nobody waits for nothing."""


class EntryGroup(NamedTuple):
    """A group of entry points, and what comes without them."""

    name: str
    """Its name in ``entry_points.txt``."""
    noun: str
    """What an entry of it is, in a word or two."""
    built_in: Mapping[str, str] | Collection[str] = ()
    """The names that need no package; as a mapping, with the ``module:attribute`` of each."""


def offers(group: EntryGroup, folders: Iterable[str] | None = None) -> list[InstalledEntry]:
    """All entries of a group on ``folders`` (default: ``sys.path``), by name, then distribution.

    Of a distribution that is there twice the first folder counts. What says the same as what is built in, as
    this distribution's own entries do, is left out.
    """
    found: dict[tuple[str, str], InstalledEntry] = {}
    read: set[str] = set()
    for folder in sys.path if folders is None else folders:
        here = list(entries_in(folder or ".", group.name))
        if os.environ.get(WITHOUT) and folder.rstrip("/").endswith(("/site-packages", "/dist-packages")):
            here = [entry for entry in here if entry.distribution.lower() == OWN_PACKAGE]
        for entry in here:
            if entry.distribution.lower() not in read and not _is_built_in(entry, group):
                found.setdefault((entry.name, entry.distribution), entry)
        read.update(entry.distribution.lower() for entry in here)
    return [found[key] for key in sorted(found)]


def names(group: EntryGroup, folders: Iterable[str] | None = None) -> list[str]:
    """The names that packages add to those that are built in, sorted; whether each works is not tried."""
    return sorted({entry.name for entry in offers(group, folders)} - set(group.built_in))


def find(group: EntryGroup, name: str, folders: Iterable[str] | None = None) -> InstalledEntry | None:
    """The entry of a name; ``None`` where the name is built in, or where nobody offers it.

    Raises `EntryPointError` where what is meant is not certain: several packages offer the name, or one
    offers a name that is built in.
    """
    found = [entry for entry in offers(group, folders) if entry.name == name]
    if problem := _clash(group, name, found):
        raise EntryPointError(problem)
    return found[0] if found else None


def clashes(group: EntryGroup, folders: Iterable[str] | None = None) -> list[str]:
    """A sentence, without its full stop, for each name that `find` refuses."""
    by_name: dict[str, list[InstalledEntry]] = {}
    for entry in offers(group, folders):
        by_name.setdefault(entry.name, []).append(entry)
    problems = (_clash(group, name, found) for name, found in by_name.items())
    return [problem for problem in problems if problem]


def load(group: EntryGroup, entry: InstalledEntry, kind: type | None = None) -> Any:
    """Import an entry, and see that it is a ``kind``.

    Raises `EntryPointError`, which names entry and package, whatever goes wrong: an import may raise
    anything, and may even end the program. An interrupt alone goes through.
    """
    module, _, attribute = entry.target.partition(":")
    try:
        with _named_when_slow(group, entry):
            found = importlib.import_module(module)
            for part in attribute.split(".") if attribute else ():
                found = getattr(found, part)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise broken(group, entry, said(error)) from error
    if kind is not None and not isinstance(found, kind):
        reason = f"{entry.target} must be a {kind.__name__}, and is of the type {type(found).__name__}"
        raise broken(group, entry, reason)
    return found


def broken(group: EntryGroup, entry: InstalledEntry, reason: str) -> EntryPointError:
    """That an entry cannot be used, and why; for a reason that only its caller can see."""
    what = f"the {group.noun} '{entry.name}' of the package {entry.distribution}"
    return EntryPointError(f"{what} cannot be loaded ({reason}); repair that package, or remove it")


def said(error: BaseException) -> str:
    """An error of code of others in words: its type, and what it says."""
    return f"{type(error).__name__}: {error}".rstrip(".: ")


def _clash(group: EntryGroup, name: str, found: list[InstalledEntry]) -> str | None:
    packages = ", ".join(entry.distribution for entry in found)
    if found and name in group.built_in:
        return (
            f"the {group.noun} '{name}' is built in, and so named is one of another package ({packages}; "
            f"group {group.name}); remove what is not meant, or have it renamed"
        )
    if len({entry.target for entry in found}) > 1:
        return (
            f"the {group.noun} '{name}' is offered by several packages ({packages}; group {group.name}); "
            "remove those that are not meant"
        )
    return None


def _is_built_in(entry: InstalledEntry, group: EntryGroup) -> bool:
    if entry.name not in group.built_in:
        return False
    known = group.built_in.get(entry.name) if isinstance(group.built_in, Mapping) else None
    return entry.target == known or entry.distribution.lower() == OWN_PACKAGE


@contextlib.contextmanager
def _named_when_slow(group: EntryGroup, entry: InstalledEntry) -> Iterator[None]:
    """Name on standard error an import that keeps everybody waiting."""
    import threading  # noqa: PLC0415 - only who loads something needs it

    words = f"still loading the {group.noun} '{entry.name}' of the package {entry.distribution} …"
    timer = threading.Timer(SLOW_SECONDS, lambda: print(words, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
