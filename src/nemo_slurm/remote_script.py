"""Scripts for other machines: files that shellcheck reads, with their values quoted in front of them.

A script is ``<package>/remote/<name>.sh``. It says in its first lines which values it needs. It travels, as
every script does, by standard input alone (`nemo_slurm.channel`).
"""

from __future__ import annotations

import pkgutil
import re
import shlex
from collections.abc import Sequence

from nemo_slurm.channel import FileQuery
from nemo_slurm.errors import UnusableValueError

Value = str | int | Sequence[str | int]
"""A word, a number, or an array of them."""
_NAME = re.compile(r"[a-z_]+")


def remote_script(package: str, name: str, /, **values: Value) -> str:
    """The script ``name`` of a package, with its values as variables of bash.

    Raises `FileNotFoundError` without such a script, `UnusableValueError` for a value with a zero byte.
    """
    return quoted_header(**values) + script_text(package, name)


def script_text(package: str, name: str) -> str:
    """A script without any values."""
    text = pkgutil.get_data(package, f"remote/{name}.sh")
    assert text is not None
    return text.decode()


def quoted_header(**values: Value) -> str:
    """One assignment per line."""
    return "".join(f"{name}={_quoted(name, value)}\n" for name, value in values.items())


def missing_paths(host: FileQuery, paths: Sequence[str], *, test: str = "-e") -> list[int]:
    """The positions in ``paths`` of those that are not there; with ``-f``, that are not files."""
    if not paths:
        return []
    script = remote_script("nemo_slurm", "missing_paths", test=test, paths=paths)
    return [int(line) for line in host.run(script, timeout=60).stdout.split()]


def _quoted(name: str, value: Value) -> str:
    if _NAME.fullmatch(name) is None:
        raise UnusableValueError(f"{name!r} is not the name of a script's value")
    if not isinstance(value, str | int):
        return f"({' '.join(_word(each) for each in value)})"
    return _word(value)


def _word(value: str | int) -> str:
    text = str(value)
    if "\0" in text:
        raise UnusableValueError("a zero byte cannot be part of a script's value")
    return shlex.quote(text)
