"""Hosts on which commands are run: this machine, or another one over ssh. One meaning for both.

A script and the values it needs travel through standard input alone, never through an argument list, where
everybody on the machine could read them. What a site prints around a command (banners, messages of the day,
chatty shell files) is separated from the command's own output by marks.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import socket
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

from nemo_slurm import transfer
from nemo_slurm.channel import end_group, new_mark, says_full, tail, wrap
from nemo_slurm.errors import (
    CommandFailedError,
    NoSuchPathError,
    NotReachableError,
    SlurmError,
    StorageFullError,
    UnusableValueError,
)
from nemo_slurm.remote_script import quoted_header, remote_script
from nemo_slurm.transfer import Expect, Wanted, everything, nothing


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended. Bytes that are not UTF-8 are kept as surrogates, as Python does for file names."""

    status: int
    stdout: str
    stderr: str


class Host(Protocol):
    """Runs bash scripts and moves files. Every implementation passes ``tests/contracts/test_hosts.py``.

    All paths on the host are absolute. Every method raises `NotReachableError` when the host does not answer
    within its time, `LoginNeededError` when it wants a person.
    """

    @property
    def name(self) -> str | None:
        """As the user wrote it; `None` for this machine."""
        ...

    @property
    def label(self) -> str:
        """For messages: the name, or "this machine"."""
        ...

    def run(self, script: str, *, env: Mapping[str, str] | None = None, timeout: float = 60) -> Completed:
        """Run a script with bash for at most ``timeout`` seconds, ``env`` exported to it, its input empty.

        A status other than 0 is the caller's to judge. After a timeout the command may still be running
        there.
        """
        ...

    def copy_in(self, local: Path, remote: str) -> None:
        """Copy a file or folder to a name that is not there yet, missing parents made, permissions kept.

        Times are those of the copy, by the host's clock.
        The name appears only when everything is there. Raises `PathExistsError`; nothing is ever overwritten.
        """
        ...

    def copy_out(
        self,
        remote: str,
        local: Path,
        *,
        wanted: Wanted = everything,
        expect: Expect = nothing,
        through: Sequence[str] = (),
    ) -> list[Path]:
        """Copy a folder's files into ``local`` and return those that were new or had changed.

        ``wanted`` says of a path relative to the folder whether to copy it; ``expect`` gets the files
        before any of them arrives. Links are left out, but for those to folders among ``through``, which are
        relative paths. A copy that broke off is taken up where it stopped; a file appears under its name only
        when it is whole. Nothing is removed. Raises `ChangedError` when a file changes while it is copied.
        """
        ...

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Bytes of a file. Raises `NoSuchPathError`."""
        ...

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a small file whole or not at all, in the place of one that is there."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is anything of that name (a link that leads nowhere counts)."""
        ...

    def close(self) -> None:
        """Close our own connection."""
        ...


