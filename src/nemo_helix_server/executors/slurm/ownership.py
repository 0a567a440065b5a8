"""Whose folders on a cluster are: nobody else may replace what jobs run, and a job has one service."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from nemo_slurm.errors import SlurmError
from nemo_slurm.hosts import Host
from nemo_slurm.remote_script import remote_script

OTHERS_WRITE = 0o022
"""Permissions of a folder by which others could replace what jobs run."""


class OthersMayWriteError(SlurmError):
    """Others could replace what jobs run; the message says what to change."""


class NotOurJobError(SlurmError):
    """A job's folder on the cluster belongs to another service; the message names it."""


def why_not_ours(
    folder: PurePosixPath, label: str, *, owner: int | None, user: int | None, mode: int
) -> str | None:
    """What lets others replace what lies in a folder of a cluster, and what to do; `None`: nothing does."""
    if owner != user:
        text = f"config.root: {folder} on {label} belongs to user {owner}, who could replace what jobs run"
        return f"{text}; name a folder of user {user}, or one that is not there yet"
    if mode & OTHERS_WRITE:
        return f"config.root: others may write to {folder} on {label}: chmod 700 {folder}"
    return None


def require_ours(host: Host, folders: Sequence[PurePosixPath]) -> None:
    """Raise `OthersMayWriteError` where one of the folders is there and others may change it."""
    said = host.run(remote_script(__package__, "owners", folders=[str(one) for one in folders])).stdout
    user, *rows = said.splitlines() or [""]
    for row in rows:
        number, owner, mode = row.split()
        folder = folders[int(number)]
        why = why_not_ours(folder, host.label, owner=int(owner), user=int(user), mode=int(mode, 8))
        if why is not None:
            raise OthersMayWriteError(why)
