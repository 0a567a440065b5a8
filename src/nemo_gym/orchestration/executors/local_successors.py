"""Successors of jobs of the `local` executor, as far as their supervisor sees to them.

A job queues its successor itself. One whose disk stayed full could not; it says so in the space that was
reserved for its end record, and its supervisor, which waits for disk space without a limit, does it then.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from nemo_gym import events
from nemo_gym.errors import GymError
from nemo_gym.events import ChainEvent
from nemo_gym.job_paths import JobPaths, LinkPaths
from nemo_gym.orchestration.executors.local_links import make_link
from nemo_gym.orchestration.executors.local_numbers import claim_number
from nemo_runs.durable import disk
from nemo_runs.durable.files import replace_file
from nemo_runs.durable.journal import Journal
from nemo_runs.processes import supervise

_FULL_DISK_BYTES, _END_MARKER_BYTES = 63, 2047
"""Bytes that ``shell/full_disk.sh`` writes over in place."""
_OWED = re.compile(r"[0-9]{1,4}( about \S+)? unqueued")


def reserve_space(link: LinkPaths) -> None:
    """Reserve space for what a job must report about a full disk. Raises `DiskFullError`."""
    for path, text, size in (
        (link.full_disk, "no", _FULL_DISK_BYTES),
        (link.end_reserve, "", _END_MARKER_BYTES),
    ):
        if not path.exists():
            replace_file(path, f"{text:<{size}}\n".encode())


def queue_owed(paths: JobPaths, job_id: str, gym_job_id: str, *, unwanted: Callable[[], bool]) -> None:
    """Queue the successor that a job could not queue on a full disk.

    Waits for disk space until it is ``unwanted``, which a cancelled run's is too.
    """
    link = paths.link(job_id)
    try:
        owed = _OWED.fullmatch(link.full_disk.read_text(encoding="ascii", errors="replace").strip())
    except FileNotFoundError:
        return
    if owed is None:
        return
    numbers: list[int] = []

    def write() -> None:
        if unwanted() or paths.cancelled.exists():
            return
        if not numbers:
            numbers.append(_claimed(gym_job_id, paths))
        _write(paths, link, job_id, f"local-{numbers[0]}")

    try:
        supervise.patiently(write)
    except (GymError, OSError) as error:
        sys.stderr.write(f"supervisor: the successor of {job_id} could not be queued: {error}\n")


def _claimed(gym_job_id: str, paths: JobPaths) -> int:
    with disk.full_disk_named(paths.job_dir):
        return claim_number(gym_job_id, paths.job_dir.name, paths.job_dir)


def _write(paths: JobPaths, link: LinkPaths, job_id: str, following: str) -> None:
    """All files of a waiting successor, and what names it; said again, it changes nothing."""

    def fill(successor: LinkPaths) -> None:
        replace_file(successor.predecessor, f"{job_id}\n".encode())
        reserve_space(successor)

    with disk.full_disk_named(paths.link(following).folder):
        if not paths.link(following).folder.exists():
            make_link(paths, following, fill)
    replace_file(link.next, f"{following}\n".encode())
    replace_file(link.queued, f"{following}\n".encode())
    link.queue_error.unlink(missing_ok=True)
    journal = Journal(paths.events)
    events.record(journal, ChainEvent.SUCCESSOR_QUEUED, job_id=job_id, restart=0, successor=following)
