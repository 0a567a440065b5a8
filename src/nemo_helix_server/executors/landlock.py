"""Keeping a process, and whatever it starts, to some folders of this machine: Linux's Landlock.

What is not named cannot be opened, neither by its path nor through ``/proc`` of another process, and nobody
can leave again. A process of root loses its capabilities, too, since some of them lead around any path.
Standard library only: the shim of a run loads this without any installed package.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OLDEST = 2
"""The first version of Landlock in which files can be moved between folders."""
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_LAST_CAPABILITY = 63
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _REFER, _TRUNCATE = 1 << 6, 1 << 11, 1 << 13, 1 << 14
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE
_SCOPES = 0b11
"""No signals to, and no abstract sockets of, processes outside; from version 6 on."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_PROGRAM = (
    "import json, os, sys; sys.path.insert(0, sys.argv[1]); "
    "from nemo_helix_server.executors.landlock import FileAccess, confine; "
    "confine(FileAccess.from_json(json.loads(sys.argv[2]))); os.execvp(sys.argv[3], sys.argv[3:])"
)


class ConfinementError(OSError):
    """The kernel cannot keep a process to some folders."""


@dataclass(frozen=True, slots=True)
class FileAccess:
    """The files and folders that a process can use, with everything in them."""

    read: tuple[str, ...]
    """To be read, and to be run."""
    write: tuple[str, ...]
    """To be changed, too."""

    def to_json(self) -> dict[str, list[str]]:
        """For an order."""
        return {"read": list(self.read), "write": list(self.write)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FileAccess:
        """What `to_json` gave."""
        return cls(tuple(value["read"]), tuple(value["write"]))


def version() -> int:
    """The kernel's version of Landlock; 0 where there is none."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))))


def confine(file_access: FileAccess) -> None:
    """Keep this process, which has one thread, to these folders until it ends; raises `ConfinementError`."""
    found = version()
    if found < OLDEST:
        raise ConfinementError(f"this kernel has version {found} of Landlock; {OLDEST} or later is needed")
    handled = (1 << 16 if found >= 5 else 1 << 15 if found >= 3 else 1 << 14) - 1
    handled &= ~(1 << 15)  # commands to devices: those that can be opened may be used
    attributes = struct.pack("=QQQ", handled, 0, _SCOPES if found >= 6 else 0)
    size = 24 if found >= 6 else 16 if found >= 4 else 8
    ruleset = _checked(_LIBC.syscall(_CREATE_RULESET, attributes[:size], ctypes.c_size_t(size), 0))
    made = handled & ~(_MAKE_CHAR | _MAKE_BLOCK)
    for paths, allowed in ((file_access.read, _READ), (file_access.write, made)):
        for path in paths:
            with contextlib.suppress(FileNotFoundError, PermissionError, NotADirectoryError):
                _allow(ruleset, path, allowed & handled)
    _checked(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if os.geteuid() == 0:
        for capability in range(_LAST_CAPABILITY + 1):
            _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _checked(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def confined(argv: Sequence[str], file_access: FileAccess) -> list[str]:
    """The command that keeps itself to these folders, and then becomes ``argv``."""
    given = [str(Path(__file__).parents[2]), json.dumps(file_access.to_json())]
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, *given, *argv]


def all_but(hidden: Iterable[Path], root: Path = Path("/")) -> Iterator[str]:
    """Everything below a folder except what is hidden: its own entries where something in it is."""
    known = frozenset(hidden)
    ancestors = frozenset(parent for path in known for parent in path.parents)
    waiting = [root]
    while waiting:
        path = waiting.pop()
        if path in known:
            continue
        if path not in ancestors:
            yield str(path)
            continue
        with contextlib.suppress(OSError):
            waiting.extend(entry for entry in path.iterdir() if not entry.is_symlink())


def _allow(ruleset: int, path: str, allowed: int) -> None:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            allowed &= _OF_FILES
        rule = struct.pack("=Qi", allowed, opened)
        _checked(_LIBC.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
    finally:
        os.close(opened)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise ConfinementError(number, os.strerror(number))
    return result
