"""Which Gym is at work: its version and, where it can be determined, its commit."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nemo_gym import __version__

DISTRIBUTION = "nemo-baton"
_GIT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Provenance:
    """Version and commit of a Gym."""

    version: str
    commit: str | None
    """The commit, ``-dirty`` appended where uncommitted changes were; ``None`` when unknown."""
    unknown_because: str | None = None
    """Why the commit is not known."""


def provenance(package: Path | None = None, direct_url: Callable[[], str | None] | None = None) -> Provenance:
    """Find version and commit of this Gym: from a git install's metadata, else from the source checkout.

    ``package`` is the folder of the installed package and ``direct_url`` returns the text of its
    ``direct_url.json`` (PEP 610) or ``None``; both are this Gym's own unless given.
    """
    commit = _installed_commit((direct_url or _direct_url)())
    if commit:
        return Provenance(__version__, commit)
    try:
        return Provenance(__version__, _checkout_commit(package or Path(__file__).resolve().parent))
    except _NotKnownError as reason:
        return Provenance(__version__, None, str(reason))


class _NotKnownError(Exception):
    """Why the commit is not known."""


def _direct_url() -> str | None:
    from importlib import metadata

    try:
        found = metadata.distribution(DISTRIBUTION)
        # a package of another place may have been imported in its stead
        if not os.path.samefile(str(found.locate_file("nemo_gym")), Path(__file__).parent):
            return None
        return found.read_text("direct_url.json")
    except (metadata.PackageNotFoundError, OSError):
        return None


def _installed_commit(text: str | None) -> str | None:
    try:
        commit = json.loads(text or "{}")["vcs_info"]["commit_id"]
    except (ValueError, KeyError, TypeError):
        return None
    return commit if isinstance(commit, str) and commit else None


def _checkout_commit(package: Path) -> str:
    """``HEAD`` of the checkout that tracks the package's folder."""
    if _git(package, "ls-files", "--error-unmatch", "__init__.py") is None:
        raise _NotKnownError("it is neither a git install nor tracked in a git checkout")
    head = _git(package, "rev-parse", "--verify", "HEAD")
    changes = _git(package, "status", "--porcelain")
    if not head or changes is None:
        raise _NotKnownError("git could not read its checkout")
    return f"{head}-dirty" if changes else head


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says there, or ``None`` when it fails; nothing is locked or changed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise _NotKnownError("git is not there to be asked") from None
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
