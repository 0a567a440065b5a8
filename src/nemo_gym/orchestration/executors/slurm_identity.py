"""What distinguishes a benchmark's jobs from others with the same number, read from the files of its folder.

The token and the time of the submission are in the folder's path; the owner, the name and the moment before
which nothing was submitted are those of ``job.sh``; when a run had begun is its own word. What cannot be read
is left out, and then it speaks against nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executors.base import JobRef
from nemo_slurm.errors import SlurmError
from nemo_slurm.hosts import Host
from nemo_slurm.records import SlurmJob
from nemo_slurm.remote_script import remote_script

_NAME = re.compile(rb"^#SBATCH --job-name=(\S+)$", re.MULTILINE)
_STAMP = re.compile(r"gym-job-(\d{8}T\d{6}Z)-")
_HEAD = 16_384
"""Bytes of a job script in which its ``#SBATCH`` lines are."""
_NOBODY = 65_534
"""The owner of files whose real owner a file server hides."""


@dataclass(frozen=True, slots=True)
class _Script:
    """What a job script's file says."""

    user: int | None = None
    written_at: float | None = None
    name: str | None = None


@dataclass
class Identities:
    """Knows jobs by more than their numbers; what was read once is not read again."""

    host: Host
    _scripts: dict[Path, _Script] = field(default_factory=dict)
    _begun: dict[JobRef, float] = field(default_factory=dict)

    def of(self, jobs: Sequence[JobRef], clusters: Mapping[str, str]) -> dict[JobRef, SlurmJob]:
        """The jobs whose ids are numbers of Slurm; ``clusters``: id -> name, where it is known."""
        numbers = [job for job in jobs if job.job_id.isdecimal()]
        self._read(numbers)
        return {job: self._job(job, clusters.get(job.job_id)) for job in numbers}

    def _job(self, job: JobRef, cluster: str | None) -> SlurmJob:
        script = self._scripts.get(job.job_dir, _Script())
        stamp = _stamp(job.job_dir.parent.name)
        bounds = [moment for moment in (stamp, script.written_at) if moment is not None]
        return SlurmJob(
            id=job.job_id,
            cluster=cluster,
            submitted_at=min(bounds, default=None),
            token=f"{job.job_dir.parent.name}/{job.job_dir.name}/",
            user=script.user,
            name=script.name,
            began_at=self._begun.get(job),
        )

    def _read(self, jobs: Sequence[JobRef]) -> None:
        folders = list(dict.fromkeys(job.job_dir for job in jobs if job.job_dir not in self._scripts))
        unbegun = [job for job in jobs if job not in self._begun]
        if not (folders or unbegun):
            return
        if self.host.name is None:
            self._scripts |= {folder: _script_here(folder) for folder in folders}
            self._begun |= {job: at for job in unbegun if (at := _begun_here(job)) is not None}
            return
        # what cannot be read now is asked for again the next time
        with contextlib.suppress(SlurmError, ValueError):
            self._read_there(folders, unbegun)

    def _read_there(self, folders: Sequence[Path], jobs: Sequence[JobRef]) -> None:
        """One script on the host: owners and times, names, starts, each found by its path."""
        scripts = {str(JobPaths(folder).script): folder for folder in folders}
        starts = {str(_started(job)): job for job in jobs}
        script = remote_script(__package__, "job_identities", scripts=list(scripts), starts=list(starts))
        owners, names, begun = self.host.run(script, timeout=60).stdout.split("\1")
        named = {path: text.partition("=")[2].strip() for path, text in _rows(names)}
        for path, text in _rows(owners):
            user, _, written = text.partition(" ")
            if path in scripts and user.isdigit() and written.isdigit():
                self._scripts[scripts[path]] = _Script(_owner(int(user)), float(written), named.get(path))
        self._begun |= {starts[path]: float(text) for path, text in _rows(begun) if path in starts}


def _rows(text: str) -> Iterable[tuple[str, str]]:
    """Path and text of lines ``<path>\\0<text>``; a path may hold line breaks."""
    for found in re.finditer(r"([^\0]+)\0([^\n]*)\n", text):
        yield found[1], found[2]


def _script_here(folder: Path) -> _Script:
    path = JobPaths(folder).script
    try:
        found = os.stat(path)
    except OSError:
        return _Script()
    name = None
    with contextlib.suppress(OSError), path.open("rb") as file:
        names = _NAME.findall(file.read(_HEAD))
        name = names[-1].decode("utf-8", "surrogateescape") if names else None
    return _Script(_owner(found.st_uid), found.st_mtime, name)


def _begun_here(job: JobRef) -> float | None:
    try:
        return float(_started(job).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _started(job: JobRef) -> Path:
    return JobPaths(job.job_dir).link(job.job_id, 0).started


def _owner(user: int) -> int | None:
    return None if user == _NOBODY else user


def _stamp(gym_job_id: str) -> float | None:
    """When a submission was made, by the submitter's clock: it is in its id."""
    found = _STAMP.match(gym_job_id)
    with contextlib.suppress(ValueError):
        if found:
            return datetime.strptime(found[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    return None
