"""The part that runs on the cluster's host: one request in, one answer out, both a line of JSON.

The service sends it along (`nemo_helix_server.executors.slurm.bundle`) and starts it with the interpreter
that the profile names, so that one round trip looks at all runs. Every operation may be repeated. Standard
library, `nemo_runs` and `nemo_trainer` only.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from nemo_helix_server.executors.slurm import folders, succession
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.log_parts import part_numbers
from nemo_runs.durable.disk import open_regular, read_regular
from nemo_runs.errors import RunsError
from nemo_trainer import contract
from nemo_trainer.contract import generations

PROTOCOL = 1
"""Number of this exchange; both sides are of one version, since the service sends this module along."""
WINDOW = 256
"""Bytes before an offset whose digest shows whether a file only grew."""
LARGEST = 4 << 20
"""Bytes of one file in one answer; the rest comes with the next one."""
_SMALL = (run_files.CLAIM, run_files.STARTED, run_files.EXIT, folders.NODE, run_files.SHIM_LOG)
SMALL = 16 << 20
"""Bytes of a file that is sent as a whole; a larger one is not what it should be."""
MOST_FILES = 200
"""Small files of one trainer path, and files of metrics; a workload may make any number."""
_OF_TRAINER = ("progress*.json", "writer.json", "OUTPUTS*.json", "generations/*")
_METRICS = "metrics*.jsonl"
_LEDGER = ".staged.json"
_CACHED_AT = 1_000_000_000 * 1_000_000_000
"""Time of change of every file of the cache, in nanoseconds; a process that writes to one changes it."""
_READABLE = 0o555


def main() -> int:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    sys.stdout.write(json.dumps({"protocol": PROTOCOL, **answer(request)}) + "\n")
    return 0


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """What a request asks for; an operation that cannot be carried out says why in ``error``."""
    try:
        return _OPERATIONS[request["op"]](request)
    except (OSError, RunsError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


# ---------------------------------------------------------------- looking


def _look(request: Mapping[str, Any]) -> dict[str, Any]:
    """What is new in the folders of runs."""
    return {"now": time.time(), "runs": {one["token"]: _run(one) for one in request["runs"]}}


def _run(asked: Mapping[str, Any]) -> dict[str, Any]:
    folder, trainer = Path(asked["run"]), Path(asked["trainer"])
    have: Mapping[str, Any] = asked["have"]
    found: dict[str, Any] = {
        "run": _changed(folder, _SMALL, have.get("run", {}), folder),
        "log": list(_log(folder, have.get("log"))),
        "scheduler_log": _tail(folder / folders.SCHEDULER_LOG),
    }
    # what a workload has left there may be anything; it holds up the look at no other run
    with contextlib.suppress(OSError, RunsError):
        if trainer.is_dir():
            found |= _trainer(trainer, have)
    return found


def _trainer(trainer: Path, have: Mapping[str, Any]) -> dict[str, Any]:
    """What is new in a trainer path."""
    found: dict[str, Any] = {}
    known = have.get("trainer", {})
    found["trainer"] = _changed(trainer, tuple({*small_files(trainer), *known}), known, trainer.parent)
    begun = have.get("metrics", {})
    found["metrics"] = {
        name: grown(trainer / name, begun.get(name), trainer.parent) for name in metric_files(trainer)
    }
    found["checkpoints"] = _checkpoints(trainer, have.get("checkpoints"))
    found["outputs"] = _output_problems(trainer)
    found["bytes"] = size_of(trainer.parent)
    return found


def small_files(trainer: Path) -> list[str]:
    """The files of a trainer path that are replaced as a whole, those of all its generations."""
    names = (path.relative_to(trainer).as_posix() for like in _OF_TRAINER for path in trainer.glob(like))
    return list(itertools.islice(names, MOST_FILES))


def metric_files(trainer: Path) -> list[str]:
    """The files of a trainer path that only grow."""
    return sorted(path.name for path in itertools.islice(trainer.glob(_METRICS), MOST_FILES))


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
        data = _read(folder / name, within)
        if data is None:
            if name in have:
                found[name] = None
        elif digest(data) != have.get(name):
            found[name] = text(data)
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
    if not data and have and offset == have[0]:
        return {"from": offset, "data": "", "size": size}
    return {"from": offset, "data": text(data), "size": size}


def _continues(file: BinaryIO, size: int, have: list[Any]) -> bool:
    offset = int(have[0])
    if offset > size:
        return False
    start = max(0, offset - WINDOW)
    file.seek(start)
    return digest(file.read(offset - start)) == str(have[1])


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
        if left <= 0 or piece["from"] + len(raw(piece["data"])) < piece["size"]:
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


def listed_mark(checkpoints: list[dict[str, Any]]) -> str:
    """What distinguishes one list of checkpoints from another one."""
    return digest(json.dumps(checkpoints, sort_keys=True).encode())


def _checkpoint(one: contract.Checkpoint | contract.Damaged, within: Path) -> dict[str, Any]:
    if isinstance(one, contract.Damaged):
        return {
            "step": one.step,
            "folder": one.folder.name,
            "manifest": None,
            "problem": one.problem,
            "pinned": False,
        }
    problems = contract.verify(one.folder, deep=False, within=within)
    manifest = _read(one.folder / contract.MANIFEST, within)
    return {
        "step": one.step,
        "folder": one.folder.name,
        "manifest": text(manifest) if manifest else None,
        "problem": problems[0] if problems else None if manifest else f"{one.folder}: it is gone",
        "pinned": one.pinned,
    }


# ---------------------------------------------------------------- deep looks, claims, removal


def _verify(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compare digests: what is wrong with checkpoints of a trainer path, sentences by their folder's name."""
    trainer = Path(request["trainer"])
    found = {}
    for one in contract.list_checkpoints(trainer, within=trainer.parent):
        if isinstance(one, contract.Checkpoint) and one.folder.name in request["names"]:
            found[one.folder.name] = contract.verify(one.folder, deep=True, within=trainer.parent)
    return {"problems": found}


