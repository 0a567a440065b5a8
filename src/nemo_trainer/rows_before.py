"""The rows of metrics that a generation goes on from: in which file they are, and up to where."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from nemo_trainer.contract import TrainerError, generations
from nemo_trainer.contract.generations import Takeover


class RowsBefore:
    """The rows from before, open for reading; without a file there are none."""

    def __init__(self, name: str, file: BinaryIO | None, end: int) -> None:
        """``name`` is the file's, of which the bytes before ``end`` count."""
        self.name = name
        self._file = file
        self._left = end

    def read(self, most: int) -> bytes:
        """The next bytes, at most so many; none at the end."""
        data = self._file.read(min(most, self._left)) if self._file is not None else b""
        self._left -= len(data)
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


def open_rows(trainer_path: Path, name: str) -> RowsBefore:
    """Open the file of metrics that is called ``name``, or where it is missing what has the same rows.

    It may be missing because a start was killed after it had recorded the name and before it made the file,
    or since another start has copied and removed it. Takeovers say which bytes two files share. Raises
    `TrainerError` where there were rows, and no file has them.
    """
    shared, known, before = dict[str, int](), _takeovers(trainer_path), None
    while known != before:  # another start may meanwhile have recorded a copy, and removed what it is of
        shared = _shared(name, known)
        for other, end in sorted(shared.items(), key=lambda one: -one[1]):
            with contextlib.suppress(FileNotFoundError):
                return RowsBefore(other, (trainer_path / other).open("rb"), end)
        before, known = known, _takeovers(trainer_path)
    if any(one.offset for one in known if one.file in shared):
        raise TrainerError(
            f"{trainer_path / name}: is missing, and no other file has the metrics that this training has "
            "recorded; put it back, or make it an empty file to go on without them"
        )
    return RowsBefore(name, None, 0)


def _takeovers(trainer_path: Path) -> list[Takeover]:
    return [one.takeover for one in generations.records(trainer_path) if one.takeover is not None]


def _shared(name: str, takeovers: list[Takeover]) -> dict[str, int]:
    """The files that begin with the same bytes as one does, itself included, and how many bytes those are.

    No file is a copy of two, so there is one way from each to each.
    """
    found, reached = {name: sys.maxsize}, [name]
    for here in reached:
        for one in takeovers:
            for this, other in ((one.file, one.of), (one.of, one.file)):
                if this == here and other not in found:
                    found[other] = min(found[here], one.offset)
                    reached.append(other)
    return found
