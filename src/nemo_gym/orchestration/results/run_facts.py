"""Facts about a run that tables show beside its score, and by which they name their rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_gym.errors import DataError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.results.scores import BenchmarkResult
from nemo_gym.rollouts.output.manifest import OutputManifest, load_manifest
from nemo_runs.clock import moment
from nemo_runs.durations import duration_in_words

NAMES = ("model", "served", "id", "benchmark", "submitted", "age", "cluster", "labels")
"""Facts with names of their own; ``model`` is the name in a campaign, else, as ``served`` always, that
under which the model answered. ``label.NAME`` is a label, anything else a setting of the run."""


def run_fact(
    name: str, record: SubmissionRecord | None, result: BenchmarkResult, *, now: float
) -> str | None:
    """One fact as text; ``None`` where the run has none. ``now`` is in UTC seconds.

    A run without a record has no cluster and no labels, and was submitted when its output was made.

    A setting is named by its dotted path in the run configuration, such as
    ``responses_create_params.temperature``; the manifest holds those that affect answers or grades.
    """
    labels = {} if record is None else record.labels
    plain = {
        "model": result.label or result.model,
        "served": result.model,
        "id": result.gym_job_id,
        "benchmark": result.column,
        "cluster": None if record is None else record.cluster,
        "labels": " ".join(f"{key}={value}" for key, value in labels.items()) or None,
    }
    if name in plain:
        return plain[name]
    if name.startswith("label."):
        return labels.get(name.removeprefix("label."))
    if name not in ("age", "submitted"):
        return _setting(name, result)
    manifest = _manifest(result) if record is None else None
    at = manifest.created_at if manifest is not None else record.submitted_at if record is not None else ""
    return _age(at, now) if name == "age" else at or None


def _age(submitted_at: str, now: float) -> str | None:
    try:
        return duration_in_words(max(0.0, now - moment(submitted_at) / 1_000_000), units=1)
    except ValueError:
        return None


def _manifest(result: BenchmarkResult) -> OutputManifest | None:
    try:
        return load_manifest(RolloutPaths(Path(result.output)).manifest)
    except (DataError, OSError):
        return None


def _setting(name: str, result: BenchmarkResult) -> str | None:
    manifest = _manifest(result)
    if manifest is None:
        return None
    for values in (manifest.generation, manifest.scoring):
        found: Any = values
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is not None:
            return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return None