def _give_up(request: Mapping[str, Any]) -> dict[str, Any]:
    """Claim a run for nobody, so that it can never start; whether it was free."""
    folder = Path(request["run"])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mine = run_files.make_claim(folder, run_files.RunClaim(None, time.time()))
    (folder / folders.SECRETS).unlink(missing_ok=True)
    return {"mine": mine}


def _hold(request: Mapping[str, Any]) -> dict[str, Any]:
    """Mark a checkpoint, so that its trainer keeps it, or take the mark away; whether it is there."""
    folder = Path(request["folder"])
    manifest = _read(folder / contract.MANIFEST, folder)
    if manifest is None or hashlib.sha256(manifest).hexdigest()[:10] != request["id"].rpartition("-")[2]:
        return {"held": False}
    if request["hold"]:
        (folder / contract.PINNED).touch(mode=0o600)
    else:
        (folder / contract.PINNED).unlink(missing_ok=True)
    return {"held": (folder / contract.MANIFEST).exists()}


def _end_chain(request: Mapping[str, Any]) -> dict[str, Any]:
    """Claim for nobody what was queued to go on after a run; of each its job, and whether it was free."""
    run = Path(request["run"])
    found = []
    after = run.parent / run_files.next_token(run.name)
    while (after / folders.ORDER).exists():
        free = run_files.make_claim(after, run_files.RunClaim(None, time.time()))
        (after / folders.SECRETS).unlink(missing_ok=True)
        found.append({"token": after.name, "job_id": _queued_as(after), "free": free})
        after = after.parent / run_files.next_token(after.name)
    return {"starts": found}


def _queued_as(folder: Path) -> str | None:
    """The number of the job that has a start, or that another allocation has queued for it."""
    for name in (folders.NODE, folders.QUEUED):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if number := json.loads((folder / name).read_bytes())["job_id"]:
                return str(number)
    return None


