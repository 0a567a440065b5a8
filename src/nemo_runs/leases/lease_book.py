"""The book of leases: one file a boot of the machine, changed under a lock, and whole at any moment."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nemo_runs import file_locks
from nemo_runs.durable import disk
from nemo_runs.errors import LeaseError, RunsError
from nemo_runs.leases.lease_queue import LeaseHolder, LeaseRequest
from nemo_runs.processes import process_table, trees
from nemo_runs.processes.trees import Liveness, ProcessIdentity

_LOCK_TIMEOUT = 10.0
"""Seconds to wait for the lock, which is held for milliseconds."""
_PAUSE = 0.002
_PAGE = 4096
_PADDING = b" "
"""What a book that has become shorter ends with."""
_IN_THIS_PROCESS = threading.Lock()
"""The file lock is the process's: it keeps out other processes only."""


@dataclass(slots=True)
class Book:
    """What the book holds; change it, and it is written."""

    held: dict[str, LeaseHolder] = field(default_factory=dict)
    waiting: dict[str, tuple[LeaseRequest, ProcessIdentity]] = field(default_factory=dict)

    def drop_ended(self) -> None:
        """End the leases and requests whose processes are proven dead."""
        self.held = {name: holder for name, holder in self.held.items() if not _is_over(holder)}
        self.waiting = {name: entry for name, entry in self.waiting.items() if not _is_dead(entry[1])}


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Book]:
    """The book, for this process alone; what was changed is written at the end, unless an error comes.

    The lock is one that the kernel ends with its process and that a forked child does not inherit. Numbers of
    processes mean something within one boot and one pid namespace only: each has a book of its own.
    """
    path = folder / f"{process_table.boot_id()}.{_digits(process_table.pid_namespace())}.json"
    with _IN_THIS_PROCESS, _locked(path.with_suffix(".lock")):
        book, before = _read(path)
        yield book
        if (data := _encode(book)) != (before.rstrip(_PADDING) or _encode(Book())):
            _write(path, data, len(before))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with disk.full_disk_named(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + _LOCK_TIMEOUT
        while not file_locks.take(descriptor, wait=False, of_process=True):
            if time.monotonic() >= deadline:
                raise LeaseError(
                    f"{path}: another process has held this lock for {_LOCK_TIMEOUT:.0f} seconds"
                )
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, data: bytes, there: int) -> None:
    """Replace what the book says; ``there`` is its size before. A kill at any moment leaves the book whole.

    Within one page a single write is whole or has not begun, and costs a tenth of a new file's renaming, for
    which some file systems wait for the disk. Neither is synced: after a crash of the machine another book is
    begun.
    """
    padded = data.ljust(there, _PADDING)
    with disk.full_disk_named(path):
        if there > 0 and len(padded) <= _PAGE:
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                if os.pwrite(descriptor, padded, 0) == len(padded):
                    return
            finally:
                os.close(descriptor)
        with disk.temporary_beside(path) as temporary:
            temporary.write_bytes(data)
            temporary.replace(path)


def _is_over(holder: LeaseHolder) -> bool:
    return _is_dead(holder.identity) and not (holder.marker and trees.marked(*holder.marker))


def _is_dead(identity: ProcessIdentity) -> bool:
    # the book belongs to this machine: a process of an earlier boot has ended, whatever the host's name was
    return trees.liveness(replace(identity, host=os.uname().nodename)) is Liveness.DEAD


def _encode(book: Book) -> bytes:
    held = [_fields(holder) | {"identity": _fields(holder.identity)} for holder in book.held.values()]
    waiting = [_fields(request) | {"identity": _fields(who)} for request, who in book.waiting.values()]
    return json.dumps({"held": held, "waiting": waiting}).encode("ascii") + b"\n"


def _fields(value: LeaseHolder | LeaseRequest | ProcessIdentity) -> dict[str, Any]:
    """What `dataclasses.asdict` gives of one that holds plain values, at a tenth of its cost."""
    return {name: getattr(value, name) for name in value.__slots__}


def _read(path: Path) -> tuple[Book, bytes]:
    """The book, and the bytes of its file; those of an empty book where there is none."""
    try:
        data = path.read_bytes()
        value = json.loads(data)
        held = [_holder(entry) for entry in value["held"]]
        waiting = [_request(entry) for entry in value["waiting"]]
    except FileNotFoundError:
        return Book(), b""
    except (KeyError, TypeError, ValueError, RunsError) as error:
        raise LeaseError(
            f"{path}: is damaged ({error}); remove it when nothing of yours runs on this machine"
        ) from error
    book = Book({holder.name: holder for holder in held}, {entry[0].name: entry for entry in waiting})
    return book, data


def _holder(entry: dict[str, Any]) -> LeaseHolder:
    marker = entry["marker"]
    return LeaseHolder(
        name=str(entry["name"]),
        label=str(entry["label"]),
        devices=tuple(map(str, entry["devices"])),
        slots=int(entry["slots"]),
        since=float(entry["since"]),
        identity=ProcessIdentity.from_json(entry["identity"]),
        marker=(str(marker[0]), str(marker[1])) if marker else None,
    )


def _request(entry: dict[str, Any]) -> tuple[LeaseRequest, ProcessIdentity]:
    cap = entry["cap"]
    request = LeaseRequest(
        name=str(entry["name"]),
        label=str(entry["label"]),
        devices=int(entry["devices"]),
        slots=int(entry["slots"]),
        ticket=str(entry["ticket"]),
        cap=None if cap is None else int(cap),
    )
    return request, ProcessIdentity.from_json(entry["identity"])


def _digits(text: str) -> str:
    return "".join(character for character in text if character.isdigit()) or "0"
