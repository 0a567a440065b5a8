"""Who may write one output: numbered claims in a folder, the highest number owns it.

A claim appears whole or not at all, under a number that nobody else can have, so of two openers exactly one
wins on any file system. Nothing has to be deleted by hand: a claim whose process is gone is succeeded by the
next number. The lock only turns away a second user; that a predecessor which nobody can see from here writes
no more into the rows is ensured by a fresh copy of them (`Ownership.proven` says whether one is needed).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from nemo_gym.errors import BusyError
from nemo_runs.durable import files
from nemo_runs.errors import RunsError
from nemo_runs.processes.trees import Liveness, ProcessIdentity, identify, liveness

STALE_AFTER: Final = 30.0
"""Seconds without a heartbeat after which an owner that cannot be seen from here is succeeded."""

_LEFT_BEHIND: Final = 60.0
_CLAIM: Final = re.compile(r"[0-9]{6,18}\.json").fullmatch
_TEMPORARY: Final = re.compile(r"\.tmp-\d+-[0-9a-f]{12}").fullmatch


class SupersededError(BusyError):
    """Another collector has taken this output over; what this one does from now on is not counted."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """On whose behalf an output is claimed."""

    process: ProcessIdentity
    chain: str | None = None
    """``<gym_job_id>/<benchmark>``: jobs of one chain succeed each other without waiting."""
    job_id: str | None = None
    restart: int = 0

    @classmethod
    def of(cls, link: Mapping[str, Any], environ: Mapping[str, str]) -> Claimant:
        """This process, in the job that ``link`` or else the environment of a job script names."""
        restart = str(link.get("restart") or environ.get("NEMO_GYM_RESTART") or 0)
        job_id = link.get("job_id") or environ.get("NEMO_GYM_JOB_ID")
        return cls(
            process=identify(),
            chain=link.get("chain") or environ.get("NEMO_GYM_CHAIN") or None,
            job_id=str(job_id) if job_id else None,
            restart=int(restart) if restart.isdigit() else 0,
        )

    def is_of_another_job_than(self, other: Claimant) -> bool:
        """Whether both work in jobs, and not in the same run of one job."""
        mine, theirs = (self.job_id, self.restart), (other.job_id, other.restart)
        return self.job_id is not None and other.job_id is not None and mine != theirs


@dataclass(frozen=True, slots=True)
class OutputClaim:
    """What one claim file says."""

    claimant: Claimant
    state: Literal["held", "released"]
    fenced: bool
    """Whether no earlier owner can still have the rows open for writing."""

    def encode(self) -> bytes:
        """The claim as one JSON line."""
        owner = self.claimant
        values = {
            "process": owner.process.to_json(),
            "chain": owner.chain,
            "job_id": owner.job_id,
            "restart": owner.restart,
            "state": self.state,
            "fenced": self.fenced,
        }
        return json.dumps(values).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> OutputClaim | None:
        """Read a claim; ``None`` for one that is damaged or still being written."""
        try:
            found = json.loads(data)
            claimant = Claimant(
                process=ProcessIdentity.from_json(found["process"]),
                chain=found["chain"],
                job_id=found["job_id"],
                restart=found["restart"],
            )
            return cls(
                claimant, "released" if found["state"] == "released" else "held", bool(found["fenced"])
            )
        except (ValueError, KeyError, TypeError, RunsError):
            return None


@dataclass(slots=True)
class Ownership:
    """A claim that this process holds."""

    path: Path
    number: int
    claim: OutputClaim

    @property
    def proven(self) -> bool:
        """Whether nobody else can still be writing into the rows; if not, they need a fresh copy."""
        return self.claim.fenced

    def fence(self) -> None:
        """Record that the rows are in files that no earlier owner has open."""
        if not self.claim.fenced:
            self._write(replace(self.claim, fenced=True))

    def beat(self) -> None:
        """Touch the claim with the file server's clock. A claim that is gone is `lost`, not an error."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.path)

    def lost(self) -> bool:
        """Whether a later claim exists, or this one is gone."""
        return _claim_path(self.path.parent, self.number + 1).exists() or not self.path.exists()

    def release(self) -> None:
        """Let go: the next opener waits for nothing and copies nothing."""
        if self.claim.state == "held" and self.path.exists():
            self._write(replace(self.claim, state="released"))

    def try_to_release(self) -> None:
        """Let go if that can be written; the claim of a process that ended is succeeded anyhow."""
        with contextlib.suppress(OSError, RunsError):
            self.release()

    def _write(self, claim: OutputClaim) -> None:
        files.replace_file(self.path, claim.encode())
        self.claim = claim


