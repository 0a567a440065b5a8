"""Our own sources for the cluster: what the nodes and the cluster's host run of this project, and no more.

The folder is named by the digest of what is in it, so a service that was updated sends its new sources along,
and runs that began with the old ones keep them.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nemo_helix_server.engines.sources import PACKAGES, package_folder
from nemo_helix_server.executors.slurm.on_cluster.folders import ClusterFolder
from nemo_slurm.errors import CommandFailedError, PathExistsError, SlurmError
from nemo_slurm.hosts import Host
from nemo_slurm.remote_script import missing_paths, quoted_header

_SERVER = "nemo_helix_server"
_OF_SERVER = (
    "__init__.py",
    "executors/__init__.py",
    "executors/environment_digest.py",
    "executors/landlock.py",
    "executors/memory.py",
    "executors/shim.py",
    "executors/slurm/__init__.py",
    "logs/__init__.py",
    "logs/writer.py",
    "storage/__init__.py",
    "storage/log_parts.py",
    "storage/run_files.py",
)
_ON_CLUSTER = "executors/slurm/on_cluster"
_NOT_THERE = 3
"""Status of the shell where the folder that the root is to be in is missing."""
_LEFT_OUT = frozenset({"__pycache__"})


@dataclass(frozen=True, slots=True)
class ClusterSources:
    """The sources as they are beside this service."""

    digest: str
    files: tuple[tuple[str, bytes], ...]

    @classmethod
    def of_service(cls) -> ClusterSources:
        """Read them."""
        files = tuple(sorted(_sources()))
        whole = hashlib.sha256()
        for name, data in files:
            whole.update(f"{name}\0{len(data)}\0".encode() + data)
        return cls(whole.hexdigest()[:16], files)

    def place(self, host: Host, where: ClusterFolder) -> PurePosixPath:
        """Their folder on the cluster; what is not there, since a site may purge files, is brought there."""
        folder = where.code(self.digest)
        missing = self._missing(host, folder)
        if len(missing) == len(self.files):
            # where it is there all the same, another service was faster, or a purge has left the folders
            with contextlib.suppress(PathExistsError):
                self._copy(host, where, folder)
                return folder
        if missing:
            self._complete(host, where, folder)
        return folder

    def _complete(self, host: Host, where: ClusterFolder, folder: PurePosixPath) -> None:
        """Bring what is not there; what is there may be in use, and stays."""
        beside = folder.with_name(f"{folder.name}.again-{secrets.token_hex(4)}")
        self._copy(host, where, beside)
        values = quoted_header(folder=str(folder), beside=str(beside))
        # links are there at once and whole; what `cp -n` says of files that are there differs by version
        done = host.run(
            values + 'cp -rlnT -- "$beside" "$folder" || cp -rnT -- "$beside" "$folder"; rm -rf -- "$beside"'
        )
        if left := self._missing(host, folder):
            said = f"{folder / left[0]} and {len(left) - 1} more are not there: {done.stderr}"
            raise CommandFailedError(["cp"], done.status, said, where=host.label)

    def _missing(self, host: Host, folder: PurePosixPath) -> list[str]:
        paths = [str(folder / name) for name, _ in self.files]
        return [self.files[number][0] for number in missing_paths(host, paths, test="-f")]

    def _copy(self, host: Host, where: ClusterFolder, folder: PurePosixPath) -> None:
        values = quoted_header(parent=str(folder.parent), above=str(where.root.parent))
        # a root that is mistyped, or on storage that is not mounted now, must not be made somewhere else
        made = host.run(f'{values}[ -e "$above" ] || exit {_NOT_THERE}; umask 077; mkdir -p -- "$parent"')
        if made.status == _NOT_THERE:
            above = f"{where.root.parent} on {host.label}"
            raise SlurmError(f"config.root: there is no folder {above}; make it, or correct the path")
        if made.status:
            raise CommandFailedError(["mkdir"], made.status, made.stderr, where=host.label)
        with tempfile.TemporaryDirectory(prefix="baton-code-") as temporary:
            code = Path(temporary, "code")
            for name, data in self.files:
                path = code / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            for path in (code, *code.rglob("*")):  # whatever the umask: nobody else changes what jobs run
                path.chmod(0o700 if path.is_dir() else 0o600)
            host.copy_in(code, str(folder))


def _sources() -> Iterator[tuple[str, bytes]]:
    server = package_folder(_SERVER)
    for name in _OF_SERVER:
        yield f"{_SERVER}/{name}", (server / name).read_bytes()
    yield from _all_of(server / _ON_CLUSTER, f"{_SERVER}/{_ON_CLUSTER}")
    for package in PACKAGES:
        yield from _all_of(package_folder(package), package)


def _all_of(folder: Path, name: str) -> Iterator[tuple[str, bytes]]:
    """Every file below a folder, by its path with ``name`` in the place of the folder."""
    for path in folder.rglob("*"):
        inner = path.relative_to(folder)
        if path.is_file() and not _LEFT_OUT.intersection(inner.parts):
            yield f"{name}/{inner.as_posix()}", path.read_bytes()
