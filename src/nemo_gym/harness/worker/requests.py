"""Requests as they come. Standard library only."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator


def lines_while_asked() -> Iterator[str]:
    """Lines of standard input as they come. The process ends with it, whatever it is busy with: nobody waits.

    From then on standard input is empty for everything else. A thread waits in the stream that is read here,
    and a process that is forked meanwhile, as `multiprocessing` does, closes ``sys.stdin`` first: with the
    same stream it would wait for that thread forever.
    """
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in requests:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True, name="requests").start()
    while True:
        yield lines.get()
