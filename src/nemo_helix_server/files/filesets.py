"""Filesets: made, listed, filled and removed. Names are checked here, so that no path leads out."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from nemo_helix_plugin.jobs import names
from nemo_helix_server.errors import (
    InvalidError,
    StateConflictError,
    UnavailableError,
    UnknownNameError,
    unwritable,
)
from nemo_helix_server.files.locations import FileTree, Upload
from nemo_runs.clock import Clock, moment, wire

_RECORDS = ".records"
_OWN = "job-fileset-"
_LONGEST = 1024
_LARGEST_RECORD = 1 << 20
_LONGEST_NAME = 200
"""Bytes of one name of a path; file systems take 255, and a prefix of ours comes before some."""
Document = dict[str, Any]


def checked_path(path: str) -> str:
    """A path inside a fileset; raises `InvalidError` for one that leads elsewhere."""
    parts = path.split("/")
    bad = len(path.encode()) > _LONGEST or "\\" in path or any(ord(letter) < 32 for letter in path)
    if bad or any(part in {"", ".", ".."} or len(part.encode()) > _LONGEST_NAME for part in parts):
        raise InvalidError(
            f"{path[:100]!r} is not a path inside a fileset; write names with / between them, such as "
            "data/train.jsonl"
        )
    return path


@dataclass(frozen=True, slots=True)
class Filesets:
    """The filesets of all workspaces."""

    tree: FileTree
    clock: Clock
    root: str
    """The place's address, for the steps of jobs."""
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)
    """Held from the look whether there is a fileset until it is made."""

    def create(self, who: str, workspace: str, name: str, description: str | None) -> Document:
        """Make an empty fileset; raises `StateConflictError` when there is one."""
        folder = _folder(workspace, name)
        if name.startswith(_OWN):
            raise InvalidError(f"names that begin with {_OWN} are for the filesets that jobs make")
        record = {
            "name": name,
            "workspace": workspace,
            "description": description,
            "created_by": who,
            "created_at": wire(self.clock.now()),
        }
        with self._one_at_a_time:
            if self._record(workspace, name) is not None or next(self.tree.files(folder), None) is not None:
                raise StateConflictError(f"there is a fileset '{name}' already in workspace {workspace}")
            self.write_record(workspace, name, record)
        return self._shown(record)

    def write_record(self, workspace: str, name: str, record: Document) -> None:
        """Say that there is a fileset."""
        upload = None
        try:
            upload = self.tree.upload(_record_path(workspace, name))
            upload.write(json.dumps(record).encode())
            upload.commit()
        except OSError as error:
            if upload is not None:
                upload.abort()
            raise unwritable(f"the fileset '{name}'", error) from error

    def all(self, workspace: str) -> list[Document]:
        """The filesets of a workspace, by name."""
        folder = f"{_checked(workspace)}/{_RECORDS}"
        found = [entry.path.removesuffix(".json") for entry in self.tree.files(folder)]
        return [self._shown(record) for name in found if (record := self._record(workspace, name))]

    def get(self, workspace: str, name: str) -> Document:
        """One fileset, with how many files it has and how much they take."""
        record = self.known(workspace, name)
        files = list(self.tree.files(_folder(workspace, name)))
        return {**self._shown(record), "files": len(files), "size_bytes": sum(one.size for one in files)}

    def exists(self, workspace: str, name: str) -> bool:
        """Whether there is such a fileset."""
        return names.problem_with(name) is None and self._record(workspace, name) is not None

    def known(self, workspace: str, name: str) -> Document:
        """A fileset's record; raises `UnknownNameError`."""
        record = self._record(workspace, name)
        if record is None:
            raise UnknownNameError(
                f"there is no fileset '{name}' in workspace '{workspace}'; `nemo files list` shows them"
            )
        return record

    def delete(self, workspace: str, name: str) -> None:
        """Remove a fileset with its files."""
        self.known(workspace, name)
        self.tree.remove(_record_path(workspace, name))
        self.tree.remove(_folder(workspace, name))

    def files(self, workspace: str, name: str) -> list[Document]:
        """The files of a fileset, by path."""
        self.known(workspace, name)
        found = self.tree.files(_folder(workspace, name))
        return [{"path": _readable(one.path), "size": one.size} for one in found]

    def paths(self, workspace: str, name: str) -> tuple[str, ...]:
        """The paths of a fileset's files."""
        return tuple(one.path for one in self.tree.files(_folder(workspace, name)))

    def upload(self, workspace: str, name: str, path: str) -> Upload:
        """Begin to write a file of a fileset."""
        self.known(workspace, name)
        return self.tree.upload(f"{_folder(workspace, name)}/{checked_path(path)}")

    def open(self, workspace: str, name: str, path: str) -> tuple[IO[bytes], int]:
        """A file's content and size; raises `UnknownNameError`."""
        self.known(workspace, name)
        try:
            return self.tree.open(f"{_folder(workspace, name)}/{checked_path(path)}")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise UnknownNameError(
                f"the fileset '{name}' has no file '{path}'; `nemo files list-files {name}` shows them"
            ) from None
        except OSError as error:
            raise UnavailableError(f"the file '{path}' cannot be read: {error.strerror}") from error

    def read(self, workspace: str, name: str, path: str, limit: int) -> bytes:
        """A small file's content; raises `InvalidError` for one that is larger."""
        file, size = self.open(workspace, name, path)
        with file:
            if size > limit:
                raise InvalidError(
                    f"the file '{path}' of '{name}' has {size} bytes; at most {limit} are read"
                )
            return file.read()

    def delete_file(self, workspace: str, name: str, path: str) -> None:
        """Remove one file; raises `UnknownNameError`."""
        file, _ = self.open(workspace, name, path)
        file.close()
        self.tree.remove(f"{_folder(workspace, name)}/{checked_path(path)}")

    def address(self, workspace: str, name: str) -> str:
        """A fileset's folder, as a step gets it."""
        return f"{self.root.rstrip('/')}/{_folder(workspace, name)}"

    def _record(self, workspace: str, name: str) -> Document | None:
        if names.problem_with(name) is not None:
            return None
        try:
            file, _ = self.tree.open(_record_path(workspace, name))
            with file:
                found = json.loads(file.read(_LARGEST_RECORD))
            return _checked_record(found, workspace, name)
        except (OSError, ValueError, RecursionError):
            return None

    def _shown(self, record: Document) -> Document:
        return {**record, "url": f"fileset://{record['workspace']}/{record['name']}"}


def _checked_record(found: Any, workspace: str, name: str) -> Document:
    """A record as `Filesets.create` writes it; raises ValueError, since a step may have put another there."""
    if not isinstance(found, dict) or (found.get("workspace"), found.get("name")) != (workspace, name):
        raise ValueError(found)
    rest = {key: found.get(key) for key in ("description", "created_by", "created_at")}
    for key, value in rest.items():
        if not isinstance(value, str) and (value is not None or key == "created_at"):
            raise ValueError(found)
        (value or "").encode()
    moment(str(rest["created_at"]))
    return {"name": name, "workspace": workspace, **rest}


def _readable(path: str) -> str:
    """A path that can be written down: the names of files are bytes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def chunks(file: IO[bytes], size: int = 1 << 18) -> Iterator[bytes]:
    """An open file piece by piece; closed at the end."""
    with file:
        while data := file.read(size):
            yield data


def _checked(name: str) -> str:
    problem = names.problem_with(name)
    if problem:
        raise InvalidError(problem)
    return name


def _folder(workspace: str, name: str) -> str:
    return f"{_checked(workspace)}/{_checked(name)}"


def _record_path(workspace: str, name: str) -> str:
    return f"{_checked(workspace)}/{_RECORDS}/{_checked(name)}.json"
