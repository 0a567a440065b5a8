"""Where the folders of sessions are, so that none outlives the process that opened it.

Each process has one folder for its sessions. A shell waits beside it; when the process is gone, however it
went, the shell removes the folder and ends the programs that the kernel has not ended. Where the shell was
ended with it, the next process that opens a sandbox here removes the folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import uuid
import weakref
from pathlib import Path

from nemo_gym.sandbox import folders
from nemo_runs import file_locks

_PREFIX = "gym-sandbox-"
_LOCK = "owner.lock"
MARKER = "GYM_SANDBOX_PROGRAM"
"""The environment variable by which what a program has started is found where the kernel does not end it."""
_AT_THE_END = Path(__file__).with_name("remove_when_gone.sh")
"""Waits until this process is gone; then ends what carries its mark and removes its folder."""


class Scratch:
    """The folder of this process's sessions."""

    def __init__(self, base: Path | None = None) -> None:
        """``base``: the folder that it is made in; by default the system's for temporary files."""
        parent = Path(tempfile.gettempdir()) if base is None else base
        _sweep(parent)
        # it gets the name by which others find it once it is locked, so that none of them removes it
        made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=parent))
        lock = file_locks.acquire(made / _LOCK)
        self._folder = made.rename(parent / made.name.removeprefix("."))
        remover = subprocess.Popen(
            ["/bin/sh", str(_AT_THE_END), str(self._folder), MARKER, self._folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath},
            start_new_session=True,
        )
        self.close = weakref.finalize(self, _close, self._folder, lock, remover)
        """Remove it with all that is in it; done at the end of this process at the latest."""

    def new_folder(self) -> Path:
        """A folder for one session, empty."""
        folder = self._folder / uuid.uuid4().hex
        folder.mkdir(0o700)
        return folder


_lock = threading.Lock()
_of_process: dict[int, Scratch] = {}


def mark_for(session_folder: Path) -> str:
    """A value of `MARKER` for one program of the session with this folder."""
    return f"{session_folder.parent.name}.{uuid.uuid4().hex}"


def of_this_process() -> Scratch:
    """The one that all sessions of this process share."""
    with _lock:
        found = _of_process.get(os.getpid())
        if found is None or not found.close.alive:
            found = _of_process[os.getpid()] = Scratch()
        return found


def _close(folder: Path, lock: int | None, remover: subprocess.Popen[bytes]) -> None:
    folders.remove(folder)
    if lock is not None:
        os.close(lock)
    assert remover.stdin is not None
    remover.stdin.close()
    remover.wait()


def _sweep(parent: Path) -> None:
    """Remove the folders here of processes of this user that are gone."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            if (folder / _LOCK).exists() and not file_locks.is_held(folder / _LOCK):
                folders.remove(folder)


def program(name: str) -> str | None:
    """Where a program is that a sandbox needs, on the search path or in the usual folders."""
    return shutil.which(name) or shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin")
