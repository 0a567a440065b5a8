"""Answers that are read piece by piece: bytes of an artifact, and server-sent events."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from nemo_helix_plugin.jobs import events

if TYPE_CHECKING:
    import httpx

_MODELS: dict[str, type[events.JobChange | events.JobTransition | events.JobLogLine]] = {
    events.KIND_JOB: events.JobChange,
    events.KIND_TRANSITION: events.JobTransition,
    events.KIND_LOG: events.JobLogLine,
}


@dataclass(slots=True)
class EventLines:
    """Server-sent events out of the lines of a stream."""

    last_id: str | None = None
    """Of the newest event that had one; what ``Last-Event-ID`` goes on from."""
    _kind: str = ""
    _data: list[str] = field(default_factory=list)

    def feed(self, line: str) -> tuple[str, str] | None:
        """Take one line; an empty one ends an event, which is returned as kind and data."""
        if not line:
            kind, data = self._kind or "message", "\n".join(self._data)
            complete, self._kind, self._data = bool(self._data), "", []
            return (kind, data) if complete else None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id":
            self.last_id = value
        return None

    def event(self, line: str) -> events.JobEvent | None:
        """Take one line; the job event that it completes, if it does and is of a kind that is known."""
        kind, data = self.feed(line) or ("", "")
        model = _MODELS.get(kind)
        if model is None:
            return None
        try:
            return model.model_validate(json.loads(data))
        except (ValidationError, json.JSONDecodeError):
            return None  # of a newer service; a caller that needs certainty asks for the job itself


@contextmanager
def _replacing(path: Path) -> Iterator[Callable[[bytes], object]]:
    """Write to a file beside ``path`` that takes its place at the end, and is removed if anything fails."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as part:
        try:
            yield part.write
            part.flush()
            Path(part.name).replace(path)
        except BaseException:
            Path(part.name).unlink(missing_ok=True)
            raise


class EventStream:
    """Job events as they happen; iterate over it."""

    def __init__(self, connect: Callable[[], AbstractContextManager[httpx.Response]]) -> None:
        self._connect = connect
        self._lines = EventLines()
        self._answer: httpx.Response | None = None

    @property
    def last_id(self) -> str | None:
        """Of the newest event that had one."""
        return self._lines.last_id

    def hang_up(self) -> None:
        """End the stream from another thread than the one that waits for its next event."""
        network = self._answer.extensions.get("network_stream") if self._answer else None
        channel = network.get_extra_info("socket") if network else None
        if channel is not None:
            with contextlib.suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)

    def __iter__(self) -> Iterator[events.JobEvent]:
        with self._connect() as answer:
            self._answer = answer
            for line in answer.iter_lines():
                event = self._lines.event(line)
                if event is not None:
                    yield event


class AsyncEventStream:
    """The same for ``async for``."""

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[httpx.Response]]) -> None:
        self._connect = connect
        self._lines = EventLines()

    @property
    def last_id(self) -> str | None:
        """Of the newest event that had one."""
        return self._lines.last_id

    async def __aiter__(self) -> AsyncIterator[events.JobEvent]:
        async with self._connect() as answer:
            async for line in answer.aiter_lines():
                event = self._lines.event(line)
                if event is not None:
                    yield event


class BinaryResponse:
    """Bytes that the service has; they are fetched when they are read."""

    def __init__(self, connect: Callable[[], AbstractContextManager[httpx.Response]]) -> None:
        self._connect = connect

    def stream(self) -> AbstractContextManager[httpx.Response]:
        """The open answer; read it with ``iter_bytes()`` inside the ``with`` block."""
        return self._connect()

    def read(self) -> bytes:
        """All of it."""
        with self.stream() as answer:
            return answer.read()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all of it to a file, which is there whole or not at all."""
        target = Path(path)
        with self.stream() as answer, _replacing(target) as write:
            for piece in answer.iter_bytes():
                write(piece)
        return target


class AsyncBinaryResponse:
    """The same with ``await``."""

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[httpx.Response]]) -> None:
        self._connect = connect

    def stream(self) -> AbstractAsyncContextManager[httpx.Response]:
        """The open answer; read it with ``aiter_bytes()`` inside the ``async with`` block."""
        return self._connect()

    async def read(self) -> bytes:
        """All of it."""
        async with self.stream() as answer:
            return await answer.aread()

    async def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all of it to a file, which is there whole or not at all."""
        target = Path(path)
        async with self.stream() as answer:
            with _replacing(target) as write:
                async for piece in answer.aiter_bytes():
                    write(piece)
        return target
