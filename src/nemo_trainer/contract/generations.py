"""Generations: which start of a training may write, though processes of earlier ones may still live.

Each start claims the next number, by creating a file that must not exist yet (`claim`). A process with an
older number has lost its right to write: it finds that out before each write (`is_current`). A check and the
write that follows are two moments, and a process can be stopped between them for hours. So a generation that
follows one which is not proven to be over writes under names of its own (`Generation.own_names`:
``metrics.g3.jsonl``, ``checkpoints/40.g3``), which no older process ever touches; and readers take the files
of the newest generation, and of the older ones only what was there when a newer one took over (`Takeover`).
What an older process still manages to write is ignored by all of them alike.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nemo_runs.durable.disk import NO_HARD_LINKS, read_regular, temporary_beside, write_all, write_new
from nemo_runs.durable.files import replace_file, sync_folder
from nemo_runs.errors import RunsError
from nemo_runs.processes import trees
from nemo_trainer.contract.names import TrainerPaths

RELEASED = "released_at"
"""Key of ``writer.json``: when its process released the folder, in seconds since the epoch."""
GENERATION = "generation"
"""Key of ``writer.json``, of rows, manifests, progress and requests: the number; without it, 0."""

_TAKEOVER = ".takeover"
_LARGEST = 1 << 53
_OWN = re.compile(r"\.g([1-9][0-9]{0,15})$")
_LINKED = 2
"""Names of a file that has a temporary one and its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """Where a generation went on: from here on nothing of an older one counts."""

    step: int
    """Finished steps; checkpoints and rows of older generations beyond it no longer count."""
    file: str
    """Name of the file into which this generation writes its rows of metrics."""
    offset: int
    """Bytes of that file from which on only this generation's rows count."""
    of: str
    """Name of the file that all bytes before ``offset`` are the same as in."""
    after: int = 0
    """The generation that this one follows, as it found it: one that took over in between does not count."""
    at: float = 0.0
    """UTC seconds since the epoch; for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One claim of the right to write; the one with the largest number has it."""

    number: int
    """From 1 on; 0 stands for storage from before there were generations."""
    task: str = ""
    """The start of the step for which it was claimed."""
    attempt: str = ""
    by: str = ""
    """Who claimed it, for people."""
    claimed_at: float = 0.0
    """UTC seconds since the epoch; for people, nothing is decided by it."""
    process: trees.ProcessIdentity | None = None
    """The process that writes, where that one claimed it; `None`: a launcher claimed it for its trainer."""
    own_names: bool = True
    """Whether it writes under names of its own, since an older process may still live."""
    takeover: Takeover | None = None
    """`None` until its trainer has decided from where to go on."""

    def to_json(self) -> dict[str, Any]:
        """The claim as it is in its file."""
        value = asdict(self)
        del value["takeover"]
        return value


@dataclass(frozen=True, slots=True)
class Writer:
    """What ``writer.json`` says."""

    process: trees.ProcessIdentity
    generation: int
    released: bool

    @property
    def is_over(self) -> bool:
        """Whether it is proven that this process writes nothing more, or is the caller."""
        return self.released or process_is_over(self.process)


def claim(
    trainer_path: Path,
    *,
    task: str = "",
    attempt: str = "",
    by: str = "",
    process: trees.ProcessIdentity | None = None,
    at: float | None = None,
    allowed: Callable[[Generation | None], None] = lambda _newest: None,
) -> Generation:
    """Take the next number; every older one stops being current at once, and for all time.

    Of several claimers each gets a number of its own. The name of the file is the claim: where a crash leaves
    the file empty the number is taken by nobody, and the next claim is larger. ``allowed`` is asked before
    each try with the generation that the claim would follow, and raises where it must not: nothing is claimed
    then, and no other one can have come between its answer and the claim. Raises `OSError` and
    `nemo_runs.errors.DiskFullError`.
    """
    paths = TrainerPaths(trainer_path)
    if not paths.generations.is_dir():
        paths.generations.mkdir(parents=True, exist_ok=True)
        sync_folder(trainer_path)
    before = newest(trainer_path)
    while True:
        allowed(before)
        made = Generation(
            number=(before.number if before else 0) + 1,
            task=task,
            attempt=attempt,
            by=by,
            claimed_at=time.time() if at is None else at,
            process=process,
            own_names=not _follows_quietly(trainer_path, before),
        )
        place = claim_file(trainer_path, made.number)
        try:
            _create(place, json.dumps(made.to_json()).encode("ascii") + b"\n")
        except FileExistsError:
            # another one's, or this claim itself where a file server's answer was lost and asked for again
            before = read(trainer_path, made.number)
            continue
        return made


