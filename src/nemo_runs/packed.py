"""Files that may be compressed, read as what is in them; how they are packed their first bytes say."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import importlib
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final, cast

SUFFIXES: Final = (".gz", ".zst", ".bz2", ".xz")
"""Ends of names behind the end that says what is inside."""
_ZSTD_MODULES: Final = ("compression.zstd", "backports.zstd")
"""The standard library's own module from Python 3.14 on, and the same for earlier versions."""


class CannotUnpackError(ValueError):
    """A compressed file that cannot be read here, or that is damaged; the message is a phrase."""


def open_unpacked(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacked if it is compressed with gzip, Zstandard, bzip2 or xz.

    Raises `CannotUnpackError` where the program for that is missing, and `OSError`. Damage shows while
    reading (`damage_named`).
    """
    with path.open("rb") as stream:
        start = stream.read(6)
    for mark, opener in _OPENERS:
        if start.startswith(mark):
            return opener(path)
    return path.open("rb")


def _open_zstd(path: Path) -> IO[bytes]:
    for name in _ZSTD_MODULES:
        try:
            module: Any = importlib.import_module(name)
        except ImportError:
            continue
        return _NamedDamage(module.open(path, "rb"), module.ZstdError)
    raise CannotUnpackError(
        "it is compressed with Zstandard, for which Python before 3.14 needs the package backports.zstd; "
        "install that, or unpack it first: zstd -d"
    )


class _NamedDamage(io.BufferedReader):
    """A stream whose own error of damage becomes one that `damage_named` knows."""

    def __init__(self, stream: IO[bytes], error: type[Exception]) -> None:
        super().__init__(_Raw(stream, error), 1 << 17)


class _Raw(io.RawIOBase):
    def __init__(self, stream: IO[bytes], error: type[Exception]) -> None:
        self._stream = stream
        self._error = error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            found = self._stream.read(len(buffer))
        except self._error as error:
            raise EOFError(str(error)) from error
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._stream.close()
        super().close()


_OPENERS: Final[tuple[tuple[bytes, Callable[[Path], IO[bytes]]], ...]] = (
    (b"\x1f\x8b", lambda path: cast("IO[bytes]", gzip.open(path, "rb"))),  # noqa: SIM115 - the caller closes it
    (b"\x28\xb5\x2f\xfd", _open_zstd),
    (b"BZh", lambda path: bz2.open(path, "rb")),  # noqa: SIM115 - the same
    (b"\xfd7zXZ", lambda path: lzma.open(path, "rb")),  # noqa: SIM115 - the same
)


@contextlib.contextmanager
def damage_named() -> Iterator[None]:
    """Raise `CannotUnpackError` where what is read meanwhile is a compressed file that is damaged."""
    try:
        yield
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's, not the format's
            raise
        raise CannotUnpackError(f"the compressed file is cut off or damaged ({error})") from None
