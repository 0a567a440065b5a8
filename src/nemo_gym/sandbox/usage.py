"""What processes take of memory and disk, as the kernel says it, whatever they do to hide it.

A process is read through a thread of it that lives: of one whose first thread has ended the kernel shows
neither memory nor files there. Threads may have descriptors of their own, and a mapped file needs none.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_PROC = Path("/proc")
_BLOCK = 512
"""Bytes of one block as `os.stat` counts them."""
_OF_MEMORY = (b"/memfd:", b"/dev/zero", b"/SYSV")
"""How the names of mapped files begin that are memory: what is in use of them counts as memory."""
_DELETED = b" (deleted)"


def memory_and_tasks(pid: int) -> tuple[int, int]:
    """Bytes of memory in use that no file backs, and threads; nothing of one that has ended."""
    memory, tasks = _memory_and_tasks(_status(pid))
    if memory is None and tasks > 1:
        found = (_memory_and_tasks(_status(thread))[0] for thread in _threads(pid))
        memory = next((some for some in found if some is not None), None)
    return memory or 0, tasks


def share_of_memory(pid: int) -> int:
    """Bytes of memory that no file backs, each page divided by the number of processes that have it."""
    for thread in (pid, *_threads(pid)):
        with contextlib.suppress(OSError):
            lines = (_PROC / str(thread) / "smaps_rollup").read_bytes().splitlines()
            shares = [
                int(line.split()[1]) * 1024
                for line in lines
                if line.startswith((b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:"))
            ]
            if shares:
                return sum(shares)
    return memory_and_tasks(pid)[0]


def nameless_bytes(pids: Iterable[int]) -> int:
    """What the files without a name take that processes have open or mapped: deleted ones, files in memory.

    A file that several of them have counts once.
    """
    found: dict[tuple[int, int], int] = {}
    mapped: dict[tuple[bytes, bytes, bytes], int] = {}
    for pid in pids:
        for thread in _threads(pid):
            with contextlib.suppress(OSError), os.scandir(_PROC / str(thread) / "fd") as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        _add(found, entry.stat())
        _add_mapped(pid, found, mapped)
    return sum(found.values()) + sum(mapped.values())


def _add(found: dict[tuple[int, int], int], status: os.stat_result) -> None:
    if status.st_nlink == 0:
        found[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK


def _add_mapped(
    pid: int, found: dict[tuple[int, int], int], mapped: dict[tuple[bytes, bytes, bytes], int]
) -> None:
    """Add the deleted files that a process has mapped; where their size may not be asked, the mapped part."""
    for thread in (pid, *_threads(pid)):
        try:
            lines = (_PROC / str(thread) / "maps").read_bytes().splitlines()
        except OSError:
            continue
        for line in lines:
            if not line.endswith(_DELETED):
                continue
            span, _, offset, device, inode, name = line.split(maxsplit=5)
            try:
                _add(found, os.stat(_PROC / str(thread) / "map_files" / span.decode()))
            except OSError:
                if not name.startswith(_OF_MEMORY):
                    first, last = span.split(b"-")
                    mapped[device, inode, offset] = int(last, 16) - int(first, 16)
        if lines:
            return


def _memory_and_tasks(status: list[bytes]) -> tuple[int | None, int]:
    memory, tasks = None, 0
    with contextlib.suppress(ValueError, IndexError):
        for line in status:
            if line.startswith((b"RssAnon:", b"RssShmem:", b"VmSwap:")):
                memory = (memory or 0) + int(line.split()[1]) * 1024
            elif line.startswith(b"Threads:"):
                tasks = int(line.split()[1])
    return memory, tasks


def _status(thread: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        return (_PROC / str(thread) / "status").read_bytes().splitlines()
    return []


def _threads(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from map(int, os.listdir(_PROC / str(pid) / "task"))
