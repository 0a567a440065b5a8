"""Standard streams whose failures do not end a command: a character that a terminal cannot show is written as
an escape, and a command that has done its work does not fail because its report cannot be written.

A closed stream is replaced by the null device, so that no other file gets its number. Text that cannot be
written to standard error is dropped, and so is standard output after `allow_lost_stdout`. Before that call
a failed write is an error, since the output is then the purpose of the command.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import select
import sys
from typing import Any, Final

ERRORS: Final = "nemo_escaped"
"""Name of the error handler: what an encoding lacks becomes an escape that JSON reads as what it was."""

_COMMANDS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class _Descriptor(io.FileIO):
    """A file descriptor that belongs to the process that started the program."""

    def __init__(self, descriptor: int, *, optional: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.optional = optional
        """Whether what cannot be written is left out."""
        self.failure: OSError | None = None
        """The first failure that was passed over."""

    def write(self, data: Any, /) -> int:
        """Write a part of ``data``; a slow reader of a descriptor that does not block is waited for."""
        while True:
            try:
                written = super().write(data)
            except OSError as error:
                if not self.optional:
                    raise OSError(error.errno, error.strerror, "standard output") from None
                self.failure = self.failure or error
                return memoryview(data).nbytes
            if written is not None:
                return written
            select.select([], [self], [])


_stdout: list[_Descriptor] = []
"""Ours, once it has replaced Python's."""


def prepare() -> None:
    """Make the streams of this program what the module says; called first."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
    codecs.register_error(ERRORS, _escaped)
    if (stdout := _replace("stdout", optional=False)) is not None:
        _stdout[:] = [stdout]
    _replace("stderr", optional=True)


def allow_lost_stdout() -> None:
    """From now on standard output only reports what was done."""
    for stdout in _stdout:
        stdout.optional = True


def finish() -> str:
    """Write what is still in memory; why standard output could not be written where that only reports.

    Empty when it could, and when its reader has left, who wants no more. Raises `OSError` where the output is
    all that the command is for.
    """
    sys.stdout.flush()
    failure = _stdout[0].failure if _stdout else None
    if failure is None or failure.errno in (errno.EPIPE, errno.ESHUTDOWN):
        return ""
    return failure.strerror or str(failure)


def harmless(text: str) -> str:
    """A sentence for a terminal, with words of a server or a model in it: whatever moves the cursor, colours
    or reorders text is written as an escape; line feeds and tabs stay.
    """
    return _COMMANDS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def unwritable(error: UnicodeEncodeError) -> str:
    """A sentence for a file's name, or a word of the command line, that the locale cannot write or read."""
    text = "".join(
        _escape(ord(char)) if 0xD800 <= ord(char) < 0xE000 else char for char in error.object[:200]
    )
    return (
        f"the locale of this shell has no way to write {text!r} (its encoding is "
        f"{sys.getfilesystemencoding()}); set LC_ALL=C.UTF-8 and say it again."
    )


def _replace(name: str, *, optional: bool) -> _Descriptor | None:
    """Put a stream of ours in the place of Python's; one that somebody has replaced already stays."""
    stream = getattr(sys, name)
    if not isinstance(stream, io.TextIOWrapper) or stream is not getattr(sys, f"__{name}__"):
        return None
    try:
        raw = _Descriptor(stream.fileno(), optional=optional)
    except OSError:
        return None
    errors = ERRORS if stream.errors in ("strict", "surrogateescape") else stream.errors
    made = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    setattr(sys, name, made)
    return raw


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_escape(ord(char)) for char in text), error.end


def _escape(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
