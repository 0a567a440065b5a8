"""Threads for work that may never return, such as a connection that gives no answer.

The end of a process waits for all threads of `concurrent.futures.ThreadPoolExecutor`, for these it does not.
Their work must bear that, as it must bear the sudden end of the process.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

Result = TypeVar("Result")


class DaemonThreads(Executor):
    """At most so many threads, each begun when no other is free; safe for all threads."""

    def __init__(self, number: int, name: str) -> None:
        self._number = number
        self._name = name
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._free = 0
        self._threads: list[threading.Thread] = []
        self._over = False

    def submit(self, function: Callable[..., Result], /, *args: Any, **more: Any) -> Future[Result]:
        """See `concurrent.futures.Executor.submit`."""
        future: Future[Result] = Future()
        with self._lock:
            if self._over:
                raise RuntimeError("no work is taken any more")
            self._work.put((future, lambda: function(*args, **more)))
            if self._free:
                self._free -= 1
            elif len(self._threads) < self._number:
                name = f"{self._name} {len(self._threads) + 1}"
                self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
                self._threads[-1].start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See `concurrent.futures.Executor.shutdown`."""
        with self._lock:
            self._over = True
            if cancel_futures:
                with contextlib.suppress(queue.Empty):
                    while True:
                        left = self._work.get_nowait()
                        if left is not None:
                            left[0].cancel()
            for _ in self._threads:
                self._work.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            future, work = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - the future raises it
                    future.set_exception(error)
            with self._lock:
                self._free += 1
