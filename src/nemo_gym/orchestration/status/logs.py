"""Reading the logs of a benchmark, over all of its runs, and following them from one job to the next."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nemo_gym.chain.evidence import Evidence
from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.records.run_files import RunFiles
from nemo_runs.clock import utc_second
from nemo_runs.suggestions import suggestion

DEFAULT = "driver"
SCRIPT = "job"
"""The source that stands for what the job script itself writes."""

_CHUNK = 1 << 20
_TAIL = 1 << 20
"""Bytes from the end of a log among which its last lines are looked for."""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """The log of one job."""

    job_id: str
    path: Path
    title: str
    """Which run of the benchmark it is, for the line between two pieces."""


def sources(known: Evidence, files: RunFiles) -> dict[str, set[str]]:
    """What there are logs of, in the order of names, and of which jobs."""
    found: dict[str, set[str]] = {}
    for source, job_id in _paths(known, files):
        found.setdefault(source, set()).add(job_id)
    return dict(sorted(found.items()))


def _paths(known: Evidence, files: RunFiles) -> dict[tuple[str, str], Path]:
    """The log of each source and job; what a job that is shared has, all of its benchmarks have."""
    found: dict[tuple[str, str], Path] = {}
    for folder in filter(None, (known.shared_dir, known.job_dir)):
        paths = JobPaths(folder)
        names, beside = files.sizes(paths.logs), files.sizes(folder)
        for job_id in known.job_ids:
            for name in names:
                step = re.fullmatch(rf"(.+)-{re.escape(job_id)}\.log", name)
                if step is not None:
                    found[step[1], job_id] = paths.logs / name
            if paths.output(job_id).name in beside:
                found[SCRIPT, job_id] = paths.output(job_id)
    return found


def pieces(known: Evidence, source: str, files: RunFiles) -> list[LogPiece]:
    """The logs of one source, one per job, in the order in which the jobs started."""
    paths = {job_id: path for (its, job_id), path in _paths(known, files).items() if its == source}
    order = dict.fromkeys([*(link.job_id for link in known.links), *known.job_ids])
    found: list[LogPiece] = []
    for number, job_id in enumerate((job for job in order if job in paths), start=1):
        started = next((link.started for link in known.links if link.job_id == job_id), None)
        begun = f", started {utc_second(started)}" if started is not None else ""
        title = f"{source} of job {job_id} (log {number}{begun})"
        found.append(LogPiece(job_id, paths[job_id], title))
    return found


def refuse_unknown(known: Evidence, source: str, files: RunFiles) -> None:
    """Raise `GymError` naming what there is when there is no log of a source."""
    there = sources(known, files)
    if source not in there:
        hint = suggestion(source, [*there, known.benchmark])
        names = f"there are {', '.join(there)}" if there else "there is none yet"
        raise GymError(f"{known.benchmark} of {known.gym_job_id} has no log '{source}'{hint}; {names}.")


def to_show(known: Evidence, files: RunFiles) -> str:
    """The log to show when none is named: the driver's, or the job script's where no driver has started."""
    there = sources(known, files)
    return SCRIPT if DEFAULT not in there and SCRIPT in there else DEFAULT


def seam(piece: LogPiece) -> bytes:
    """The line between the logs of two jobs."""
    return f"==> {piece.title} <==\n".encode()


def whole(found: Sequence[LogPiece], files: RunFiles) -> Iterator[bytes]:
    """All of the logs, with a line before each when there are several."""
    for piece in found:
        if len(found) > 1:
            yield seam(piece)
        yield from _content(files, piece.path, 0)


def tail(found: Sequence[LogPiece], files: RunFiles, lines: int) -> bytes:
    """The last lines over all of the logs, with the line between two of them where it falls among these."""
    left, parts = lines, []
    for number, piece in reversed(list(enumerate(found))):
        size = files.sizes(piece.path.parent).get(piece.path.name, 0)
        content = b"".join(_content(files, piece.path, max(0, size - _TAIL)))
        kept = content.splitlines(keepends=True)[-left:] if left > 0 else []
        whole_piece = len(kept) == content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
        parts.append((seam(piece) if whole_piece and number > 0 else b"") + b"".join(kept))
        left -= len(kept)
        if left <= 0:
            break
    return b"".join(reversed(parts))


def _content(files: RunFiles, path: Path, offset: int) -> Iterator[bytes]:
    while True:
        try:
            data = files.read(path, offset=offset, limit=_CHUNK)
        except FileNotFoundError:
            return
        if not data:
            return
        yield data
        offset += len(data)


@dataclass
class LogFollower:
    """Reads what is new, from one job's log to the next."""

    source: str
    files: RunFiles
    _piece: LogPiece | None = None
    _offset: int = 0
    _seen: list[str] = field(default_factory=list)

    def start_at_end(self, found: Sequence[LogPiece]) -> None:
        """Take everything that is there for shown."""
        if found:
            self._piece = found[-1]
            self._seen = [piece.job_id for piece in found]
            self._offset = self.files.sizes(found[-1].path.parent).get(found[-1].path.name, 0)

    def new(self, found: Sequence[LogPiece]) -> Iterator[bytes]:
        """What was written since the last call."""
        yield from self._rest()
        for piece in found:
            if piece.job_id not in self._seen:
                first, self._piece, self._offset = self._piece is None, piece, 0
                self._seen.append(piece.job_id)
                if not first or len(found) > 1:
                    yield seam(piece)
                yield from self._rest()

    def _rest(self) -> Iterator[bytes]:
        if self._piece is None:
            return
        for data in _content(self.files, self._piece.path, self._offset):
            self._offset += len(data)
            yield data


def follow(
    follower: LogFollower,
    look: Callable[[], tuple[Evidence, bool]],
    write: Callable[[bytes], None],
    *,
    every: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Write what is new every so many seconds, until the benchmark has ended.

    ``look`` gathers the evidence again and says whether more is to come; what was written before it said no
    is read once more.
    """
    while True:
        known, live = look()
        for data in follower.new(pieces(known, follower.source, follower.files)):
            write(data)
        if not live:
            return
        sleep(every)
