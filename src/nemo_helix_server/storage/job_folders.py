"""The data directory: where everything of a job lies on disk, how much it takes, and how it is removed.

Nothing is removed in place: it is renamed into ``trash`` first, in one step, and deleted there afterwards,
so that a crash leaves no half of a checkpoint where somebody would look for a whole one.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_helix_server.errors import InvalidError
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs.durable import disk
from nemo_runs.durable.files import replace_file, sync_folder

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._+-]{0,254}")
_BLOCK = 512
_CLUSTER = "cluster"
_KNOWN = 1024
"""So many jobs have their paths kept in memory."""


@dataclass(frozen=True)
class JobDirectory:
    """The directory of one job; the only place that knows the names in it."""

    folder: Path

    @functools.cached_property
    def record(self) -> Path:
        """The job as it was last seen, for a rebuild."""
        return self.folder / "job.json"

    @functools.cached_property
    def transitions(self) -> Path:
        """Everything that happened to the job, one line each."""
        return self.folder / "transitions.jsonl"

    @functools.cached_property
    def storage(self) -> Path:
        """What a storage window keeps and deletes; all attempts share it."""
        return self.folder / "storage"

    @functools.cached_property
    def scratch(self) -> Path:
        """One folder a start, gone with it."""
        return self.folder / "scratch"

    @functools.cached_property
    def runs(self) -> Path:
        """One folder a start: claim, end, log."""
        return self.folder / "runs"

    @functools.cached_property
    def cluster(self) -> Path:
        """What was seen of the job's steps on clusters, and digests of what was sent there."""
        return self.folder / _CLUSTER

    @functools.cached_property
    def record_folders(self) -> tuple[Path, ...]:
        """The folders of records about parts of the job."""
        return tuple(self.folder / name for name in ("attempts", "steps", "tasks"))

    @functools.cached_property
    def records(self) -> tuple[Path, ...]:
        """The job's record and the folders of the others."""
        return (self.record, *self.record_folders)

    def attempt_record(self, seq: int) -> Path:
        """An attempt as it was last seen."""
        return self.folder / "attempts" / f"{seq}.json"

    def step_record(self, seq: int, name: str) -> Path:
        """A step as it was last seen; ``seq`` is its attempt's."""
        return self.folder / "steps" / f"{seq}-{checked(name)}.json"

    def task_record(self, token: str) -> Path:
        """A task as it was last seen."""
        return self.folder / "tasks" / f"{checked(token)}.json"

    def trainer(self, step_name: str) -> Path:
        """The trainer path of a step: metrics, progress, checkpoints."""
        return self.storage / checked(step_name)

    def run_folder(self, token: str) -> Path:
        """The folder of one start of a step."""
        return self.runs / checked(token)


def checked(name: str) -> str:
    """A name that is one part of a path; raises `InvalidError` for anything that could lead elsewhere.

    Two dots within a name lead nowhere, and the names of jobs, steps and workspaces may have them.
    """
    if not _NAME.fullmatch(name):
        raise InvalidError(f"{name!r} cannot name a folder; use letters, digits and - . _ @ +")
    return name