def acquire(folder: Path, claimant: Claimant, *, output: Path) -> Ownership:
    """Claim an output for a process, or raise `BusyError` naming who has it and when to try again.

    A claim that was released, or whose process is dead on this machine, is succeeded at once. One of another
    job of the same chain is succeeded at once too, alive or not: the scheduler started this job since that
    one is over. One of a process that cannot be seen from here is succeeded at once by the same chain, else
    after `STALE_AFTER` seconds without a heartbeat. In the last two cases the rows need a fresh copy.
    ``output`` names the output in messages.
    """
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        number = _highest(folder)
        fenced = _succeeds(folder, number, claimant, output) if number else True
        claim = OutputClaim(claimant, "held", fenced)
        path = _claim_path(folder, number + 1)
        try:
            files.create_file(path, claim.encode())
        except FileExistsError:
            continue  # somebody else was quicker: look again at who that is
        sweep(folder, path)
        return Ownership(path, number + 1, claim)


def superseded(output: Path) -> SupersededError:
    """The error for an owner that has lost its output."""
    return SupersededError(
        f"{output}: another collector has taken this output over, so this one ends; "
        "rows that it had in flight are collected there."
    )


def _succeeds(folder: Path, number: int, claimant: Claimant, output: Path) -> bool:
    """Whether the succession of one claim is proven; raises `BusyError` when it may not be succeeded."""
    path = _claim_path(folder, number)
    claim, age = _read(path, folder)
    if claim is None:
        if age > STALE_AFTER:
            return False
        raise BusyError(f"{output}: somebody is about to collect into it ({path}); {_again(age)}.")
    if claim.state == "released":
        return claim.fenced
    owner = claim.claimant
    seen = liveness(owner.process)
    if seen is Liveness.DEAD:  # since another boot two machines of one name may be meant: that proves nothing
        return claim.fenced and owner.process.boot_id == claimant.process.boot_id
    same_chain = owner.chain is not None and owner.chain == claimant.chain
    if same_chain and owner.is_of_another_job_than(claimant):
        return False  # the scheduler started this one because that one is over for it: fenced, not waited for
    if seen is Liveness.ALIVE:
        raise BusyError(
            f"{output}: process {owner.process.pid} on this machine is collecting into it{_job(owner)}; "
            "wait until it ends, stop it, or choose another --output."
        )
    if same_chain or age > STALE_AFTER:
        return False
    process = owner.process
    raise BusyError(
        f"{output}: process {process.pid} on host {process.host} is collecting into it{_job(owner)}, "
        f"seen {max(age, 0):.0f} s ago; {_again(age)}."
    )


def _again(age: float) -> str:
    return f"if it is gone, try again in {max(STALE_AFTER - max(age, 0), 0) + 1:.0f} s"


def _job(owner: Claimant) -> str:
    return f" (job {owner.job_id})" if owner.job_id else ""


def _read(path: Path, folder: Path) -> tuple[OutputClaim | None, float]:
    """A claim and the age of its heartbeat in seconds, both times taken from the file server's clock."""
    with path.open("rb") as file:  # opening makes a network file system look at the server again
        claim = OutputClaim.decode(file.read())
        beaten = os.fstat(file.fileno()).st_mtime
    return claim, _server_time(folder) - beaten


def _server_time(folder: Path) -> float:
    probe = folder / f".tmp-{os.getpid()}-{os.urandom(6).hex()}"
    try:
        with probe.open("xb") as file:
            os.utime(probe)
            return os.fstat(file.fileno()).st_mtime
    finally:
        probe.unlink(missing_ok=True)


def sweep(folder: Path, claim: Path) -> None:
    """Remove temporary files in ``folder`` that killed processes left; the newest claim's time says what is
    old.
    """
    newest = claim.stat().st_mtime
    for path in folder.glob(".tmp-*"):
        if not _TEMPORARY(path.name):
            continue
        with contextlib.suppress(OSError):
            if newest - path.stat().st_mtime > _LEFT_BEHIND:
                path.unlink()


def _claim_path(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.json"


def _highest(folder: Path) -> int:
    return max((int(path.stem) for path in folder.glob("*.json") if _CLAIM(path.name)), default=0)
