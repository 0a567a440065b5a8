"""Deleting run directories, each on its own machine, and then their entries in the local index."""

from __future__ import annotations

import contextlib
from pathlib import Path

from nemo_gym.errors import GymError, RefusedError
from nemo_gym.job_paths import RunPaths, fetched_note, index_entry
from nemo_gym.orchestration.removal.candidates import Hosts, RemovalCandidate, doomed_name
from nemo_slurm.remote_script import remote_script

_SLOW = 3600.0
_NOT_THERE, _ANOTHER = 44, 45


def delete(candidate: RemovalCandidate, hosts: Hosts) -> None:
    """Delete one submission for good; a removal that broke off is taken up again.

    Its entry in the index goes last, so that it can be named until nothing else is left. Raises
    `RefusedError` for one that must stay or whose folder holds another run, `GymError` when a file cannot be
    deleted, `nemo_slurm.errors.SlurmError` when its machine does not answer.
    """
    record = candidate.record
    if candidate.refusal:
        raise RefusedError(f"{record.gym_job_id}: {candidate.refusal}.")
    if not candidate.gone:
        host = hosts(record.hostname)
        script = remote_script(
            __package__,
            "remove_run",
            folder=record.run_dir,
            doomed=doomed_name(record),
            record=RunPaths(Path()).record.name,
            id=record.gym_job_id,
        )
        done = host.run(script, timeout=_SLOW)
        if done.status == _ANOTHER:
            raise RefusedError(f"{record.run_dir} on {host.label} has no record of {record.gym_job_id}.")
        if done.status not in (0, _NOT_THERE):
            said = done.stderr.strip() or f"status {done.status}"
            raise GymError(f"{record.run_dir} on {host.label} could not be deleted ({said}).")
    with contextlib.suppress(FileNotFoundError):
        fetched_note(record.gym_job_id).unlink()
    with contextlib.suppress(FileNotFoundError):
        index_entry(record.gym_job_id).unlink()