def _tidy(request: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the secrets and the scratch folders of runs that are over."""
    for run in map(Path, request["runs"]):
        (run / folders.SECRETS).unlink(missing_ok=True)
        shutil.rmtree(run.parent.parent / "scratch" / run.name, ignore_errors=True)
    return {}


def _remove(request: Mapping[str, Any]) -> dict[str, Any]:
    """Remove folders of a job; what is not below the root is refused."""
    root = Path(request["root"]).resolve()
    for name in request["paths"]:
        path = Path(name)
        if not path.parent.resolve().is_relative_to(root / "jobs"):
            return {"error": f"{path} does not lie below {root / 'jobs'}"}
        # a process that lives on writes into what it finds by its name: from now on it finds nothing
        aside = path.with_name(f".removed-{path.name}-{secrets.token_hex(4)}")
        with contextlib.suppress(FileNotFoundError):
            path.rename(aside)
    for rest in {old for name in request["paths"] for old in Path(name).parent.glob(".removed-*")}:
        shutil.rmtree(rest, ignore_errors=True)
    if "unused_seconds" in request:
        _sweep(root, request["unused_seconds"])
    return {}


def _prepare(request: Mapping[str, Any]) -> dict[str, Any]:
    """Make folders for their owner alone; how much may be written there, and what there is of a run.

    Of a run: its number among the starts of its job, whether another allocation may have queued it, and as
    which job.
    """
    run = Path(request["run"]) if request.get("run") else None
    begun = run is not None and (run / folders.ORDER).exists()
    queued = _queued_as(run) if run else None
    number = succession.next_start_number(run) if run else 0
    for name in request["folders"]:
        Path(name).mkdir(mode=0o700, parents=True, exist_ok=True)
    status = os.statvfs(request["folders"][0])
    free = status.f_bavail * status.f_frsize
    python = list(sys.version_info[:3])
    return {"free": free, "python": python, "queued": queued, "begun": begun, "start": number}


# ---------------------------------------------------------------- files that arrive


def _missing(request: Mapping[str, Any]) -> dict[str, Any]:
    """Of files with their digests: those that are not there, and how much of each has arrived.

    What another job has brought is linked, not sent again.
    """
    folder = Path(request["folder"])
    known = _ledger(folder)
    found = []
    for path, size, sha, shared in request["files"]:
        target = folder / path
        status = _status(target)
        if status is not None and known.get(path) == [size, status.st_mtime_ns, sha]:
            continue
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if shared and _from_cache(_cached(request, sha), size, target):
            known[path] = [size, _CACHED_AT, sha]
            continue
        begun = _status(part(target, sha))
        found.append([path, min(begun.st_size, size) if begun else 0])
    _write_ledger(folder, known)
    return {"missing": found}


def _settle(request: Mapping[str, Any]) -> dict[str, Any]:
    """Compare the digests of what has arrived, and give it its name; what is not right is removed."""
    folder = Path(request["folder"])
    known = _ledger(folder)
    wrong = []
    for path, size, sha, mode, shared in request["files"]:
        target, arrived = folder / path, part(folder / path, sha)
        status = _status(arrived)
        if status is None or status.st_size != size or file_digest(arrived) != sha:
            arrived.unlink(missing_ok=True)
            wrong.append(path)
            continue
        arrived.chmod(mode & _READABLE if shared else mode)
        if shared:
            os.utime(arrived, ns=(_CACHED_AT, _CACHED_AT))
            _into_cache(arrived, _cached(request, sha))
        arrived.replace(target)
        known[path] = [size, target.stat().st_mtime_ns, sha]
    _write_ledger(folder, known)
    return {"wrong": wrong}


def _cached(request: Mapping[str, Any], sha: str) -> Path:
    return Path(request["cache"], sha[:2], sha)


def _from_cache(blob: Path, size: int, target: Path) -> bool:
    """Give a file that is in the cache its name in a job; false when it has to be sent."""
    status = _status(blob)
    if status is None:
        return False
    if (status.st_size, status.st_mtime_ns) != (size, _CACHED_AT):
        blob.unlink(missing_ok=True)  # a job that has it has written to it
        return False
    temporary = target.with_name(f".{target.name}.link-{os.getpid()}")
    try:
        os.link(blob, temporary)
        temporary.replace(target)
    except OSError:
        return False
    finally:
        temporary.unlink(missing_ok=True)  # a rename onto another link of the same file leaves both
    return True


def _into_cache(arrived: Path, blob: Path) -> None:
    """Keep a file whose digest was found right; where links are not possible, nothing is kept."""
    with contextlib.suppress(OSError):
        blob.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.link(arrived, blob)


def _sweep(root: Path, unused_seconds: float) -> None:
    """Remove what no job has had a link to for so long."""
    oldest = time.time() - unused_seconds
    for blob in (root / "cache").glob("*/*"):
        status = _status(blob)
        # the time of the last link or unlink is that of the inode's last change
        if status is not None and status.st_nlink == 1 and status.st_ctime < oldest:
            blob.unlink(missing_ok=True)


def part(target: Path, sha: str) -> Path:
    """Where a file grows until it is whole."""
    return target.with_name(f".{target.name}.part-{sha[:12]}")


def _ledger(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / _LEDGER).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_ledger(folder: Path, known: Mapping[str, Any]) -> None:
    temporary = folder / f"{_LEDGER}.{os.getpid()}"
    temporary.write_text(json.dumps(known))
    temporary.replace(folder / _LEDGER)


# ---------------------------------------------------------------- parts


def digest(data: bytes) -> str:
    """A short digest, for telling whether two sides have the same."""
    return hashlib.sha256(data).hexdigest()[:32]


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text(data: bytes) -> str:
    """Bytes as a text that JSON carries, whatever they are."""
    return data.decode("utf-8", "surrogateescape")


def raw(shown: str) -> bytes:
    """The bytes of such a text."""
    return shown.encode("utf-8", "surrogateescape")


def size_of(folder: Path) -> int:
    """Bytes on disk below a folder."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            status = _status(Path(parent, name))
            total += status.st_blocks * 512 if status else 0
    return total


def _tail(path: Path, length: int = 2000) -> str:
    data = _read(path, path.parent)
    return text(data[-length:]) if data else ""


def _read(path: Path, within: Path) -> bytes | None:
    """A small file that a workload may have made; no pipe is waited for, no link leads out of ``within``."""
    try:
        return read_regular(path, most=SMALL, within=within)
    except OSError:
        return None


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _size(path: Path) -> int | None:
    status = _status(path)
    return status.st_size if status else None


_OPERATIONS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "look": _look,
    "verify": _verify,
    "give_up": _give_up,
    "hold": _hold,
    "end_chain": _end_chain,
    "tidy": _tidy,
    "remove": _remove,
    "prepare": _prepare,
    "missing": _missing,
    "settle": _settle,
}

if __name__ == "__main__":
    sys.exit(main())
