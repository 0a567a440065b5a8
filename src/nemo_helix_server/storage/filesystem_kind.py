"""Which file system a folder is on: SQLite's locks cannot be trusted on one that is shared over a network."""

from __future__ import annotations

from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")
_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "fuse.ceph", "fuse.sshfs",
     "fuse.glusterfs", "glusterfs", "afs", "panfs", "orangefs", "pvfs2", "ocfs2", "gfs2", "wekafs"}
)  # fmt: skip


def kind(path: Path, mounts: str | None = None) -> str | None:
    """The type of the file system that ``path`` is or would be made on; `None` where that is not known."""
    text = _read_mounts() if mounts is None else mounts
    wanted = path.resolve() if mounts is None else path
    found: tuple[int, str] | None = None
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
        if (wanted == point or point in wanted.parents) and (found is None or len(point.parts) >= found[0]):
            found = (len(point.parts), fields[2])
    return found[1] if found else None


def is_network(path: Path, mounts: str | None = None) -> bool:
    """Whether ``path`` is on a file system that other machines write too."""
    return kind(path, mounts) in _NETWORK


def _read_mounts() -> str:
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
