"""Which service has the folder of a job: several may name one storage root, and one may be another's copy.

The first that asks about a job writes its mark into the job's folder, and only that service's requests are
answered from then on. One that has taken over from its original has a higher term, by which it takes the
mark. The nodes need no mark: what runs there was ordered by the service that has it.
Standard library and `nemo_runs` only.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nemo_helix_server.executors.slurm.on_cluster import wire
from nemo_runs.durable.files import create_file, replace_file
from nemo_runs.errors import RunsError

MARK = "service.json"
"""In a job's folder: the service whose job it is."""
JOBS = "jobs"
"""Below the root: the folders of jobs."""
_TRIES = 3


class ServiceMark(NamedTuple):
    """A service, as it says it itself."""

    id: str
    term: int
    """Of two that claim a job, the one with the higher term has it."""
    shown: str
    """For people: which it is."""


class OtherServiceError(RunsError):
    """The job's folder is another service's; the message names it."""


def read(folder: Path) -> ServiceMark | None:
    """The service that has a job's folder; `None`: it has none yet, or the mark is damaged."""
    data = wire.read_small(folder / MARK, folder)
    with contextlib.suppress(ValueError, KeyError, TypeError):
        value = json.loads(data or b"")
        return ServiceMark(str(value["id"]), int(value["term"]), str(value["shown"]))
    return None


def require(request: Mapping[str, Any], paths: Iterable[str]) -> None:
    """Raise `OtherServiceError` where one of the paths lies in the folder of another service's job.

    Where a folder is nobody's yet, it is from now on that of the service that asks.
    """
    if (said := request.get("service")) is None:
        return  # one without jobs: a profile is checked
    asks, root = ServiceMark(*said), Path(request["root"])
    for folder in sorted({found for path in paths if (found := _job_folder(root, path)) is not None}):
        _require_one(folder, asks)


def is_ours(request: Mapping[str, Any], path: str) -> bool:
    """Whether `require` raises nothing for a path."""
    try:
        require(request, [path])
    except OtherServiceError:
        return False
    return True


def _job_folder(root: Path, path: str) -> Path | None:
    """The folder of the job in which a path lies; `None`: it lies in none."""
    with contextlib.suppress(ValueError):
        parts = Path(path).relative_to(root / JOBS).parts
        return root / JOBS / parts[0] if parts else None
    return None


def _require_one(folder: Path, asks: ServiceMark) -> None:
    for _ in range(_TRIES):
        has = read(folder)
        if has is not None and has.id != asks.id and has.term >= asks.term:
            raise OtherServiceError(
                f"the job's folder {folder} belongs to another service, {has.shown}; this one, "
                f"{asks.shown}, neither looks at the job nor changes anything of it"
            )
        if has == asks or not folder.is_dir() or _is_marked(folder, asks, new=has is None):
            return


def _is_marked(folder: Path, mark: ServiceMark, *, new: bool) -> bool:
    """Write a mark; false where another service was faster, so that its mark has to be read."""
    data = json.dumps(mark._asdict()).encode() + b"\n"
    try:
        if new and not (folder / MARK).exists():
            create_file(folder / MARK, data, mode=0o600)
        else:
            replace_file(folder / MARK, data, mode=0o600)
    except FileExistsError:
        return False
    except (OSError, RunsError):
        pass  # a full disk keeps nobody from its own jobs
    return True
