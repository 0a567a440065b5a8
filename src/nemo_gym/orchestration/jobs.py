"""The job record: what was submitted, in terms that belong to no executor.

A record outlives the Gym that wrote it. A reader takes any record whose ``schema_version`` is at or below its
own and refuses only a newer one; within one version a field may be added with a default, or removed, and its
meaning never changes. Unknown fields are passed over. This module imports no executor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any, Self

from nemo_gym.errors import DataError

SCHEMA_VERSION = 1
"""The version this Gym writes, and the newest that it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkEntry:
    """One benchmark of a submission."""

    benchmark: str
    job_dir: str
    """Its directory inside the run directory, absolute."""
    job_id: str | None = None
    """The executor's id of the (first) job; ``None`` exactly when queueing failed."""
    error: str | None = None
    """Why queueing failed, when ``job_id`` is ``None``."""
    model: str | None = None
    """The model of a campaign that answers it; its job, which has the id ``job_id``, runs all benchmarks of
    the model and has a folder of this name beside ``job_dir``. ``None``: the benchmark has its own job."""

    @property
    def task(self) -> str:
        """The benchmark without its model: what it has in common with that of other models."""
        return self.benchmark if self.model is None else self.benchmark.removeprefix(f"{self.model}.")

    @property
    def queue_dir(self) -> str:
        """The folder of the job that ``job_id`` names."""
        return self.job_dir if self.model is None else str(PurePath(self.job_dir).with_name(self.model))

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON values; without a campaign it has no ``model``."""
        return {name: value for name, value in asdict(self).items() if name != "model" or value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionRecord:
    """The content of ``gym-job.json``."""

    gym_job_id: str
    """Primary key and the run directory's name: ``gym-job-<YYYYMMDDTHHMMSSZ>-<6 hex>``."""
    gym_version: str
    """Version of the Gym that submitted."""
    gym_commit: str | None
    """Its commit, ``-dirty`` appended where uncommitted changes were; ``None`` when unknown."""
    submitted_at: str
    """UTC, ISO 8601 with a trailing ``Z``."""
    run_dir: str
    """Absolute path."""
    cluster: str
    """Name of the compute entry."""
    executor: str
    """Which executor wrote it. Branch on it before reading ``job_id`` or ``executor_metadata``."""
    submitted_by: str
    """Local username."""
    benchmarks: tuple[BenchmarkEntry, ...]
    hostname: str | None = None
    """Host submitted through; ``None``: directly on the machine with the scheduler's client."""
    executor_metadata: dict[str, str] = field(default_factory=dict)
    """What an executor needs to find the run again."""
    schema_version: int = SCHEMA_VERSION
    labels: dict[str, str] = field(default_factory=dict)
    """What the user called it (``--label k=v``)."""
    config_digest: str | None = None
    """SHA-256 of the resolved config; equal digests are twins."""

    @property
    def failed(self) -> list[BenchmarkEntry]:
        """The benchmarks that could not be queued."""
        return [entry for entry in self.benchmarks if entry.job_id is None]

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values, in the order in which it is written."""
        return {**asdict(self), "benchmarks": [entry.to_json() for entry in self.benchmarks]}

    def dumps(self) -> bytes:
        """The bytes of ``gym-job.json``: every copy of a record holds the same."""
        return (json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n").encode()

    @classmethod
    def load(cls, payload: Mapping[str, Any]) -> Self:
        """Read a record.

        Raises `DataError` when ``schema_version`` is missing, is not a whole number or was written by a newer
        Gym, and when a field is missing or of the wrong type.
        """
        if not isinstance(payload, Mapping):
            raise DataError(f"this is not a job record: a mapping was expected, {_kind(payload)} was found.")
        _check_version(payload)
        take = _Fields(payload, f"job record {payload.get('gym_job_id', '')}".rstrip())
        return cls(
            gym_job_id=take("gym_job_id", _name),
            gym_version=take("gym_version", _text, default=""),
            gym_commit=take("gym_commit", _optional_text, default=None),
            submitted_at=take("submitted_at", _text),
            run_dir=take("run_dir", _text),
            cluster=take("cluster", _text),
            executor=take("executor", _text),
            submitted_by=take("submitted_by", _text, default=""),
            benchmarks=take("benchmarks", _entries),
            hostname=take("hostname", _optional_text, default=None),
            executor_metadata=take("executor_metadata", _text_map, default={}),
            schema_version=payload["schema_version"],
            labels=take("labels", _text_map, default={}),
            config_digest=take("config_digest", _optional_text, default=None),
        )


def _check_version(payload: Mapping[str, Any]) -> None:
    version = payload.get("schema_version")
    if version is None:
        raise DataError("this is not a job record that can be read: its schema_version is missing.")
    if not isinstance(version, int) or isinstance(version, bool):
        raise DataError(f"a job record's schema_version is a whole number; {version!r} was found.")
    if version > SCHEMA_VERSION:
        message = (
            f"this job record has schema_version {version} and was written by a newer Gym; "
            f"this Gym reads up to {SCHEMA_VERSION}: upgrade it to read the record."
        )
        raise DataError(message)


class _Fields:
    """Takes fields out of a payload; whatever is not as it must be is named."""

    def __init__(self, payload: Mapping[str, Any], where: str) -> None:
        self._payload = payload
        self._where = where

    def __call__(self, name: str, read: Callable[[Any], Any], **default: Any) -> Any:
        if name not in self._payload:
            if "default" in default:
                return default["default"]
            raise DataError(f"{self._where}: the field {name} is missing.")
        try:
            return read(self._payload[name])
        except TypeError as error:
            raise DataError(f"{self._where}: {name} {error}.") from None


def _kind(value: object) -> str:
    return "null" if value is None else f"a value of type {type(value).__name__}"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"must be text; {_kind(value)} was found")
    if "\0" in value:
        raise TypeError("must not hold a zero byte")
    return value


def _name(value: Any) -> str:
    """Text that is the name of a file or folder in other files' paths."""
    name = _text(value)
    if not name or "/" in name or name.startswith("."):
        raise TypeError("must be a name, without / and no dot at its beginning")
    return name


def _optional_name(value: Any) -> str | None:
    return None if value is None else _name(value)


def _optional_text(value: Any) -> str | None:
    return None if value is None else _text(value)


def _text_map(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise TypeError(f"must map text to text; {_kind(value)} was found")
    return {_text(key): _text(item) for key, item in value.items()}


def _entries(value: Any) -> tuple[BenchmarkEntry, ...]:
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise TypeError("must be a list of mappings")
    return tuple(_entry(item, number) for number, item in enumerate(value))


def _entry(item: Mapping[str, Any], number: int) -> BenchmarkEntry:
    take = _Fields(item, f"job record, benchmarks[{number}]")
    return BenchmarkEntry(
        benchmark=take("benchmark", _name),
        job_dir=take("job_dir", _text),
        job_id=take("job_id", _optional_text),
        error=take("error", _optional_text, default=None),
        model=take("model", _optional_name, default=None),
    )
