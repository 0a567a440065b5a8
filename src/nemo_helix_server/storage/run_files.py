"""The files in a run's folder: their names, and how a claim and an end are written and read.

Standard library and `nemo_runs` only: the shim of a run loads this without any installed package.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nemo_runs.durable.disk import read_regular, sync_folder, write_all, write_new
from nemo_runs.durable.files import create_file, replace_file
from nemo_runs.errors import DiskFullError, RunsError
from nemo_runs.processes.trees import ProcessIdentity

CLAIM = "claim.json"
"""Who runs it: written once, by the first one."""
STARTED = "started.json"
"""The command's process, once there is one."""
EXIT = "exit.json"
"""How it ended; written last, by the shim alone."""
STOP = "stop.json"
CONTROL = "control.json"
OUTPUT = "output.jsonl"
SHIM_LOG = "shim.log"
CONFIG_FOLDER = "config"
CONFIG_FILE = "job_step_config.json"

NO_PROGRAM = "could not be started: "
"""What the reason of an end begins with whose command has no program that can be run; its name follows."""
_RESERVED_BYTES = 4096
"""Of each file that is to be written though the disk is full: an end, a request."""
_LAST_SECOND = 253_402_300_799
"""Of the year 9999."""


class StepRun(NamedTuple):
    """One start of a step: what names it, and nothing of where its files are.

    Who needs a file of it asks the storage of its executor, see `storage.run_storage.RunStorage`.
    """

    workspace: str
    job_id: str
    attempt_id: str
    step: str
    """The step's name."""
    token: str
    """The task's name, ``task-<32 hex>``; also the value of ``NEMO_JOB_TASK``, by which strays are found."""
    executor: str = ""
    """The name of the executor that has it; empty for the default one."""
    profile: str = ""
    """``<provider>/<profile>`` that its step names; empty where that is not known."""


def next_token(token: str) -> str:
    """The token of the start that goes on in the same attempt after one whose place was taken away.

    It follows from the token before, so the service and a cluster make the same start.
    """
    return f"task-{hashlib.sha256(f'after {token}'.encode()).hexdigest()[:32]}"


@dataclass(frozen=True, slots=True)
class RunClaim:
    """Who took a run: the process that runs it, or nobody, when it was given up before it started."""

    identity: ProcessIdentity | None
    at: float


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How a run ended, as its shim saw it; times in seconds since the epoch."""

    exit_status: int
    """As a shell says it."""
    signal: int
    started_at: float
    ended_at: float
    out_of_memory: bool
    timed_out: bool
    stopped: bool
    reason: str
    never_started: bool = False
    """The command was not run, through no fault of its own: another start may."""
    disk_full: bool = False
    """It failed, and the last that was to be written in its folder did not fit."""


def make_claim(folder: Path, claim: RunClaim) -> bool:
    """Take a run; false when somebody else has it."""
    identity = claim.identity.to_json() if claim.identity else None
    try:
        create_file(folder / CLAIM, _line({"identity": identity, "at": claim.at}), mode=0o600)
    except FileExistsError:
        return False
    return True


def read_claim(folder: Path) -> RunClaim | None:
    """Who took a run; `None` when nobody did. Raises `RunsError` for a damaged record."""
    value = _read(folder / CLAIM)
    if value is None:
        return None
    identity = value.get("identity")
    at = value.get("at")
    if not (identity is None or isinstance(identity, Mapping)) or not isinstance(at, int | float):
        raise RunsError(f"{folder / CLAIM}: not the record of a claim")
    return RunClaim(ProcessIdentity.from_json(identity) if identity is not None else None, float(at))


def write_started(folder: Path, command: ProcessIdentity, at: float) -> None:
    """Put on record that the command runs; after a crash of the machine it does not."""
    line = _line({"command": command.to_json(), "at": at})
    replace_file(folder / STARTED, line, mode=0o600, durable=False)


def read_started(folder: Path) -> tuple[ProcessIdentity, float] | None:
    """The command's process and when it began; `None` before, and for a damaged record."""
    with contextlib.suppress(RunsError, KeyError, TypeError, ValueError):
        value = _read(folder / STARTED)
        if value is not None:
            return ProcessIdentity.from_json(value["command"]), float(value["at"])
    return None


