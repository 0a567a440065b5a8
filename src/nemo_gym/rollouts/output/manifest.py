"""The manifest beside the results: what the rows belong to, and which runs added to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from nemo_gym.errors import DataError
from nemo_gym.rollouts.run_config import identity
from nemo_runs.durable import files

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class OutputManifest:
    """What the rows of one output belong to. Written as a whole, replaced by rename."""

    run_id: str
    """Made once an output, kept by every resume."""
    created_at: str
    """UTC, as `nemo_runs.clock.utc_text` writes it."""
    gym_version: str
    gym_commit: str | None
    """Version and commit that created the output; each of ``links`` has the ones that it ran."""
    generation: dict[str, Any]
    """What affects answers."""
    scoring: dict[str, Any]
    """What affects grades."""
    model: dict[str, Any] | None
    """What the endpoint said about the model that answered."""
    num_tasks: int
    num_repeats: int
    materialized: dict[str, Any]
    """``sha256``, ``size`` in bytes, ``rows`` and ``mtime_ns`` of the materialized inputs."""
    unpublished: str | None = None
    """Why questions and answers must not be published; ``None`` where they may, or where it was not said."""
    unsafe_resumes: list[dict[str, Any]] = field(default_factory=list)
    """Each resume that was allowed although something differed: ``at``, ``differences``, ``recorded``."""
    links: list[dict[str, Any]] = field(default_factory=list)
    """Each start on this output: time, process, job and version."""
    schema_version: int = SCHEMA_VERSION

    @property
    def identity(self) -> identity.Identity:
        """What the recorded rows belong to."""
        return identity.Identity(self.generation, self.scoring, self.model)

    @property
    def benchmark(self) -> str | None:
        """The benchmark's own name, whatever its folder is called."""
        found = self.generation.get("benchmark")
        name = found.get("name") if isinstance(found, Mapping) else None
        return str(name) if name else None

    @property
    def expected(self) -> int:
        """How many rollouts make the output complete."""
        return self.num_tasks * self.num_repeats

    def to_json(self) -> dict[str, Any]:
        """The manifest as it is in its file; digests and counts are written out for readers."""
        values = asdict(self)
        generation, scoring = values.pop("generation"), values.pop("scoring")
        if self.unpublished is None:
            del values["unpublished"]
        head = {key: values.pop(key) for key in ("schema_version", "run_id", "created_at")}
        return {
            **head,
            "gym_version": values.pop("gym_version"),
            "gym_commit": values.pop("gym_commit"),
            "generation_digest": identity.digest(generation),
            "scoring_digest": identity.digest(scoring),
            "num_tasks": values.pop("num_tasks"),
            "num_repeats": values.pop("num_repeats"),
            "expected": self.expected,
            "identity": {"generation": generation, "scoring": scoring},
            **values,
        }

    def save(self, path: Path) -> None:
        """Replace the file durably."""
        text = json.dumps(self.to_json(), indent=2, ensure_ascii=False, default=str)
        files.replace_file(path, text.encode("utf-8", "replace") + b"\n")


def load_manifest(path: Path) -> OutputManifest | None:
    """Read a manifest, ``None`` where there is none; keys of later versions are ignored.

    Raises `DataError` for one that is damaged or written by a `gym` with another schema.
    """
    try:
        data = files.read_document(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{path}: it cannot be read ({error.strerror or error}).") from None
    try:
        found = json.loads(data)
        version = found["schema_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path}: not a manifest ({type(error).__name__}: {error}).") from error
    if version != SCHEMA_VERSION:
        raise DataError(
            f"{path}: written in schema {version}, this gym reads {SCHEMA_VERSION}; use a newer gym."
        )
    return _read(path, found)


def _read(path: Path, found: Mapping[str, Any]) -> OutputManifest:
    known = {item.name for item in fields(OutputManifest)}
    try:
        values = {**found, **{key: found["identity"][key] for key in ("generation", "scoring")}}
        manifest = OutputManifest(**{key: value for key, value in values.items() if key in known})
        sound = isinstance(manifest.generation, dict) and isinstance(manifest.scoring, dict)
        sound = sound and manifest.expected >= 0 and isinstance(manifest.materialized, dict)
        sound = sound and isinstance(manifest.links, list) and isinstance(manifest.unsafe_resumes, list)
    except (KeyError, TypeError) as error:
        raise DataError(f"{path}: not a whole manifest ({error}).") from error
    if not sound:
        raise DataError(f"{path}: not a whole manifest (wrong types).")
    return manifest
