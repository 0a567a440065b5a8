"""Our own sources for the cluster: what the nodes and the cluster's host run of this project, and no more.

The folder is named by the digest of what is in it, so a service that was updated sends its new sources along,
and runs that began with the old ones keep them.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from nemo_helix_server.engines.sources import PACKAGES, package_folder
from nemo_helix_server.executors.slurm.on_cluster.folders import ClusterFolder
from nemo_slurm.errors import CommandFailedError, PathExistsError
from nemo_slurm.hosts import Host
from nemo_slurm.remote_script import quoted_header

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
        """Their folder on the cluster, copied there when it is not there yet."""
        folder = where.code(self.digest)
        if host.exists(str(folder)):
            return folder
        made = host.run(quoted_header(parent=str(folder.parent)) + 'umask 077; mkdir -p -- "$parent"')
        if made.status:
            raise CommandFailedError(["mkdir"], made.status, made.stderr, where=host.label)
        with tempfile.TemporaryDirectory(prefix="baton-code-") as temporary:
            for name, data in self.files:
                path = Path(temporary, "code", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            for path in Path(temporary, "code").rglob(
                "*"
            ):  # whatever the umask: nobody else changes what jobs run
                path.chmod(0o700 if path.is_dir() else 0o600)
            Path(temporary, "code").chmod(0o700)
            with contextlib.suppress(PathExistsError):  # another service of the same version was faster
                host.copy_in(Path(temporary, "code"), str(folder))
        return folder


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
