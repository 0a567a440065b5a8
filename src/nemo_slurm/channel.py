"""The channel to a host: a script and its values go in by standard input, marks frame what comes out."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping
from typing import IO, Protocol

from nemo_slurm.errors import SlurmError, UnusableValueError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class FileQuery(Protocol):
    """What a look at a host's files needs of it."""

    @property
    def label(self) -> str:
        """For messages."""
        ...

    def run(self, script: str, *, timeout: float) -> Ran:
        """Run a script, for ``timeout`` seconds at most; raises `NotReachableError`."""
        ...


class Channel(FileQuery, Protocol):
    """What a copy needs of a host."""

    def start(self) -> subprocess.Popen[bytes]:
        """Start the program that reads a script."""
        ...

    def argv(self) -> list[str]:
        """That program."""
        ...

    def finish(
        self, process: subprocess.Popen[bytes], feed: Callable[[IO[bytes]], None], mark: str, timeout: float
    ) -> tuple[int, bytes, str]:
        """Feed a started program and unwrap what it printed within ``timeout`` seconds."""
        ...

    def explain(self, status: int, text: str) -> SlurmError:
        """The error for a program that ended before its script began."""
        ...


class Ran(Protocol):
    """How a script ended."""

    @property
    def status(self) -> int:
        """Its exit status."""
        ...

    @property
    def stdout(self) -> str:
        """What it printed."""
        ...

    @property
    def stderr(self) -> str:
        """What it complained of."""
        ...


def wrap(script: str, env: Mapping[str, str], mark: str) -> bytes:
    """What is fed to ``bash -s``; the script's own input is what follows these bytes, as descriptor 3."""
    for name in env:
        if not _VARIABLE.fullmatch(name):
            raise UnusableValueError(f"{name!r} is not the name of an environment variable")
    if "\0" in script or any("\0" in value for value in env.values()):
        raise UnusableValueError("a zero byte cannot be part of a command or of an environment")
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())
    # bash parses the whole group before it runs any of it, and not one byte more than that
    text = (
        f"{{ printf '%s begin\\n' {mark}; printf '%s begin\\n' {mark} >&2\n"
        f"(\n{exports}eval {shlex.quote(script)}\n) 3<&0 </dev/null\n"
        f"printf '\\n%s end %d\\n' {mark} $?; exit; }}\n"
    )
    return text.encode("utf-8", "surrogateescape")


def new_mark() -> str:
    """A word that no output holds by accident."""
    return f"ng-{secrets.token_hex(8)}"


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a program of `BashHost.start`, with everything that it started unless it ended by itself."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def says_full(text: str) -> bool:
    """Whether a program said that what it was to write did not fit."""
    return any(said in text for said in ("No space left on device", "Disk quota exceeded"))


def reason_line(text: str) -> str:
    """The line by which a program says why it does not run: the last of a traceback, otherwise its first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    return lines[-1] if "Traceback (most recent call last):" in lines else lines[0]


def tail(text: str) -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
