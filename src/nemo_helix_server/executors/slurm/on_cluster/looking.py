"""What is new in the folders of runs on the cluster: one round trip looks at all of them."""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from nemo_helix_server.executors.slurm.on_cluster import folders, holders, wire
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.log_parts import part_numbers
from nemo_runs.durable.disk import open_regular
from nemo_runs.errors import RunsError
from nemo_trainer import contract
from nemo_trainer.contract import allocation, generations

WINDOW = 256
"""Bytes before an offset whose digest shows whether a file only grew."""
LARGEST = 4 << 20
"""Bytes of one file in one answer; the rest comes with the next one."""
RUN_FILES = (
    run_files.CLAIM,
    run_files.STARTED,
    run_files.EXIT,
    folders.NODE,
    run_files.SHIM_LOG,
    allocation.FILE,  # after the end: what is read after it is at least as new
)
"""The small files of a run that the service has too."""
MOST_FILES = 200
"""Small files of one trainer path, and files of metrics; a workload may make any number. The newest count."""
_ALWAYS = 1 << 62
"""In the order of generations: files that have no generation are of all of them."""
_DIGITS = 17
"""No generation has a number of so many."""
_OF_TRAINER = ("progress*.json", "writer.json", "OUTPUTS*.json", "generations/*")
_METRICS = "metrics*.jsonl"


def look(request: Mapping[str, Any]) -> dict[str, Any]:
    """What is new in the folders of runs; ``others`` are those of other services, each with the reason."""
    found, others = {}, {}
    for one in request["runs"]:
        try:
            holders.require(request, [one["run"]])
            found[one["token"]] = _run(one)
        except holders.OtherServiceError as error:
            others[one["token"]] = str(error)
    return {"now": time.time(), "runs": found, "others": others}


def _run(asked: Mapping[str, Any]) -> dict[str, Any]:
    folder, trainer = Path(asked["run"]), Path(asked["trainer"])
    have: Mapping[str, Any] = asked["have"]
    found: dict[str, Any] = {
        "run": _changed(folder, RUN_FILES, have.get("run", {}), folder),
        "log": list(_log(folder, have.get("log"))),
        "scheduler_log": _tail(folder / folders.SCHEDULER_LOG),
    }
    # what a workload has left there may be anything; it holds up the look at no other run
    with contextlib.suppress(OSError, RunsError):
        if trainer.is_dir():
            # of a run that is over this may be the last look
            thorough = have.get("thorough", True) or (folder / run_files.EXIT).exists()
            found |= _trainer(trainer, have, thorough=thorough)
    return found


def _trainer(trainer: Path, have: Mapping[str, Any], *, thorough: bool) -> dict[str, Any]:
    """What is new in a trainer path.

    ``thorough``: files of checkpoints that are known already, and all that makes up the size of the job's
    storage, are looked at too; without it, only names are.
    """
    found: dict[str, Any] = {}
    known = have.get("trainer", {})
    found["trainer"] = _changed(trainer, tuple({*small_files(trainer), *known}), known, trainer.parent)
    begun = have.get("metrics", {})
    found["metrics"] = {
        name: grown(trainer / name, begun.get(name), trainer.parent) for name in metric_files(trainer)
    }
    found["listed"] = _folders_mark(trainer)
    known_already = not thorough and have.get("listed") == found["listed"]
    found["checkpoints"] = None if known_already else _checkpoints(trainer, have.get("checkpoints"))
    found["outputs"] = _output_problems(trainer)
    found["bytes"] = _size_of(trainer.parent) if thorough else None
    return found


def small_files(trainer: Path) -> list[str]:
    """The files of a trainer path that are replaced as a whole, those of its newest generations first."""
    names = (path.relative_to(trainer).as_posix() for like in _OF_TRAINER for path in trainer.glob(like))
    return heapq.nlargest(MOST_FILES, names, key=_age)


def metric_files(trainer: Path) -> list[str]:
    """The files of a trainer path that only grow, those of its newest generations first."""
    return heapq.nlargest(MOST_FILES, (path.name for path in trainer.glob(_METRICS)), key=_age)


def _age(name: str) -> tuple[int, str]:
    """The generation that a file belongs to: the newest is the largest."""
    folder, _, last = name.rpartition("/")
    if folder:  # generations/3, generations/3.takeover
        number = last.partition(".")[0]
        return (int(number) if number.isdecimal() and len(number) < _DIGITS else -1, name)
    own = generations.own_number(last.rpartition(".")[0])
    return (own or _ALWAYS, name)