def newest(trainer_path: Path, *, within: Path | None = None) -> Generation | None:
    """The generation that may write; `None` where none was ever claimed."""
    numbers = _numbers(trainer_path)
    return read(trainer_path, numbers[-1], within=within) if numbers else None


def is_current(trainer_path: Path, number: int) -> bool:
    """Whether no later generation than this one was claimed; costs one look for a name."""
    return not os.path.lexists(claim_file(trainer_path, number + 1))


def claim_file(trainer_path: Path, number: int) -> Path:
    """The file whose name is the claim of a number."""
    return TrainerPaths(trainer_path).generations / str(number)


def records(trainer_path: Path, *, within: Path | None = None) -> list[Generation]:
    """Every generation, oldest first, each with the step at which it took over."""
    return [read(trainer_path, number, within=within) for number in _numbers(trainer_path)]


def read(trainer_path: Path, number: int, *, within: Path | None = None) -> Generation:
    """One generation; where its file is damaged or empty, one that nobody is known to hold."""
    place = claim_file(trainer_path, number)
    made = Generation(number=number)
    with contextlib.suppress(
        OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, RunsError
    ):
        value = json.loads(read_regular(place, within=within))
        process = value.get("process")
        made = Generation(
            number=number,
            task=str(value["task"]),
            attempt=str(value["attempt"]),
            by=str(value.get("by", "")),
            claimed_at=float(value["claimed_at"]),
            process=None if process is None else trees.ProcessIdentity.from_json(process),
            own_names=value["own_names"] is not False,
        )
    return replace(made, takeover=_read_takeover(place.with_name(f"{number}{_TAKEOVER}"), within))


def record_takeover(trainer_path: Path, number: int, takeover: Takeover, *, durable: bool = True) -> None:
    """Put on record where a generation goes on; from then on readers leave out what is older.

    Only the first record counts: one that is there is left as it is. It need not be ``durable`` where nobody
    writes but this generation.
    """
    place = claim_file(trainer_path, number).with_name(f"{number}{_TAKEOVER}")
    if not place.exists():
        replace_file(place, json.dumps(asdict(takeover)).encode("ascii") + b"\n", mode=None, durable=durable)


def newest_file(path: Path) -> Path:
    """The file that counts of those that generations write in place of ``path`` (``metrics.jsonl``, …)."""
    best, found = 0, path
    with contextlib.suppress(OSError):
        for name in os.listdir(path.parent):
            number = own_number(name.removesuffix(path.suffix))
            if number > best and name == f"{path.stem}.g{number}{path.suffix}":
                best, found = number, path.with_name(name)
    return found


def own_number(name: str) -> int:
    """The generation that a name without its extension ends with (``40.g3``: 3); 0 for a name of all."""
    match = _OWN.search(name)
    return int(match[1]) if match else 0


def limits(trainer_path: Path, *, within: Path | None = None) -> list[tuple[int, int]]:
    """``(number, step)``: what generations before ``number`` saved beyond ``step`` does not count.

    Only those are named that took over from processes which may still write; others find nothing later.
    """
    return [
        (one.number, one.takeover.step)
        for one in lineage(trainer_path, within=within)
        if one.own_names and one.takeover is not None
    ]


