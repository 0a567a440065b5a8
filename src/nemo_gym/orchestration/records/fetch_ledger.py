"""The list of files fetched into a folder: it distinguishes our earlier copy from a file of somebody else."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from nemo_gym.errors import DataError
from nemo_gym.job_paths import RunPaths
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_runs.durable import files
from nemo_runs.durable.files import read_document
from nemo_slurm.transfer import RemoteFile

SCHEMA_VERSION: Final = 1

_KEYS: Final = ("marks", "sha256")


class Ledger:
    """One folder's; a file may be in either of two states while it is being brought up to date."""

    def __init__(self, path: Path, head: dict[str, Any], entries: dict[str, dict[str, Any]]) -> None:
        self._path = path
        self._head = head
        self._entries = entries

    @classmethod
    def load(cls, folder: Path, record: SubmissionRecord) -> Ledger:
        """Read it; raises `DataError` when it is damaged, for then nothing vouches for the folder."""
        path = RunPaths(folder).fetched
        head = {"schema_version": SCHEMA_VERSION, "gym_job_id": record.gym_job_id}
        head |= {"hostname": record.hostname, "run_dir": record.run_dir}
        try:
            entries = json.loads(read_document(path))["files"]
            entries = {name: {key: dict(entry)[key] for key in _KEYS} for name, entry in entries.items()}
        except FileNotFoundError:
            entries = {}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DataError(
                f"{path} is damaged, so nobody knows what was fetched into {path.parent}; fetch into another "
                "folder with --to."
            ) from None
        return cls(path, head, entries)

    def is_recorded(self, path: str, local: Path) -> bool:
        """Whether a local file is as it was copied."""
        return mark_of(local) in self._entries.get(path, {}).get("marks", [])

    def proven(self, path: str, local: Path) -> bool:
        """Whether its digest was compared."""
        return self.is_recorded(path, local) and self._entries[path].get("sha256") is not None

    def expect(self, remote: Iterable[RemoteFile]) -> None:
        """Note what is going to be copied, before it is: after a crash the new files are known as ours."""
        for file in remote:
            entry = self._entries.setdefault(file.path, {"marks": [], "sha256": None})
            if file.mark not in entry["marks"][:1]:
                here = mark_of(self._path.parent / file.path)
                known = [mark for mark in entry["marks"] if mark == here]
                entry.update(marks=[file.mark, *known], sha256=None)
        self.save()

    def note(self, path: str, local: Path, sha256: str | None) -> None:
        """Keep what a file is now."""
        self._entries[path] = {"marks": [mark_of(local)], "sha256": sha256}

    def save(self) -> None:
        """Replace the file."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        files.replace_file(self._path, json.dumps({**self._head, "files": self._entries}).encode() + b"\n")


def mark_of(local: Path) -> list[int] | None:
    """As `nemo_slurm.transfer.RemoteFile.mark`; `None` for a file that is not there."""
    try:
        found = local.stat()
    except FileNotFoundError:
        return None
    return [found.st_size, found.st_mtime_ns]
