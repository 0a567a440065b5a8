"""Requests as they come. Standard library only."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator
from typing import IO


def lines_while_asked(file: IO[str]) -> Iterator[str]:
    """Lines as they come. The process ends with its input, whatever it is busy with: nobody waits for it."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in file:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True, name="requests").start()
    while True:
        yield lines.get()
