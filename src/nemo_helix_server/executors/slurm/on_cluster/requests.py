"""The program on the cluster's host: one request in, one answer out, both a line of JSON.

The service sends it along (`nemo_helix_server.executors.slurm.bundle`) and starts it with the interpreter
that the profile names. Every operation may be repeated. Standard library, `nemo_runs` and `nemo_trainer`
only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nemo_helix_server.executors.slurm.on_cluster import (
    arrivals,
    folders,
    holders,
    looking,
    succession,
    wire,
)
from nemo_helix_server.storage import run_files
from nemo_runs.durable.disk import is_full
from nemo_runs.errors import DiskFullError, RunsError
from nemo_trainer import contract


def main() -> int:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    sys.stdout.write(json.dumps(answer(request)) + "\n")
    return 0


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """What a request asks for; an operation that cannot be carried out says why in ``error``."""
    try:
        if request["op"] not in _OF_EACH_RUN:
            holders.require(request, _paths(request))
        return _OPERATIONS[request["op"]](request)
    except holders.OtherServiceError as error:
        return {"error": str(error), "other_service": True}
    except DiskFullError as error:
        return {"error": str(error), "full": True}
    except (OSError, RunsError) as error:
        full = isinstance(error, OSError) and is_full(error)
        return {"error": f"{type(error).__name__}: {error}", "full": full}


def _paths(request: Mapping[str, Any]) -> list[str]:
    """The folders that a request is about."""
    one = [str(request[key]) for key in ("run", "folder") if request.get(key)]
    return [*one, *request.get("folders", ()), *request.get("paths", ())]


def _nothing(request: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - as every operation
    """Nothing is asked for but whether it may be asked for."""
    return {}


def _give_up(request: Mapping[str, Any]) -> dict[str, Any]:
    """Claim a run for nobody, so that it can never start; whether it was free."""
    folder = Path(request["run"])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # of one that has begun nothing is written: the disk may be full
    begun = (folder / run_files.CLAIM).exists()
    mine = not begun and run_files.make_claim(folder, run_files.RunClaim(None, time.time()))
    if mine:
        _tidy({**request, "runs": [str(folder)]})
    else:  # an allocation that has begun has read them
        (folder / folders.SECRETS).unlink(missing_ok=True)
    return {"mine": mine}


def _deliver(request: Mapping[str, Any]) -> dict[str, Any]:
    """Write a request to a run, on a full disk in the space that the run has reserved for it."""
    run_files.write_small(Path(request["run"]), request["name"], request["data"].encode())
    return {}


def _hold(request: Mapping[str, Any]) -> dict[str, Any]:
    """Mark a checkpoint, so that its trainer keeps it, or take the mark away; whether it is there."""
    folder = Path(request["folder"])
    manifest = wire.read_small(folder / contract.MANIFEST, folder)
    if manifest is None or hashlib.sha256(manifest).hexdigest()[:10] != request["id"].rpartition("-")[2]:
        return {"held": False}
    if request["hold"]:
        (folder / contract.PINNED).touch(mode=0o600)
    else:
        (folder / contract.PINNED).unlink(missing_ok=True)
    return {"held": (folder / contract.MANIFEST).exists()}


def _end_chain(request: Mapping[str, Any]) -> dict[str, Any]:
    """Claim for nobody what was queued to go on after a run; of each its job, and whether it was free.

    ``over``: it has ended by itself.
    """
    run = Path(request["run"])
    found = []
    after = run.parent / run_files.next_token(run.name)
    while (after / folders.ORDER).exists():
        free = _is_ended_before_it_begins(after)
        (after / folders.SECRETS).unlink(missing_ok=True)
        over = (after / run_files.EXIT).exists()
        found.append({"token": after.name, "job_id": _queued_as(after), "free": free, "over": over})
        after = after.parent / run_files.next_token(after.name)
    return {"starts": found}


def _is_ended_before_it_begins(folder: Path) -> bool:
    """Claim a start for nobody; whether it is, or would be had the disk space for it: nothing has begun."""
    try:
        return run_files.make_claim(folder, run_files.RunClaim(None, time.time())) or _is_given_up(folder)
    except DiskFullError:
        return not (folder / run_files.CLAIM).exists() or _is_given_up(folder)


def _is_given_up(folder: Path) -> bool:
    """Whether a start was claimed for nobody before: an earlier call did not get further."""
    with contextlib.suppress(RunsError):
        claim = run_files.read_claim(folder)
        return claim is not None and claim.identity is None
    return False


def _queued_as(folder: Path) -> str | None:
    """The number of the job that has a start, or that another allocation has queued for it."""
    for name in (folders.NODE, folders.QUEUED):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if number := json.loads((folder / name).read_bytes())["job_id"]:
                return str(number)
    return None


def _tidy(request: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the secrets and the scratch folders of runs that are over."""
    ours = [run for run in request["runs"] if holders.is_ours(request, run)]
    for run in map(Path, ours):
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
        arrivals.sweep(root, request["unused_seconds"])
    return {}


def _prepare(request: Mapping[str, Any]) -> dict[str, Any]:
    """Make folders for their owner alone; what there is of a run.

    Of a run: its number among the starts of its job, whether another allocation may have queued it, and as
    which job.
    """
    run = Path(request["run"]) if request.get("run") else None
    begun = run is not None and (run / folders.ORDER).exists()
    queued = _queued_as(run) if run else None
    number = succession.next_start_number(run) if run else 0
    for name in request["folders"]:
        Path(name).mkdir(mode=0o700, parents=True, exist_ok=True)
    holders.require(request, _paths(request))  # a folder that was just made has its mark before its first use
    python = list(sys.version_info[:3])
    return {"python": python, "queued": queued, "begun": begun, "start": number}


_OPERATIONS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "look": looking.look,
    "give_up": _give_up,
    "deliver": _deliver,
    "hold": _hold,
    "end_chain": _end_chain,
    "tidy": _tidy,
    "remove": _remove,
    "prepare": _prepare,
    "may_act": _nothing,
    "missing": arrivals.missing,
    "settle": arrivals.settle,
}
_OF_EACH_RUN = frozenset({"look", "tidy"})
"""Operations on runs of several jobs, which leave out those of other services."""

if __name__ == "__main__":
    sys.exit(main())
