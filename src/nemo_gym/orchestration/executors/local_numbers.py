"""Numbers of the jobs of the `local` executor: unique per user, claimed by making a folder."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

from nemo_gym import job_paths
from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths


def usable_claims() -> Path:
    """The folder in which numbers are claimed. Raises `GymError` when it cannot be written."""
    folder = job_paths.local_jobs()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise GymError(
            f"{folder}, where the numbers of local jobs are claimed, cannot be written ({error.strerror}); "
            "set XDG_STATE_HOME to a folder that can be."
        ) from error
    return folder


def claim_number(gym_job_id: str, benchmark: str, job_dir: Path) -> int:
    """The next number that this user has not used; a folder that says what it stands for claims it.

    Raises `GymError` when the folder of numbers cannot be written, and `OSError` when one in it cannot be.
    """
    folder = usable_claims()
    claimed = [int(name) for name in os.listdir(folder) if name.isdecimal()]
    number = max([0, *claimed, *_used_in(job_dir)]) + 1
    while True:
        try:
            (folder / str(number)).mkdir()
        except FileExistsError:
            number += 1
            continue
        about = {"gym_job_id": gym_job_id, "benchmark": benchmark, "job_dir": str(job_dir)}
        try:
            job_paths.local_job(number).write_text(json.dumps(about) + "\n", encoding="utf-8")
        except OSError:
            shutil.rmtree(folder / str(number), ignore_errors=True)
            raise
        return number


def _used_in(job_dir: Path) -> list[int]:
    """Numbers of jobs that a benchmark has had already: the folder of claims may be another, or lost."""
    try:
        folders = os.listdir(JobPaths(job_dir).links)
    except FileNotFoundError:
        return []
    names = [name.partition(".")[0].removeprefix("local-") for name in folders]
    return [int(name) for name in names if name.isdecimal()]
