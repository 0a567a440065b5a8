"""Where a user's own files are, also for a user without a home: in a container, or on a compute node."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path


def home(environ: Mapping[str, str]) -> Path:
    """The home folder: ``HOME`` where it is a whole path, else the account's, else ``/``."""
    named = environ.get("HOME", "")
    if named.startswith("/"):
        return Path(named)
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path("/")


def lost_folder(error: OSError) -> str:
    """A sentence for an error that comes of a current folder which was removed; else an empty text."""
    if not isinstance(error, FileNotFoundError) or error.filename:
        return ""
    try:
        os.getcwd()
    except OSError:
        return "the current folder is not there any more; change to another one."
    return ""


def base(variable: str, fallback: str, environ: Mapping[str, str]) -> Path:
    """A base folder of the XDG specification; a relative value is invalid there and counts as unset."""
    named = environ.get(variable, "")
    return Path(named) if named.startswith("/") else home(environ) / fallback