class BashHost(ABC):
    """What all hosts share: everything is a script for one ``bash -s`` somewhere."""

    name: str | None = None

    @property
    def label(self) -> str:
        """See `Host.label`."""
        return self.name or "this machine"

    def run(self, script: str, *, env: Mapping[str, str] | None = None, timeout: float = 60) -> Completed:
        """See `Host.run`."""
        status, stdout, stderr = self._exchange(script, env=env or {}, timeout=timeout)
        return Completed(status, stdout.decode("utf-8", "surrogateescape"), stderr)

    def copy_in(self, local: Path, remote: str) -> None:
        """See `Host.copy_in`."""
        transfer.copy_in(self, local, _absolute(remote))

    def copy_out(
        self,
        remote: str,
        local: Path,
        *,
        wanted: Wanted = everything,
        expect: Expect = nothing,
        through: Sequence[str] = (),
    ) -> list[Path]:
        """See `Host.copy_out`."""
        return transfer.copy_out(self, _absolute(remote), local, wanted, expect=expect, through=through)

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """See `Host.read`."""
        cut = "" if limit is None else limit
        script = remote_script("nemo_slurm", "read", path=_absolute(path), offset=offset, limit=cut)
        status, data, text = self._exchange(script, env={}, timeout=120)
        if status == 44:
            raise NoSuchPathError(f"{path}: no such file on {self.label}")
        if status:
            raise CommandFailedError(["reading a file"], status, text, where=self.label)
        return data

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """See `Host.write`."""
        folder = posixpath.dirname(_absolute(path))
        script = remote_script("nemo_slurm", "write", path=path, folder=folder, mode=f"{mode:o}")
        status, _, text = self._exchange(script, env={}, timeout=60, data=data)
        if status and says_full(text):
            raise StorageFullError(text, where=self.label, path=path)
        if status:
            raise CommandFailedError(["writing a file"], status, text, where=self.label)

    def exists(self, path: str) -> bool:
        """See `Host.exists`."""
        return self.run(quoted_header(path=_absolute(path)) + '[ -e "$path" ] || [ -L "$path" ]').status == 0

    def close(self) -> None:  # noqa: B027 - most hosts hold nothing that must be let go
        """See `Host.close`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def argv(self) -> list[str]:
        """The program that reads a script from its standard input and runs it there."""

    def explain(self, status: int, text: str) -> SlurmError:
        """The error for a program that ended before the script had begun; ``text`` is its standard error."""
        return CommandFailedError(["bash"], status, text, where=self.label)

    def _exchange(
        self, script: str, *, env: Mapping[str, str], timeout: float, data: bytes = b""
    ) -> tuple[int, bytes, str]:
        mark = new_mark()
        sent = wrap(script, env, mark) + data
        return self.finish(self.start(), lambda stream: _write(stream, sent), mark, timeout)

    def finish(
        self, process: subprocess.Popen[bytes], feed: Callable[[IO[bytes]], None], mark: str, timeout: float
    ) -> tuple[int, bytes, str]:
        """Let ``feed`` write what the program reads, then unwrap what it printed; ``timeout`` in seconds."""
        stdin, process.stdin = process.stdin, None
        feeder = threading.Thread(target=_feed, args=(stdin, feed), daemon=True)
        feeder.start()
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            message = f"{self.label} gave no answer within {timeout:g} s"
            raise NotReachableError(f"{message}; whether it did what was asked is not known") from None
        finally:
            end_group(process)
            feeder.join()
        return self.unwrap(process.returncode, stdout, stderr, mark)

    def start(self) -> subprocess.Popen[bytes]:
        """Start the program, in a session of its own so that it can be ended with all that it started."""
        pipe = subprocess.PIPE
        return subprocess.Popen(self.argv(), stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)

    def unwrap(self, status: int, stdout: bytes, stderr: bytes, mark: str) -> tuple[int, bytes, str]:
        """Status, output and errors of the script itself, without what was printed around it."""
        begin, end = f"{mark} begin\n".encode(), re.compile(f"\n{mark} end ([0-9]+)\n".encode())
        text = stderr.decode("utf-8", "replace")
        _, began, output = stdout.partition(begin)
        if not began and f"{mark} begin\n" not in text:
            raise self.explain(status, text)
        own = text.split(f"{mark} begin\n", 1)[-1]
        last = end.search(output)
        if last is None:
            raise broken(self.label, tail(own))
        return int(last[1]), output[: last.start()], own


class LocalHost(BashHost):
    """This machine."""

    def argv(self) -> list[str]:
        """See `BashHost.argv`."""
        return ["bash", "-s"]


def broken(label: str, said: str) -> NotReachableError:
    """The error for a connection that was lost while a command may have been running."""
    message = f"the connection to {label} broke before the command ended; whether it did is not known"
    return NotReachableError(f"{message} ({said})" if said else message)


def is_this_machine(hostname: str | None) -> bool:
    """Whether a ``hostname`` of a configuration means the machine that this runs on."""
    if hostname is None or hostname == "localhost":
        return True
    own = socket.gethostname()
    return hostname in {own, own.split(".")[0]} or (
        hostname.startswith(f"{own}.") and hostname == socket.getfqdn()
    )


def _feed(stdin: IO[bytes] | None, feed: Callable[[IO[bytes]], None]) -> None:
    if stdin is None:
        return
    # the reader may have ended already: its status says why
    with contextlib.suppress(OSError, ValueError):
        feed(stdin)
    with contextlib.suppress(OSError):
        stdin.close()


def _write(stream: IO[bytes], data: bytes) -> None:
    stream.write(data)


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise UnusableValueError(f"{path!r} is not an absolute path")
    return path
