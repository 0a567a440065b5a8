"""A run's log: what its command writes becomes bounded, rotated lines of JSON without secret values.

``output.jsonl`` is the newest part; a full one becomes ``output.<n>.jsonl`` and the part before that is
removed. A line is ``{"t": seconds, "s": "out" | "err", "m": text}``. Standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import select
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable
from pathlib import Path

from nemo_helix_server.storage.log_parts import part_numbers
from nemo_runs.counts import counted
from nemo_runs.durable.disk import is_full

_CHUNK = 1 << 16
LONGEST_LINE = 1 << 16
"""Bytes of one line; a longer one is cut into several."""
_SHORTEST_SECRET = 4
_SMALLEST_PART = 4096
_HIDDEN = b"***"


class Redactor:
    """Hides secret values: as they are, line by line, and as they look in JSON, addresses, base64, Python."""

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values for form in _forms(value) if len(form) >= _SHORTEST_SECRET}
        ordered = sorted((form.encode("utf-8", "surrogateescape") for form in forms), key=len, reverse=True)
        self.longest = max(map(len, ordered), default=0)
        self._pattern = re.compile(b"|".join(map(re.escape, ordered))) if ordered else None

    def __call__(self, text: bytes) -> bytes:
        """The text with every value replaced."""
        return self._pattern.sub(_HIDDEN, text) if self._pattern else text

    def safe_cut(self, text: bytes, wanted: int) -> int:
        """Where to cut a long text, at or before ``wanted``, so that no value is cut in two."""
        if self._pattern is None:
            return wanted
        start = max(0, wanted - self.longest)
        for found in self._pattern.finditer(text, start, wanted + self.longest):
            if found.start() < wanted < found.end():
                return found.start() or found.end()
        return wanted


class LineCutter:
    """Cuts one stream into lines; a line that a program draws over (``\\r``) counts as it looks last."""

    def __init__(self, redact: Redactor) -> None:
        self._redact = redact
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that are whole now."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        lines = [piece for line in whole for piece in self._pieces(line)]
        # room for a value that begins here and is not all here yet
        while len(self._rest) > LONGEST_LINE + self._redact.longest:
            cut = self._redact.safe_cut(self._rest, LONGEST_LINE)
            lines.append(self._text(self._rest[:cut]))
            self._rest = self._rest[cut:]
        return lines

    def close(self) -> list[str]:
        """What is left without a newline."""
        rest, self._rest = self._rest, b""
        return list(self._pieces(rest)) if rest else []

    def _pieces(self, line: bytes) -> Iterable[str]:
        line = self._redact(line)
        for start in range(0, len(line) or 1, LONGEST_LINE):
            yield self._text(line[start : start + LONGEST_LINE])

    def _text(self, line: bytes) -> str:
        shown = self._redact(line).rstrip(b"\r")
        return shown[shown.rfind(b"\r") + 1 :].decode("utf-8", "replace")


class Log:
    """The file of lines; a full disk loses lines and says so, it never stops the command."""

    def __init__(self, path: Path, *, limit: int, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._part = max(limit // 2, _SMALLEST_PART)
        self._clock = clock
        self._descriptor = self._open()
        self._size = os.fstat(self._descriptor).st_size
        self._lost = 0
        self.is_full = False
        """Whether the last lines were lost since the disk is full."""

    def write(self, stream: str, lines: list[str]) -> None:
        """Append lines."""
        if not lines:
            return
        now = round(self._clock(), 6)
        if self._lost:
            note = (
                f"{counted(self._lost, 'line before this one is', 'lines before this one are')} "
                "lost: the disk was full"
            )
            lines, before = [note, *lines], self._lost
            self._lost = 0
            if not self._append(stream, lines, now):
                self._lost += before - 1
            return
        self._append(stream, lines, now)

    def close(self) -> None:
        """Make the lines durable as far as the disk can."""
        try:
            if self._size:
                os.fdatasync(self._descriptor)
        except OSError:
            pass
        finally:
            os.close(self._descriptor)

    def _append(self, stream: str, lines: list[str], now: float) -> bool:
        rows = [json.dumps({"t": now, "s": stream, "m": line}).encode("ascii") + b"\n" for line in lines]
        data = b"".join(rows)
        if self._size and self._size + len(data) > self._part:
            self._rotate()
        try:
            written = os.write(self._descriptor, data)
        except OSError as error:
            written, self.is_full = 0, is_full(error)
        if written != len(data):
            self.is_full = self.is_full or written > 0
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            self._lost += len(lines)
            return False
        self._size += written
        self.is_full = False
        return True

    def _rotate(self) -> None:
        # the command may have done anything to its folder; whatever it did, it must not wait for its log
        if self._size > 2 * self._part:  # a part that cannot be put aside must not grow for ever
            self._size = 0
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
        with contextlib.suppress(OSError):
            numbers = part_numbers(self._path.parent)
            self._path.rename(self._path.with_name(f"output.{max(numbers, default=0) + 1}.jsonl"))
            descriptor = self._open()
            os.close(self._descriptor)
            self._descriptor, self._size = descriptor, 0
            for number in numbers:
                self._path.with_name(f"output.{number}.jsonl").unlink(missing_ok=True)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(self._path, flags, 0o600)


class Pump(threading.Thread):
    """Reads a command's two pipes into its log until both are closed, or `finish` was called.

    Where it was not started by then, `finish` reads what there is in the caller's thread.
    """

    def __init__(self, log: Log, redact: Redactor, streams: dict[int, str]) -> None:
        super().__init__(name="output", daemon=True)
        self._log = log
        self._streams = {descriptor: (name, LineCutter(redact)) for descriptor, name in streams.items()}
        self._finishing = threading.Event()
        self._give_up_at = float("inf")

    def run(self) -> None:
        """Read to the end."""
        poll = select.poll()
        for descriptor in self._streams:
            os.set_blocking(descriptor, False)
            poll.register(descriptor, select.POLLIN)
        left = set(self._streams)
        while left:
            ready = poll.poll(0 if self._finishing.is_set() else 500)
            if self._finishing.is_set() and (not ready or time.monotonic() >= self._give_up_at):
                break
            for descriptor, _ in ready:
                if not self._read(descriptor):
                    poll.unregister(descriptor)
                    left.discard(descriptor)
        for name, lines in self._streams.values():
            self._log.write(name, lines.close())
        self._log.close()

    def finish(self, timeout: float) -> None:
        """The command and all it started have ended: read what is left, for ``timeout`` seconds at most."""
        self._give_up_at = time.monotonic() + timeout
        self._finishing.set()
        if self.ident is None:
            self.run()
        else:
            self.join(timeout)

    def _read(self, descriptor: int) -> bool:
        name, lines = self._streams[descriptor]
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._log.write(name, lines.feed(data))
        return bool(data)


def _forms(value: str) -> Iterable[str]:
    yield value
    yield repr(value)[1:-1]
    data = value.encode("utf-8", "surrogateescape")
    yield base64.b64encode(data).decode("ascii")
    yield from (urllib.parse.quote(data, safe=safe) for safe in ("", "/"))
    yield urllib.parse.quote_plus(data)
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield from value.splitlines()
