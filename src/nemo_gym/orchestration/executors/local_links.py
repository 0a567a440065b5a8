"""The folder of a job of the `local` executor: it appears with its supervisor's identity, or not at all.

So a job whose supervisor was killed at any moment left no trace, or one that says who kept it.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable

from nemo_gym.job_paths import JobPaths, LinkPaths
from nemo_runs.durable.files import replace_file, sync_folder
from nemo_runs.errors import RunsError
from nemo_runs.processes import trees
from nemo_runs.processes.trees import Liveness, ProcessIdentity

_NOTED_WITHIN = 60.0
"""Seconds in which a supervisor that made its folder first had noted down who it is, or had been killed."""


def make_link(paths: JobPaths, job_id: str, fill: Callable[[LinkPaths], object]) -> LinkPaths:
    """Make a job's folder, kept by the calling process; ``fill`` writes its other first files.

    Raises `OSError` (also for a folder that is there already) or `DiskFullError`; then no folder was made.
    """
    link = paths.link(job_id)
    unseen = LinkPaths(paths.job_dir / f".link-{job_id}")
    try:
        unseen.folder.mkdir(exist_ok=True)
        fill(unseen)
        replace_file(unseen.supervisor, json.dumps(trees.identify().to_json()).encode() + b"\n")
        link.folder.parent.mkdir(exist_ok=True)
        unseen.folder.rename(link.folder)
    except BaseException:
        shutil.rmtree(unseen.folder, ignore_errors=True)
        raise
    sync_folder(link.folder.parent)
    return link


def supervisor_of(paths: JobPaths, job_id: str) -> ProcessIdentity | None:
    """Who keeps a job; `None` when its folder is not there or does not say so.

    A successor is kept by the supervisor of the job before it. Raises `RunsError` for a damaged record.
    """
    link = paths.link(job_id)
    found = _noted(link)
    if found is not None:
        return found
    try:
        before = link.predecessor.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return None
    return _noted(paths.link(before)) if before else None


def liveness_of(supervisor: ProcessIdentity | None, link: LinkPaths) -> Liveness:
    """Whether a job's supervisor lives; of a job without a folder nothing can be said.

    Folders of earlier versions appeared a moment before their supervisor had noted down who it is: one that
    is older, and does not say it, was left by a supervisor that was killed in that moment.
    """
    if supervisor is not None:
        return trees.liveness(supervisor)
    try:
        age = time.time() - link.folder.stat().st_mtime
    except FileNotFoundError:
        return Liveness.ELSEWHERE
    return Liveness.ELSEWHERE if abs(age) < _NOTED_WITHIN else Liveness.DEAD


def _noted(link: LinkPaths) -> ProcessIdentity | None:
    try:
        return ProcessIdentity.from_json(json.loads(link.supervisor.read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise RunsError(f"{link.supervisor} is damaged") from error
