"""Runs of the same config: two of them at once are most likely a mistake, so the second is refused."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from nemo_gym import job_paths
from nemo_gym.errors import BusyError
from nemo_gym.orchestration.executors.base import JobExecutor, JobRef
from nemo_gym.orchestration.records import index
from nemo_gym.orchestration.status import chain_head
from nemo_runs import file_locks


def refuse_duplicate(digest: str, executor: JobExecutor) -> None:
    """Raise `BusyError` when a run with the same config is queued or running."""
    duplicates = [
        record
        for record in index.indexed(report=lambda _sentence: None)
        if record.config_digest == digest and record.executor == executor.name
    ]
    references = {
        JobRef(job_id=entry.job_id, job_dir=Path(entry.queue_dir)): record
        for record in duplicates
        for entry in record.benchmarks
        if entry.job_id is not None
    }
    if not references:
        return
    seen = chain_head.observe(executor, list(references))
    for reference, record in references.items():
        observation = seen.get(reference.job_id)
        if observation is not None and observation.state.live:
            raise BusyError(
                f"{record.gym_job_id} was submitted with the same config and is {observation.state.lower()} "
                f"(job {reference.job_id}); --again submits it once more."
            )


@contextlib.contextmanager
def one_at_a_time(digest: str) -> Iterator[None]:
    """Keep two submits of one config apart while each looks for a twin; other configs go on beside it."""
    descriptor = _open(digest)
    try:
        if descriptor is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                file_locks.take(descriptor)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _open(digest: str) -> int | None:
    """One of sixteen lock files; ``None`` where the index cannot be written, so that no twin is seen."""
    folder = job_paths.job_index() / ".locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / digest[0], os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
