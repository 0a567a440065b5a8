"""The last thing that an executor said of each job, kept so that its silence changes nothing.

A cache beside the local index, one file a machine: losing it loses only this memory. An end is kept
only where it is proven to be that of this very job, and gives way to everything that shows a later life.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nemo_gym import job_paths
from nemo_gym.chain.evidence import TimedObservation
from nemo_gym.chain.observation import JobObservation, JobState
from nemo_gym.orchestration.executors.base import JobRef
from nemo_runs.durable.files import read_document, replace_file
from nemo_runs.errors import RunsError

_KEPT = 20_000
"""Jobs that are remembered; those that were seen longest ago are forgotten first."""


class LastSeen:
    """What was seen of the jobs of one machine."""

    def __init__(self, path: Path | None = None) -> None:
        """``path``: where it is kept between two commands; `None`: nowhere."""
        self._path = path
        self._seen = _load(path) if path is not None else {}
        self._changed = False

    @classmethod
    def of(cls, executor: str, machine: str) -> LastSeen:
        """The memory of an executor's jobs on a machine, kept beside the local index."""
        name = hashlib.sha256(f"{executor}\n{machine}".encode()).hexdigest()[:16]
        return cls(job_paths.job_index() / f".seen-{name}.json")

    def of_job(self, job: JobRef) -> TimedObservation | None:
        """What was seen of a job last."""
        return self._seen.get(_key(job))

    def remember(self, job: JobRef, observation: JobObservation, at: float) -> None:
        """Keep what was seen just now; that nothing was known is not worth keeping.

        An end that may be another job's takes the place of nothing, and nothing takes its place.
        """
        if observation.state is JobState.UNKNOWN or (observation.state.final and not observation.proven):
            return
        self._seen[_key(job)] = TimedObservation(observation, at, fresh=False)
        self._changed = True

    def save(self) -> None:
        """Write the memory; where that fails, nothing is remembered."""
        if self._path is None or not self._changed:
            return
        newest = sorted(self._seen.items(), key=lambda item: item[1].at)[-_KEPT:]
        found = {key: {**asdict(seen.observation), "at": seen.at} for key, seen in newest}
        with contextlib.suppress(OSError, RunsError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, json.dumps(found, separators=(",", ":")).encode())


def _key(job: JobRef) -> str:
    return f"{job.job_id} {job.job_dir}"


def _load(path: Path) -> dict[str, TimedObservation]:
    try:
        found = json.loads(read_document(path))
    except (OSError, ValueError, RecursionError):
        return {}
    items: Mapping[str, Any] = found if isinstance(found, dict) else {}
    seen: dict[str, TimedObservation] = {}
    for key, value in items.items():
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            values = dict(value)
            at, values["state"] = float(values.pop("at")), JobState(values["state"])
            observation = JobObservation(**{"proven": False, **values})
            if observation.proven or not observation.state.final:
                seen[key] = TimedObservation(observation, at, fresh=False)
    return seen
