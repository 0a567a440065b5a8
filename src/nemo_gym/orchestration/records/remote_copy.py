"""What a command that only reads needs of a run on another machine, in a folder that goes with the command.

A certificate needs every row. A bill needs small files and, of every row, when it ended and how long it took;
so the rows stay where they are and that machine picks the times out of them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol, Self

from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records import fetch, locations
from nemo_gym.orchestration.records.index import Reporter
from nemo_gym.orchestration.records.locations import SubmissionLocation
from nemo_runs.counts import counted
from nemo_slurm.hosts import Host
from nemo_slurm.remote_script import remote_script
from nemo_slurm.ssh import host_of

_SLOW: Final = 3600.0
"""Seconds for which a machine may read rows."""

_NO_ROWS: Final = 44


class FilesWanted(Protocol):
    """Copies what one command needs of a run directory into a folder."""

    def __call__(self, record: SubmissionRecord, host: Host, folder: Path, *, report: Reporter) -> None:
        """Raises `GymError` when it is not there, `SlurmError` when the machine does not answer."""
        ...


class RemoteCopy:
    """Where submissions are. Those of other machines are brought here first; what was brought goes again.

    Each machine is opened once.
    """

    def __init__(
        self, bring: FilesWanted, *, report: Reporter, hosts: Callable[[str | None], Host] = host_of, why: str
    ) -> None:
        self._bring, self._report, self._hosts, self._why = bring, report, hosts, why
        self._open: dict[str | None, Host] = {}
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._closing.close()

    def find(self, name: str) -> SubmissionLocation:
        """As `places.find_location`, for another machine's too."""
        return locations.find_location(name, report=self._report, location=self.of)

    def of(self, record: SubmissionRecord) -> SubmissionLocation:
        """As `places.location_of`, for another machine's too. Raises `SlurmError` when it does not answer."""
        if record.hostname is None or Path(record.run_dir).is_dir():
            return locations.location_of(record)
        return self.brought(record)

    def brought(self, record: SubmissionRecord) -> SubmissionLocation:
        """Copy what is needed into a folder that lasts as long as this."""
        if record.hostname not in self._open:
            host = self._hosts(record.hostname)
            self._closing.callback(host.close)
            self._open[record.hostname] = host
        host = self._open[record.hostname]
        base = self._closing.enter_context(tempfile.TemporaryDirectory(prefix="gym-"))
        folder = Path(base) / record.gym_job_id
        source = f"{host.label}:{record.run_dir}"
        self._report(f"{source} is read over there: {self._why} into a temporary folder, removed at the end.")
        self._bring(record, host, folder, report=self._report)
        return SubmissionLocation(record, folder, source)


def for_certificate(benchmark: str | None) -> FilesWanted:
    """All results and records, of one benchmark where it is named."""

    def bring(record: SubmissionRecord, host: Host, folder: Path, *, report: Reporter) -> None:
        chosen = [entry.benchmark for entry in locations.chosen(record, benchmark)]
        done = fetch.fetch(record, host, folder, logs=False, only=lambda path: _is_of(path, chosen))
        if done.changing:
            again = "verify again when the run has ended"
            report(f"{counted(len(done.changing), 'file was', 'files were')} written to meanwhile: {again}.")

    return bring


def _is_of(path: str, benchmarks: Iterable[str]) -> bool:
    return "/" not in path or any(path.startswith(f"{name}/") for name in benchmarks)


def for_bill(record: SubmissionRecord, host: Host, folder: Path, *, report: Reporter) -> None:
    """Small files, failed attempts and the times of rows."""
    del report
    jobs = {entry.benchmark: JobPaths(Path(record.run_dir) / entry.benchmark) for entry in record.benchmarks}
    fetch.fetch(record, host, folder, logs=False, only=lambda path: _is_billed(path, jobs))
    for name, there in jobs.items():
        _bring_times(host, there, JobPaths(folder / name).rollouts.output)


def _is_billed(path: str, benchmarks: Iterable[str]) -> bool:
    if "/" not in path:
        return True
    jobs = [JobPaths(Path(name)) for name in benchmarks]
    wanted = {str(file) for job in jobs for file in _small_files(job)}
    return path in wanted or any(Path(path).is_relative_to(job.links) for job in jobs)


def _small_files(job: JobPaths) -> tuple[Path, ...]:
    return job.run_config, job.events, job.rollouts.failures, job.rollouts.coverage


def _bring_times(host: Host, there: JobPaths, rows: Path) -> None:
    output = there.rollouts.output.relative_to(there.job_dir)
    script = remote_script(__package__, "row_times", folder=str(there.job_dir), rows=str(output))
    done = host.run(script, timeout=_SLOW)
    if done.status == _NO_ROWS:
        return
    times, _, modified = done.stdout.rstrip("\n").rpartition("\n")
    try:
        seconds = float(modified)
    except ValueError:
        seconds = -1.0
    if done.status or seconds < 0:
        where = f"{there.rollouts.output} on {host.label}"
        raise GymError(f"{where} cannot be read ({done.stderr.strip() or f'status {done.status}'}).")
    rows.parent.mkdir(parents=True, exist_ok=True)
    rows.write_bytes(f"{times}\n".encode("utf-8", "surrogateescape") if times else b"")
    os.utime(rows, (seconds, seconds))
