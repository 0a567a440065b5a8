"""A data directory that was copied: its jobs are the original's, until somebody says that this is gone."""

from __future__ import annotations

import time
from pathlib import Path

from nemo_helix_plugin.jobs.statuses import HelixJobStatus
from nemo_helix_server.commands.holder import DataDirectoryError
from nemo_helix_server.storage import data_origin
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.store.store import JobStore

_UNDER_WAY = tuple(status for status in HelixJobStatus if status.is_under_way)


def require_original(data_dir: Path, store: JobStore, *, take_over: bool) -> None:
    """Raise `DataDirectoryError` for a copy with jobs that its original may still have.

    These are jobs under way, and those of which something lies on a cluster. With ``take_over`` they are this
    service's from now on.
    """
    try:
        if take_over:
            data_origin.take_over(data_dir, time.time())
            return
        original = data_origin.copied_from(data_dir)
        if original is not None and _has_jobs_of_original(data_dir, store):
            raise DataDirectoryError(_refusal(data_dir, original))
        data_origin.read(data_dir)
    except OSError as error:
        raise DataDirectoryError(
            f"the data directory {data_dir} cannot be used: {error.strerror}; --data-dir names another"
        ) from error


def _refusal(data_dir: Path, original: str) -> str:
    where = f"was copied from {original}"
    if original == str(data_dir.resolve()):
        where = "was put back from a copy"
    return (
        f"the data directory {data_dir} {where}, and the original's service may still look after some of "
        "its jobs: two services cannot both have them. If no service uses the original any more, start this "
        "one with --take-over, once; for a service of its own, give --data-dir an empty folder"
    )


def _has_jobs_of_original(data_dir: Path, store: JobStore) -> bool:
    with store.read() as reader:
        if reader.jobs.any_in(_UNDER_WAY):
            return True
    return JobStorage(data_dir).any_on_cluster()