def lineage(trainer_path: Path, *, within: Path | None = None) -> list[Generation]:
    """The generations that training went through, newest first; each followed the next one of the list.

    Of those that a later one has passed by while they were about to take over, nothing is in it.
    """
    known = {one.number: one for one in records(trainer_path, within=within) if one.takeover is not None}
    number, found = max(known, default=0), list[Generation]()
    while one := known.get(number):
        found.append(one)
        after = one.takeover.after if one.takeover else 0
        number = after if after < number else 0
    return found


def ruling(trainer_path: Path, file: str, offset: int, *, within: Path | None = None) -> int:
    """The generation whose rows alone count behind an offset of a file of metrics; 0: those of any."""
    found, known = 0, records(trainer_path, within=within)
    for one in reversed(known):
        takeover = one.takeover
        if takeover is None or takeover.file != file:
            continue
        if takeover.offset <= offset:
            found = max(found, one.number)
        file = takeover.of
    return found


def same_bytes(trainer_path: Path, before: int, now: int, *, within: Path | None = None) -> int | None:
    """How many bytes the file of metrics of an older generation and the one of a newer have in common.

    Numbers are those in the files' names, 0 where there is none. `None`: it is not known that there are any.
    """
    shared: int | None = None
    while now != before:
        takeover = read(trainer_path, now, within=within).takeover if now else None
        if takeover is None:
            return None
        shared = takeover.offset if shared is None else min(shared, takeover.offset)
        earlier = own_number(takeover.of.rpartition(".")[0])
        if earlier >= now:
            return None
        now = earlier
    return shared


def read_writer(trainer_path: Path) -> Writer | None:
    """The process that writes now, or wrote last; `None` when no readable record names one."""
    try:
        value = json.loads(TrainerPaths(trainer_path).writer.read_bytes())
        number = value.get(GENERATION)
        known = isinstance(number, int) and not isinstance(number, bool)
        released = isinstance(value.get(RELEASED), int | float)
        return Writer(trees.ProcessIdentity.from_json(value), number if known else 0, released)
    except (OSError, ValueError, TypeError, AttributeError, RunsError):
        return None


def process_is_over(process: trees.ProcessIdentity) -> bool:
    """Whether a process is proven to have ended, or is this one."""
    return trees.liveness(process) is trees.Liveness.DEAD or process == trees.identify()


def _follows_quietly(trainer_path: Path, before: Generation | None) -> bool:
    """Whether every process of earlier generations is proven to write nothing more.

    One that shares no names with the processes before it had a reason, which still holds for its successor.
    """
    writer = read_writer(trainer_path)
    if before is None:
        return writer is None or writer.is_over
    if before.own_names:
        return False
    if writer is not None and writer.generation == before.number:
        return writer.is_over
    return before.process is not None and process_is_over(before.process)


def _create(place: Path, data: bytes) -> None:
    """Create the file of a claim, whole where the file system has hard links; raises `FileExistsError`.

    Without them the name comes first, and stays whatever becomes of the content: others may have seen it.
    """
    with temporary_beside(place) as temporary:
        write_new(temporary, data, None)
        try:
            os.link(temporary, place, follow_symlinks=False)
        except FileExistsError:
            if temporary.stat().st_nlink != _LINKED:
                raise
            # a file server did it, and was asked again since its answer was lost
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
            _create_empty_first(place, data)
    sync_folder(place.parent)


def _create_empty_first(place: Path, data: bytes) -> None:
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with contextlib.suppress(OSError):
            write_all(descriptor, data)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _numbers(trainer_path: Path) -> list[int]:
    try:
        names = os.listdir(TrainerPaths(trainer_path).generations)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (int(name) for name in names if name.isascii() and name.isdecimal() and name[0] != "0")
    return sorted(number for number in found if number < _LARGEST)


def _read_takeover(place: Path, within: Path | None) -> Takeover | None:
    try:
        value: Mapping[str, Any] = json.loads(read_regular(place, within=within))
        return Takeover(
            step=_count(value["step"]),
            file=str(value["file"]),
            offset=_count(value["offset"]),
            of=str(value["of"]),
            after=_count(value.get("after", 0)),
            at=float(value["at"]),
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LARGEST:
        raise ValueError(value)
    return value
