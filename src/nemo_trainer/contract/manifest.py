"""``MANIFEST.json``: what a checkpoint consists of. A checkpoint without one does not exist."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from nemo_runs.durable.disk import read_regular
from nemo_runs.durable.files import replace_file
from nemo_trainer.contract.errors import CheckpointUnusableError
from nemo_trainer.contract.names import MANIFEST

Reason = Literal["periodic", "pause", "final", "asked"]

_REASONS: tuple[Reason, ...] = get_args(Reason)
_SCHEMA = 1
_DIGEST = "sha256"
_LARGEST = 64 << 20
"""Bytes of a manifest."""
_MOST = 1 << 53
"""Numbers from here on are none that was counted."""
_LAST_SECOND = 253_402_300_799
"""Of the year 9999."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a checkpoint."""

    path: str
    """Relative to the checkpoint's folder, with ``/``."""
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a checkpoint consists of, and what it belongs to."""

    step: int
    """Number of finished steps, from 1."""
    files: tuple[FileEntry, ...]
    job: str = ""
    attempt: str = ""
    task: str = ""
    """The start of the step that wrote it."""
    generation: int = 0
    """The generation that wrote it, see `nemo_trainer.contract.generations`; 0: none is named."""
    created_at: float = 0.0
    """UTC seconds since the epoch."""
    engine: Mapping[str, Any] = field(default_factory=dict)
    """Name and version of the training library, and whatever it needs to load the checkpoint."""
    environment: str | None = None
    """What names the image, or the lock file of the environment."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Digests of what must not change before training goes on: data, specification, world size."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The latest values, by name."""
    reason: Reason = "periodic"
    schema: int = _SCHEMA

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(entry.size for entry in self.files)


def read_manifest(folder: Path, *, within: Path | None = None) -> Manifest:
    """The manifest in a checkpoint's folder; raises `CheckpointUnusableError` when there is no usable one."""
    return parse_manifest(read_bytes(folder, within=within), folder)


def read_bytes(folder: Path, *, within: Path | None = None) -> bytes:
    """The manifest that is in the folder; raises `CheckpointUnusableError`."""
    try:
        return read_regular(folder / MANIFEST, most=_LARGEST, within=within)
    except FileNotFoundError:
        raise CheckpointUnusableError(f"{folder}: has no {MANIFEST}, so it was never finished") from None
    except OSError as error:
        raise CheckpointUnusableError(f"{folder / MANIFEST}: cannot be read: {error.strerror}") from error


def parse_manifest(data: bytes, folder: Path) -> Manifest:
    """A manifest from its bytes; ``folder`` is named in the error."""
    try:
        value = json.loads(data)
        json.dumps(value, ensure_ascii=False).encode()  # raises for text that nobody could write down again
        if value.get(_DIGEST, digest := _digest(value)) != digest:
            raise ValueError("it is not as it was written")  # noqa: TRY301 - one funnel for all damage
        if value["schema"] != _SCHEMA:
            raise ValueError(f"schema {value['schema']!r} is not {_SCHEMA}")  # noqa: TRY301 - one funnel for all damage
        return Manifest(
            step=positive(value["step"]),
            files=parse_files(value["files"]),
            job=str(value.get("job", "")),
            attempt=str(value.get("attempt", "")),
            task=str(value.get("task", "")),
            generation=_size(value.get("generation", 0)),
            created_at=_moment(value.get("created_at", 0)),
            engine=dict(value.get("engine") or {}),
            environment=None if value.get("environment") is None else str(value["environment"]),
            inputs={str(name): str(digest) for name, digest in (value.get("inputs") or {}).items()},
            metrics={
                str(name): float(number)
                for name, number in (value.get("metrics") or {}).items()
                if math.isfinite(number)
            },
            reason=_REASONS[_REASONS.index(value.get("reason", "periodic"))],
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise CheckpointUnusableError(f"{folder / MANIFEST}: is damaged: {error!r}") from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put the manifest there, durably; everything that it names must be on the disk by then."""
    replace_file(folder / MANIFEST, encode_manifest(manifest), mode=None)


def encode_manifest(manifest: Manifest) -> bytes:
    """The bytes of ``MANIFEST.json``."""
    value = asdict(manifest)
    value[_DIGEST] = _digest(value)
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False).encode("ascii") + b"\n"


def _digest(value: Mapping[str, Any]) -> str:
    """Of everything else in a manifest: a damaged word in it would be taken for another input."""
    rest = {name: part for name, part in value.items() if name != _DIGEST}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode("ascii")).hexdigest()


def parse_files(value: list[Mapping[str, Any]], *, inside: bool = True) -> tuple[FileEntry, ...]:
    """File entries from JSON; paths must stay in the folder if ``inside``. Raises `ValueError`."""
    entries = tuple(
        FileEntry(str(entry["path"]), _size(entry["size"]), str(entry["sha256"])) for entry in value
    )
    for entry in entries:
        path = PurePosixPath(entry.path)
        if path.is_absolute() or not path.parts or (inside and ".." in path.parts) or "\0" in entry.path:
            raise ValueError(f"the path {entry.path!r} leaves the folder")
    return entries


def positive(value: Any) -> int:
    """A whole number from 1; raises `ValueError`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < _MOST:
        raise ValueError("the step is not a whole number from 1")
    return value


def _size(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
        raise ValueError("a size or a generation is not a whole number from 0")
    return value


def _moment(value: Any) -> float:
    if not 0 <= (moment := float(value)) <= _LAST_SECOND:
        raise ValueError("created_at is not a time")
    return moment
