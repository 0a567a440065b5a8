"""What was submitted, in a file of its own that is written before the first job is queued.

It holds the record as far as it is known then, the resolved config, and a digest of every file that a queued
job depends on. From it a run directory is known again when the records that are written after queueing are
lost, and a change of what was queued is seen. Secret values are in no digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from nemo_gym.errors import DataError, GymError, RefusedError
from nemo_gym.job_paths import JobPaths, RunPaths
from nemo_gym.orchestration.config import resolve
from nemo_gym.orchestration.executor_kinds import LOCAL
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.plan.job_script import render_job
from nemo_gym.orchestration.plan.sealed_files import data_digests, folder_name, script_digest, sealed_files
from nemo_gym.orchestration.plan.values import JobPlan, Submission
from nemo_gym.orchestration.records.index import SHARED, Write
from nemo_gym.orchestration.records.run_files import HASHED, UNREAD, FolderLook
from nemo_runs.durable.files import read_document
from nemo_runs.errors import RunsError
from nemo_slurm.errors import SlurmError

SCHEMA_VERSION: Final = 1
_JOB: Final = JobPaths(Path())
_SEALED: Final = f"{_JOB.sealed}/"
_INPUTS: Final = f"{_JOB.inputs}/"
_SCRIPT: Final = _JOB.script.name
NOT_YET: Final = "it was not queued yet when this was written"
_SECRET: Final = re.compile(r"(?m)^GYM_SECRET_(\w+)=(?:'[^']*'|\\')+$")


def write(record: SubmissionRecord, config: str, submission: Submission, *, to: Write) -> None:
    """Write the file into the run directory. Raises `GymError` when it cannot be; nothing is queued then."""
    entries = tuple(replace(entry, job_id=None, error=NOT_YET) for entry in record.benchmarks)
    document = {
        "schema_version": SCHEMA_VERSION,
        "record": replace(record, benchmarks=entries).to_json(),
        "resolved_config": config,
        "sealed": {plan.benchmark: dict(_digests(plan)) for plan in submission.folders},
        "scripts": {plan.benchmark: _script_digest(plan) for plan in submission.folders},
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
        found = json.loads(read_document(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read ({error}).") from None
    if not isinstance(found, dict) or not isinstance(found.get("sealed"), dict):
        raise DataError(f"{path} does not hold what was submitted.")
    return found


def changes(job_dir: Path) -> Iterator[str]:
    """Sentences about a benchmark's files that are not what was queued; none where nobody knows."""
    try:
        found = read(job_dir.parent)
    except DataError:
        return
    yield from _sentences(found, job_dir, _differing(found, job_dir, _digest_of))


def changes_there(job_dir: Path, look: FolderLook) -> Iterator[str]:
    """The same about a folder of another machine, from one look at it.

    Data outside of the folder is not looked at: the job that reads it reports it.
    """
    try:
        found = json.loads(look.submissions.get(job_dir.parent, ""))
    except (ValueError, RecursionError):
        return
    there = look.digests.get(job_dir, {})
    script = found.get("scripts", {}).get(job_dir.name) if isinstance(found, dict) else None
    seals = {name: seal for name, seal in _seals(found, job_dir).items() if not name.startswith("/")}
    if script is None:
        seals.pop(_SCRIPT, None)
    else:
        seals[_SCRIPT] = script
    names = [name for name, seal in seals.items() if there.get(name, "") not in (seal[7:], UNREAD)]
    yield from _sentences(found, job_dir, names)


def _sentences(found: object, job_dir: Path, names: Sequence[str]) -> Iterator[str]:
    outside = [name for name in names if name.startswith("/")]
    names = [name for name in names if name not in outside]
    if outside:
        yield f"changed since it was queued: {', '.join(outside)}; a job that starts now reads what is there"
    live = _is_read_live(found, job_dir)
    fatal = [] if live else _fatal(found, names)
    ignored = ", ".join(name for name in names if name not in fatal)
    if fatal:
        what = ", ".join(fatal)
        yield f"not as it was queued: {what}; a job that starts now ends at once: put it back as it was"
    if ignored:
        then = "a job that starts now reads what is there"
        if not live:
            then = "its jobs run what was submitted: to run something else, submit it"
        yield f"changed since it was queued: {ignored}; {then}"


