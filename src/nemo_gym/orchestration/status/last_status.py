"""The status of benchmarks as it was known last, for when the machine that holds their files does not answer.

A cache beside the local index; losing it loses only this memory. What an executor said of single jobs
is kept by `nemo_gym.orchestration.status.last_observation`; it says nothing about a chain's later jobs, whose
ids are in the files.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from nemo_gym import job_paths
from nemo_gym.chain.endings import BenchmarkState, EndCause
from nemo_gym.orchestration.status.report import BenchmarkStatus, SubmissionStatus
from nemo_runs.durable.files import read_document, replace_file
from nemo_runs.errors import RunsError

_KEPT: Final = 5_000
"""Benchmarks that are remembered; those that were seen longest ago are forgotten first."""


class LastStatus:
    """What was known of benchmarks."""

    def __init__(self, path: Path | None = None) -> None:
        """``path``: where it is kept between two commands; beside the local index unless given."""
        self._path = path or job_paths.job_index() / ".status.json"
        self._known = _load(self._path)

    def completed(self, found: Sequence[SubmissionStatus], *, now: float) -> list[SubmissionStatus]:
        """Put what was known last, with its age, where less is known now, and remember the rest.

        ``now``: UTC seconds.
        """
        before = dict(self._known)
        shown = [
            replace(each, benchmarks=tuple(self._one(status, now) for status in each.benchmarks))
            for each in found
        ]
        if self._known != before:
            self._save()
        return shown

    def _one(self, status: BenchmarkStatus, now: float) -> BenchmarkStatus:
        key = f"{status.gym_job_id} {status.benchmark}"
        at, old = self._known.get(key, (now, None))
        if status.silent:
            if old is None or old.links <= status.links:
                return status
            return replace(old, state_age_s=max(0.0, now - at), silent=status.silent)
        kept = replace(status, eta_s=None, left_s=None, left_how="", notes=())
        kept = replace(kept, progress_age_s=None, state_age_s=None)
        if status.links and (kept != old or not status.state.final):
            self._known[key] = (now, kept)
        return status

    def _save(self) -> None:
        newest = sorted(self._known.items(), key=lambda item: item[1][0])[-_KEPT:]
        document = {key: {**status.to_json(), "at": at} for key, (at, status) in newest}
        with contextlib.suppress(OSError, RunsError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, json.dumps(document, separators=(",", ":")).encode())


def _load(path: Path) -> dict[str, tuple[float, BenchmarkStatus]]:
    try:
        found = json.loads(read_document(path))
    except (OSError, ValueError, RecursionError):
        return {}
    known = {}
    for key, value in (found if isinstance(found, dict) else {}).items():
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError):
            known[key] = _read(dict(value))
    return known


def _read(values: dict[str, Any]) -> tuple[float, BenchmarkStatus]:
    at, cause = float(values.pop("at")), values["cause"]
    known = {
        "state": BenchmarkState(values["state"]),
        "cause": None if cause is None else EndCause(cause),
        "notes": (),
    }
    return at, BenchmarkStatus(**{**values, **known})
