"""What was submitted, in a file of its own that is written before the first job is queued.

It holds the record as far as it is known then, the resolved config, and a digest of every file that a queued
job depends on. From it a run directory is known again when the records that are written after queueing are
lost, and a change of what was queued is seen. Secret values are in no digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from nemo_gym.errors import DataError, GymError
from nemo_gym.job_paths import JobPaths, RunPaths
from nemo_gym.orchestration import resolve, script, staging
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.plan import JobPlan, Submission
from nemo_gym.orchestration.record_files import SHARED, Write
from nemo_runs.errors import RunsError
from nemo_slurm.errors import SlurmError

SCHEMA_VERSION: Final = 1
NOT_YET: Final = "it was not queued yet when this was written"
_SECRET: Final = re.compile(r"(?m)^GYM_SECRET_(\w+)=(?:'[^']*'|\\')+$")


def write(record: SubmissionRecord, config: str, submission: Submission, *, to: Write) -> None:
    """Write the file into the run directory. Raises `GymError` when it cannot be; nothing is queued then."""
    entries = tuple(replace(entry, job_id=None, error=NOT_YET) for entry in record.benchmarks)
    document = {
        "schema_version": SCHEMA_VERSION,
        "record": asdict(replace(record, benchmarks=entries)),
        "resolved_config": config,
        "sealed": {plan.benchmark: dict(_digests(plan)) for plan in submission.jobs},
    }
    path = RunPaths(submission.run_dir).submission
    try:
        to(path, json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n", SHARED)
    except (OSError, RunsError, SlurmError) as error:
        reason = getattr(error, "strerror", None) or error
        raise GymError(f"{path} cannot be written ({reason}); nothing was queued.") from error


def read(run_dir: Path) -> Mapping[str, Any] | None:
    """The document of a run directory; ``None`` where there is none. Raises `DataError` for a damaged one."""
    path = RunPaths(run_dir).submission
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read ({error}).") from None
    if not isinstance(found, dict) or not isinstance(found.get("sealed"), dict):
        raise DataError(f"{path} does not hold what was submitted.")
    return found


def changes(job_dir: Path) -> Iterator[str]:
    """A sentence for each benchmark's file that is not what was queued any more; none where nobody knows."""
    try:
        found = read(job_dir.parent)
    except DataError:
        return
    sealed = (found or {}).get("sealed", {}).get(job_dir.name)
    if not isinstance(sealed, dict):
        return
    differing = [name for name, digest in sealed.items() if _digest_of(job_dir / name) != digest]
    if differing:
        names = ", ".join(differing)
        yield f"changed since it was queued: {names}; a job that starts now reads what is there"


def _digests(plan: JobPlan) -> Iterator[tuple[str, str]]:
    paths = JobPaths(plan.job_dir)
    yield (
        paths.script.name,
        _digest(script.render_job(plan, redacted=True).encode("utf-8", "surrogateescape")),
    )
    if plan.run is not None:
        yield paths.run_config.name, _digest(resolve.to_yaml(plan.run).encode())
    for name, content in staging.shell_files(plan):
        yield f"{paths.shell.name}/{name}", _digest(content)


def _digest_of(path: Path) -> str:
    """The digest of a file as it is; a file that cannot be read has none."""
    try:
        about = path.stat()
    except OSError:
        return ""
    return _digest_at(path, about.st_mtime_ns, about.st_size, about.st_ino)


@lru_cache(maxsize=4096)
def _digest_at(path: Path, *_state: int) -> str:
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    if path.name == "job.sh":
        text = data.decode("utf-8", "surrogateescape")
        data = _SECRET.sub(lambda found: f"GYM_SECRET_{found[1]}='<host:{found[1]}>'", text).encode(
            "utf-8", "surrogateescape"
        )
    return _digest(data)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
