"""What single values of a submit config may be: names, durations, mounts, environments."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from nemo_runs.durations import parse_duration
from nemo_runs.errors import RunsError
from nemo_runs.secret_refs import VARIABLE, parse_reference


def _checked_env(env: dict[str, str]) -> dict[str, str]:
    for key, value in env.items():
        if not re.fullmatch(VARIABLE, key):
            message = (
                f"'{key}' is not a name of a variable: letters, digits and _, not beginning with a digit"
            )
            raise ValueError(message)
        try:
            parse_reference(value, where=key)
        except RunsError as error:
            raise ValueError(str(error)) from error
    return env


def _checked_duration(value: str | int | None) -> str | int | None:
    if value is not None:
        try:
            parse_duration(value, where="the duration")
        except RunsError as error:
            raise ValueError(str(error)) from error
    return value


def _checked_mounts(mounts: list[str]) -> list[str]:
    for mount in mounts:
        source, *rest = mount.split(":")
        if len(rest) > 2 or not all(PurePosixPath(path).is_absolute() for path in (source, *rest[:1])):
            message = f"'{mount}' is not a mount: src, src:dst or src:dst:flags, with absolute paths"
            raise ValueError(message)
    return mounts


_LONGEST_NAME = 128


def checked_name(name: str) -> str:
    """A name that may become a file's or a folder's. Raises `ValueError` that says what it must be."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
        message = (
            f"'{name}' is not a name here: letters, digits, '.', '_', '-', and neither '.' nor '-' first"
        )
        raise ValueError(message)
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"is longer than {_LONGEST_NAME} letters; it becomes part of file names")
    return name


Env = Annotated[dict[str, str], AfterValidator(_checked_env)]
"""Variable -> ``lit:TEXT``, ``host:VAR``, ``runtime:VAR`` or a literal."""
Duration = Annotated[str | int | None, AfterValidator(_checked_duration)]
"""``MM``, ``MM:SS``, ``HH:MM:SS``, ``D-HH``, ``D-HH:MM``, ``D-HH:MM:SS``; a whole number is minutes."""
Mounts = Annotated[list[str], AfterValidator(_checked_mounts)]
Name = Annotated[str, AfterValidator(checked_name)]
"""Becomes a file's or a folder's name."""
Port = Annotated[int, Field(ge=1, le=65535)]
LARGEST: Final = (1 << 31) - 1
"""The largest whole number of a submit file: shells and Slurm count further ones wrongly, without a word."""
Count = Annotated[int, Field(ge=1, le=LARGEST)]
Index = Annotated[int, Field(ge=0, le=LARGEST)]
Text = Annotated[str, Field(min_length=1)]
