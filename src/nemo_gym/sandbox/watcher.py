"""Holding the trees of processes that sandboxes start to their limits: one thread looks at all of them.

It is a thread, so that a busy event loop delays no limit. Between two looks a program may go beyond a limit;
where the kernel bounds it (`nemo_gym.sandbox.cgroups`, and the number of processes everywhere) it does not.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nemo_gym.sandbox import folders, usage
from nemo_gym.sandbox.protocol import LimitName, Limits
from nemo_runs.processes import process_table

_PAUSE = 0.02
"""Seconds between two looks."""
_SHARE_OF_TIME = 10
"""A look at files comes no sooner than so many times what the last one took."""
_FILES_PAUSE = 0.1


def _cannot() -> None:
    """Before it is known how a tree is ended."""


@dataclass(eq=False, slots=True)
class WatchedTree:
    """One program with all that it starts."""

    root: int
    """The number of the process that was started."""
    limits: Limits
    folder: Path
    """What is below it counts as the program's disk space."""
    kill: Callable[[], None] = _cannot
    """Ends all of it, and never another process; called from the thread."""
    overhead: int = 0
    """Processes of the tree that are the sandbox's own."""
    exceeded: Callable[[], LimitName | None] | None = None
    """Says which limit the kernel has enforced, where it enforces any."""
    started: float = field(default_factory=time.monotonic)
    limit: LimitName | None = None
    """What it went beyond."""
    failure: str = ""
    """Why its limits could not be watched; it was ended then."""
    _files_at: float = 0.0

    def end(self, limit: LimitName) -> None:
        """End it because of a limit; the first one counts."""
        if self.limit is None:
            self.limit = limit
        self.kill()

    def look(self) -> None:
        """Compare what it takes with its limits."""
        now = time.monotonic()
        if now - self.started >= self.limits.seconds:
            self.end("seconds")
            return
        if self.exceeded is not None and (limit := self.exceeded()):
            self.end(limit)
            return
        pids = [self.root, *process_table.descendants_of(self.root)]
        self._look_at_processes(pids)
        if self.limit is None and now >= self._files_at:
            if self.is_disk_full(pids):
                self.end("disk")
            done = time.monotonic()
            self._files_at = done + max(_FILES_PAUSE, _SHARE_OF_TIME * (done - now))

    def is_disk_full(self, pids: Sequence[int] = ()) -> bool:
        """Whether files take more than they may, also those that these processes have open without a name."""
        used = folders.used_bytes(self.folder, beyond=self.limits.disk_bytes)
        return used + usage.nameless_bytes(pids) > self.limits.disk_bytes

    def _look_at_processes(self, pids: list[int]) -> None:
        memory = tasks = 0
        for pid in pids:
            bytes_here, tasks_here = usage.memory_and_tasks(pid)
            memory += bytes_here
            tasks += tasks_here
        if tasks - self.overhead > self.limits.processes:
            self.end("processes")
        # to count pages that forked processes share only once takes longer
        elif (
            memory > self.limits.memory_bytes
            and sum(map(usage.share_of_memory, pids)) > self.limits.memory_bytes
        ):
            self.end("memory")


class TreeWatcher:
    """The thread, and the trees that it looks at."""

    def __init__(self) -> None:
        self._trees: set[WatchedTree] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, tree: WatchedTree) -> None:
        """Hold a tree to its limits from now on."""
        with self._changed:
            self._trees.add(tree)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="sandbox-limits", daemon=True)
                self._thread.start()
            self._changed.notify()

    def forget(self, tree: WatchedTree) -> None:
        """Look at a tree no more; a look that has begun may still end it."""
        with self._changed:
            self._trees.discard(tree)

    def _watch(self) -> None:
        while True:
            with self._changed:
                while not self._trees:
                    self._changed.wait()
                trees = list(self._trees)
            for tree in trees:
                try:
                    tree.look()
                except OSError:
                    continue  # it ended while it was looked at
                except Exception as error:  # noqa: BLE001 - the other trees must keep their limits
                    tree.failure = f"its limits could not be watched: {error!r}"
                    with contextlib.suppress(Exception):
                        tree.kill()
            time.sleep(_PAUSE)


WATCHER = TreeWatcher()
"""The one of this process."""