def write_end(folder: Path, end: ExitRecord) -> None:
    """Put the end on record, durably; on a full disk in the space that was reserved for it."""
    write_small(folder, EXIT, _line(asdict(end)))
    for name in (EXIT, CONTROL, STOP):
        _reserved(folder, name).unlink(missing_ok=True)


def reserve(folder: Path) -> None:
    """Take the space of a run's end, and of requests to it, for when the disk is full.

    Raises `DiskFullError` when it is full already.
    """
    for name in (EXIT, CONTROL, STOP):
        write_new(_reserved(folder, name), b" " * _RESERVED_BYTES, 0o600)


def write_small(folder: Path, name: str, data: bytes) -> None:
    """Replace a small file of a run durably, on a full disk in the space that was reserved for it.

    Raises `DiskFullError` where there is none.
    """
    try:
        replace_file(folder / name, data, mode=0o600)
    except DiskFullError:
        if not _write_into_reserved(folder, name, data):
            raise


def _write_into_reserved(folder: Path, name: str, data: bytes) -> bool:
    """Overwrite the file that has the space, and give it the name; whether that could be done."""
    place = _reserved(folder, name)
    try:
        descriptor = os.open(place, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            write_all(descriptor, data)
            os.ftruncate(descriptor, len(data))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        place.replace(folder / name)
    except OSError:
        return False
    with contextlib.suppress(OSError):
        sync_folder(folder)
    return True


def _reserved(folder: Path, name: str) -> Path:
    return folder / f".{name}.reserved"


def read_end(folder: Path) -> ExitRecord | None:
    """How a run ended; `None` when that is not on record. Raises `RunsError` for a damaged record."""
    value = _read(folder / EXIT)
    if value is None:
        return None
    try:
        end = ExitRecord(
            exit_status=int(value["exit_status"]),
            signal=int(value["signal"]),
            started_at=float(value["started_at"]),
            ended_at=float(value["ended_at"]),
            out_of_memory=value["out_of_memory"] is True,
            timed_out=value["timed_out"] is True,
            stopped=value["stopped"] is True,
            reason=str(value["reason"]),
            never_started=value.get("never_started") is True,
            disk_full=value.get("disk_full") is True,
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RunsError(f"{folder / EXIT}: not the record of an end: {error!r}") from error
    if not (0 <= end.started_at <= _LAST_SECOND and 0 <= end.ended_at <= _LAST_SECOND):
        raise RunsError(f"{folder / EXIT}: not the record of an end: its times cannot be right")
    return end


class StopRequest(NamedTuple):
    """How a run is to be ended."""

    grace_seconds: float
    """How long it may take to end."""
    stacks: bool = False
    """Whether its processes first write where they are into its log."""


def write_stop(folder: Path, request: StopRequest) -> None:
    """Say that the run is to end; the signal that follows is a nudge."""
    replace_file(folder / STOP, _line(request._asdict()), mode=0o600)


def read_stop(folder: Path) -> StopRequest | None:
    """How the run is to end; `None` when nobody asked for its end here."""
    with contextlib.suppress(RunsError, KeyError, TypeError, ValueError):
        value = _read(folder / STOP)
        if value is not None:
            grace = max(0.0, float(value["grace_seconds"]))
            return StopRequest(grace, value.get("stacks") is True)
    return None


def wake(fifo: str | None) -> None:
    """Notify the reader of a named pipe of a change; a reader is not required."""
    if fifo is None:
        return
    with contextlib.suppress(OSError):
        descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"!")
        finally:
            os.close(descriptor)


def _line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value).encode("ascii") + b"\n"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(read_regular(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise RunsError(f"{path}: cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise RunsError(f"{path}: not a JSON object")
    return value