def refuse_changed(job_dir: Path, reader: Callable[[Path], bytes]) -> None:
    """Raise `RefusedError` when what a job of a benchmark would read is not what was queued.

    ``reader`` gives the content of a file on the machine of the run, or raises `OSError`.
    """
    try:
        found = json.loads(reader(RunPaths(job_dir.parent).submission))
    except (OSError, ValueError, RecursionError):
        return  # of an older version, or lost: what a job finds changed, it says itself
    if _is_read_live(found, job_dir):
        return
    seals = [name for name in _seals(found, job_dir) if not name.startswith(("/", _INPUTS))]
    names = _differing(found, job_dir, lambda path: _digest_read(path, reader), seals)
    fatal = [name for name in names if name == _SCRIPT or name.startswith(_SEALED)]
    if fatal:
        raise RefusedError(
            f"{', '.join(fatal)} in {job_dir}: not as it was queued; put it back as it was, or submit the "
            "run that is wanted."
        )


def _differing(
    found: object, job_dir: Path, digest_of: Callable[[Path], str], among: Collection[str] | None = None
) -> list[str]:
    """Names of the sealed files that differ, in order."""
    seals = _seals(found, job_dir)
    names = [name for name in seals if among is None or name in among]
    return [name for name in names if digest_of(job_dir / name) not in (seals[name], UNREAD)]


def _seals(found: object, job_dir: Path) -> dict[str, str]:
    document = found if isinstance(found, dict) else {}
    seals = document.get("sealed")
    its = seals.get(job_dir.name) if isinstance(seals, dict) else None
    return its if isinstance(its, dict) else {}


def _fatal(found: object, names: Sequence[str]) -> list[str]:
    """Those without which a job ends at once; a job of this machine has no other copy of its script."""
    document = found if isinstance(found, dict) else {}
    record = document.get("record")
    local = isinstance(record, dict) and record.get("executor") == LOCAL
    sealed = [name for name in names if name.startswith((_SEALED, _INPUTS))]
    return [*(name for name in names if name == _SCRIPT and local), *sealed]


def _is_read_live(found: object, job_dir: Path) -> bool:
    """Whether the run is of a version that sealed nothing: its jobs read what is in their folder."""
    return not any(name.startswith(_SEALED) for name in _seals(found, job_dir))


def _digests(plan: JobPlan) -> Iterator[tuple[str, str]]:
    paths = JobPaths(plan.job_dir)
    yield (
        paths.script.name,
        _digest(render_job(plan, redacted=True).encode("utf-8", "surrogateescape")),
    )
    if plan.run is not None:
        yield paths.run_config.name, _digest(resolve.to_yaml(plan.run).encode())
    sealed = sealed_files(plan)
    for name, content in sealed.items():
        yield f"{_SEALED}{folder_name(sealed)}/{name}", _digest(content)
    for name, digest in data_digests(plan).items():
        yield name, f"sha256:{digest}"


def _script_digest(plan: JobPlan) -> str:
    """Of all that is sealed in a job script, as a shell can say it without reading a secret."""
    return f"sha256:{script_digest(render_job(plan, redacted=True))}"


def _digest_of(path: Path) -> str:
    """The digest of a file as it is; a file that cannot be read has none, and a large one is left to jobs."""
    try:
        about = path.stat()
    except OSError:
        return ""
    if about.st_size > HASHED:
        return UNREAD
    return _digest_at(path, about.st_mtime_ns, about.st_size, about.st_ino)


@lru_cache(maxsize=4096)
def _digest_at(path: Path, *_state: int) -> str:
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    return _digest(_without_secrets(path, data))


def _digest_read(path: Path, reader: Callable[[Path], bytes]) -> str:
    try:
        return _digest(_without_secrets(path, reader(path)))
    except OSError:
        return ""


def _without_secrets(path: Path, data: bytes) -> bytes:
    if path.name != _SCRIPT:
        return data
    text = data.decode("utf-8", "surrogateescape")
    text = _SECRET.sub(lambda found: f"GYM_SECRET_{found[1]}='<host:{found[1]}>'", text)
    return text.encode("utf-8", "surrogateescape")


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