class JobStorage:
    """The folders of all jobs in one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.trash = data_dir / "trash"
        # every pass asks for the folders of the same few jobs again and again
        self._directory = functools.lru_cache(maxsize=_KNOWN)(self._named)

    def paths(self, workspace: str, job_id: str) -> JobDirectory:
        """Where a job lies."""
        return self._directory(workspace, job_id)

    def _named(self, workspace: str, job_id: str) -> JobDirectory:
        return JobDirectory(self.data_dir / "jobs" / checked(workspace) / checked(job_id))

    def any_on_cluster(self) -> bool:
        """Whether any job of any workspace has, or has had, something on a cluster."""
        return any(True for _ in (self.data_dir / "jobs").glob(f"*/*/{_CLUSTER}"))

    def prepare(self, workspace: str, job_id: str) -> None:
        """Make the directories of a job; fine when they are there. Raises `OSError` when that fails."""
        paths = self.paths(workspace, job_id)
        paths.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (paths.storage, paths.runs, paths.scratch):
            folder.mkdir(mode=0o700, exist_ok=True)

    def undo_prepare(self, workspace: str, job_id: str) -> None:
        """Remove the directories of a job that was not made after all; one that is in use stays."""
        paths = self.paths(workspace, job_id)
        with contextlib.suppress(OSError):
            for folder in (paths.storage, paths.runs, paths.scratch, paths.folder):
                folder.rmdir()

    def of_run(self, run: StepRun) -> JobDirectory:
        """Where the job of a run lies."""
        return self.paths(run.workspace, run.job_id)

    def run_folder(self, run: StepRun) -> Path:
        """The folder of a run: its claim, its end, its log."""
        return self.of_run(run).run_folder(run.token)

    def prepare_run(self, run: StepRun, config: Any) -> None:
        """Make everything that a start of a step finds; fine when some of it is there."""
        paths = self.of_run(run)
        folders = (
            paths.run_folder(run.token) / run_files.CONFIG_FOLDER,
            paths.scratch / run.token,
            paths.trainer(run.step),
        )
        for folder in folders:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = json.dumps(config, indent=1).encode() + b"\n"
        # what a step may only read is written by rename, so a second preparation is not a second writer;
        # after a crash of the machine there is no step that reads it
        replace_file(folders[0] / run_files.CONFIG_FILE, data, mode=0o400, durable=False)

    def free_bytes(self) -> int | None:
        """What may still be written to the data directory's disk; `None`: not known."""
        return disk.free_bytes(self.data_dir)

    def size(self, paths: JobDirectory) -> int:
        """What a job's storage takes on disk; links are not followed, what goes meanwhile is not counted."""
        return size_of(paths.storage)

    def reclaim(self, paths: JobDirectory) -> None:
        """Put a job's storage and scratch out of reach, in one step each; `empty_trash` deletes them."""
        self.discard(paths.storage)
        self.discard(paths.scratch)

    def discard(self, path: Path) -> None:
        """Put a file or folder out of reach; fine when there is none."""
        self.trash.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            path.rename(self.trash / f"{path.name[:100]}-{secrets.token_hex(8)}")
        except FileNotFoundError:
            return
        sync_folder(path.parent)

    def empty_trash(self) -> None:
        """Delete what was discarded; what cannot be deleted now stays for the next time."""
        with contextlib.suppress(FileNotFoundError):
            for entry in list(self.trash.iterdir()):
                _delete(entry)

    def drop_scratch(self, paths: JobDirectory, token: str) -> None:
        """Discard the scratch folder of a start that has ended, and its short name."""
        folder = paths.scratch / checked(token)
        _short_name(self.data_dir, folder).unlink(missing_ok=True)
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except NotADirectoryError:
            self.discard(paths.scratch)
        except OSError:
            self.discard(folder)


def name_shortly(data_dir: Path, scratch: Path) -> Path:
    """A short name of a start's scratch folder: the name of a socket in it must fit into 107 bytes.

    Data loaders with workers make such sockets below ``TMPDIR``.
    """
    name = _short_name(data_dir, scratch)
    name.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        name.symlink_to(scratch)
    return name


def _short_name(data_dir: Path, scratch: Path) -> Path:
    return data_dir / "tmp" / scratch.name[-12:]


def size_of(folder: Path) -> int:
    """Bytes on disk below a folder."""
    return sum(_sizes(folder))


def _sizes(folder: Path) -> Iterator[int]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                yield entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                if entry.is_dir(follow_symlinks=False):
                    yield from _sizes(Path(entry.path))


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(path.lstat().st_mode):
            _make_deletable(path)
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _make_deletable(folder: Path) -> None:
    """A workload may have left folders that not even their owner may write to."""
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            inner = Path(parent, name)
            if not inner.is_symlink():
                with contextlib.suppress(OSError):
                    inner.chmod(0o700)
