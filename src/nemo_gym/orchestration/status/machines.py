"""The machines that submissions ran on: whom to ask about their jobs, and where their files are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Self, cast

from nemo_gym.errors import ConfigError, GymError
from nemo_gym.orchestration.executors.base import JobExecutor
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records.run_files import LocalRunFiles, RunFiles
from nemo_gym.orchestration.status.last_observation import LastSeen
from nemo_slurm.errors import SlurmError


@dataclass(frozen=True)
class SubmissionMachine:
    """One machine with one kind of executor."""

    executor: JobExecutor
    files: RunFiles = field(default_factory=LocalRunFiles)
    memory: LastSeen = field(default_factory=LastSeen)

    @property
    def label(self) -> str:
        """The machine, for messages."""
        return self.files.label


class _Absent:
    """Stands for a machine or an executor that is not available: each use raises the reason."""

    def __init__(self, label: str, error: Exception) -> None:
        self.label = label
        self._error = error

    def __getattr__(self, name: str) -> object:
        raise self._error


def _absent(record: SubmissionRecord, error: Exception) -> SubmissionMachine:
    absent = _Absent(record.hostname or "this machine", error)
    return SubmissionMachine(cast("JobExecutor", absent), cast("RunFiles", absent))


class SubmissionMachines:
    """Opens each machine once, when it is first needed."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str | None], SubmissionMachine] = {}
        self._closing = contextlib.ExitStack()

    def of(self, record: SubmissionRecord) -> SubmissionMachine:
        """Where the jobs of a submission are. Raises `ConfigError` for an unknown executor."""
        key = (record.executor, record.hostname)
        if key not in self._open:
            self._open[key] = self._opened(record)
        return self._open[key]

    def groups(
        self, records: Iterable[SubmissionRecord]
    ) -> Iterator[tuple[SubmissionMachine, list[SubmissionRecord]]]:
        """The submissions by the machine that they ran on."""
        grouped: dict[int, tuple[SubmissionMachine, list[SubmissionRecord]]] = {}
        for record in records:
            machine = self._of_or_absent(record)
            grouped.setdefault(id(machine), (machine, []))[1].append(record)
        yield from grouped.values()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._closing.close()

    def _of_or_absent(self, record: SubmissionRecord) -> SubmissionMachine:
        """One record that names no machine must not keep the others from being shown."""
        key = (record.executor, record.hostname)
        try:
            return self.of(record)
        except (ConfigError, SlurmError) as error:
            self._open[key] = machine = _absent(record, error)
            return machine

    def _opened(self, record: SubmissionRecord) -> SubmissionMachine:
        from nemo_gym.orchestration.executors.registry import executor_for
        from nemo_gym.orchestration.records.run_files import run_files
        from nemo_slurm.ssh import host_of

        host = host_of(record.hostname)
        self._closing.callback(host.close)
        memory = LastSeen.of(record.executor, record.hostname or "")
        return SubmissionMachine(executor_for(record.executor, host), run_files(host), memory)


class MachinesHere(SubmissionMachines):
    """The same for who must not open a connection: of another machine nobody is asked.

    Files of its submissions are read where a copy of them is here.
    """

    def _opened(self, record: SubmissionRecord) -> SubmissionMachine:
        if record.hostname is None:
            return super()._opened(record)
        asks = f"no page asks {record.hostname}; `gym job status` does"
        memory = LastSeen.of(record.executor, record.hostname)
        silent = cast("JobExecutor", _Absent(record.hostname, GymError(asks)))
        return SubmissionMachine(silent, LocalRunFiles(), memory)