def _output_problems(trainer: Path) -> list[str] | None:
    """What is wrong with what the step says it has produced, sizes compared; `None`: it says nothing."""
    if not generations.newest_file(contract.TrainerPaths(trainer).outputs).exists():
        return None
    return list(contract.verify_outputs(trainer, storage=trainer.parent, deep=False))


def _changed(
    folder: Path, names: tuple[str, ...], have: Mapping[str, str], within: Path
) -> dict[str, str | None]:
    """The small files that are not as the asker has them; `None` for one that is gone."""
    found: dict[str, str | None] = {}
    for name in names:
        data = wire.read_small(folder / name, within)
        if data is None:
            if name in have:
                found[name] = None
        elif wire.digest(data) != have.get(name):
            found[name] = wire.text(data)
    return found


def grown(path: Path, have: list[Any] | None, within: Path) -> dict[str, Any] | None:
    """What a file has behind what the asker has of it: offset and bytes; all of it when it is another one.

    ``have`` is how many bytes the asker has, and the digest of the last `WINDOW` of them.
    """
    try:
        with open(open_regular(path, within=within), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            offset = int(have[0]) if have and _continues(file, size, have) else 0
            file.seek(offset)
            data = file.read(LARGEST)
    except OSError:
        return None
    return {"from": offset, "data": wire.text(data), "size": size}


def _continues(file: BinaryIO, size: int, have: list[Any]) -> bool:
    offset = int(have[0])
    if offset > size:
        return False
    start = max(0, offset - WINDOW)
    file.seek(start)
    return wire.digest(file.read(offset - start)) == str(have[1])


def _log(folder: Path, have: list[Any] | None) -> Iterator[dict[str, Any]]:
    """The parts of a log behind what the asker has: the part that it has begun, and all newer ones."""
    try:
        names = [f"output.{number}.jsonl" for number in part_numbers(folder)]
    except OSError:
        return
    names.append(run_files.OUTPUT)
    begun = next((name for name in reversed(names) if have and _is_begun(folder / name, have, folder)), None)
    left = LARGEST
    for name in names[names.index(begun) if begun else 0 :]:
        piece = grown(folder / name, have if name == begun else None, folder)
        if piece is None:
            continue
        yield {"name": name, **piece}
        left -= len(piece["data"])
        if left <= 0 or piece["from"] + len(wire.raw(piece["data"])) < piece["size"]:
            return  # the next look goes on here


def _is_begun(path: Path, have: list[Any], within: Path) -> bool:
    try:
        with open(open_regular(path, within=within), "rb") as file:
            return _continues(file, os.fstat(file.fileno()).st_size, have)
    except OSError:
        return False


def _checkpoints(trainer: Path, have: str | None) -> list[dict[str, Any]] | None:
    """Every checkpoint folder with its manifest, sizes compared; `None` when the asker has just that."""
    found = [
        _checkpoint(one, trainer.parent) for one in contract.list_checkpoints(trainer, within=trainer.parent)
    ]
    return None if have == listed_mark(found) else found


def _folders_mark(trainer: Path) -> str:
    """What is something else whenever a checkpoint or a generation came, went or was replaced."""
    paths = contract.TrainerPaths(trainer)
    looked = [str(paths.generations)]
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(paths.checkpoints)):
            looked += [str(paths.checkpoints / name), str(paths.checkpoints / name / contract.MANIFEST)]
    marks = [
        [path, status.st_ino, status.st_mtime_ns, status.st_size] if status else path
        for path in looked
        for status in [wire.status_of(Path(path))]
    ]
    return wire.digest(json.dumps(marks).encode())


def listed_mark(checkpoints: list[dict[str, Any]]) -> str:
    """What distinguishes one list of checkpoints from another one."""
    return wire.digest(json.dumps(checkpoints, sort_keys=True).encode())


def _checkpoint(one: contract.Checkpoint | contract.Damaged, within: Path) -> dict[str, Any]:
    if isinstance(one, contract.Damaged):
        return {
            "step": one.step,
            "folder": one.folder.name,
            "manifest": None,
            "problem": one.problem,
        }
    problems = contract.verify(one.folder, deep=False, within=within)
    manifest = wire.read_small(one.folder / contract.MANIFEST, within)
    return {
        "step": one.step,
        "folder": one.folder.name,
        "manifest": wire.text(manifest) if manifest else None,
        "problem": problems[0] if problems else None if manifest else f"{one.folder}: it is gone",
    }


def _size_of(folder: Path) -> int:
    """Bytes on disk below a folder."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            status = wire.status_of(Path(parent, name))
            total += status.st_blocks * 512 if status else 0
    return total


def _tail(path: Path, length: int = 2000) -> str:
    data = wire.read_small(path, path.parent)
    return wire.text(data[-length:]) if data else ""
