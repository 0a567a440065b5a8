"""Checkpoints as objects: what is in the jobs' storage, whether a pause was covered, and pinned copies."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from nemo_helix_server.jobs.model import CheckpointRow, StepContext
from nemo_helix_server.storage.job_folders import JobStorage, checked
from nemo_helix_server.storage.trainer_files import SeenCheckpoint, TrainerFiles
from nemo_runs.clock import SECOND
from nemo_runs.durable import disk
from nemo_runs.durable.files import sync_folder
from nemo_runs.errors import RunsError
from nemo_trainer import contract

_LOOKS, _BETWEEN_LOOKS = 5, 0.05


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a trainer that left with status 75 has saved all that it had done."""

    step: int | None
    """The training step of the checkpoint that covers the pause."""
    problem: str | None
    """What is missing, a sentence; `None` = nothing."""


class PinError(Exception):
    """A checkpoint could not be pinned; the message says why."""


def proof(trainer: TrainerFiles, token: str, seq: int) -> Proof:
    """Look for the checkpoint that a pause of this start rests on: sizes are compared, digests at its use.

    It must be of this start, or be where this start began and have nothing after it; and it must cover the
    last step that the trainer itself says it finished. ``seq`` is the number of the request. No date counts:
    a change of the clock changes no verdict.
    """
    listed = trainer.checkpoints()
    found = next((one for one in reversed(listed) if one.problem is None), None)
    passed = listed[-1].problem if listed else None
    final, unknown = _final_step(trainer, token, seq)
    if found is None and final == 0:
        return Proof(0, None)
    if found is None:
        why = passed or f"there is no checkpoint with a {contract.MANIFEST} in {trainer.where}/checkpoints"
        return Proof(None, why)
    if final is None:
        return Proof(None, unknown)
    step = found.step
    if step < final:
        why = f"the newest whole checkpoint is of step {step}, and step {final} was finished"
        return Proof(None, f"{why}: {passed}" if passed else why)
    if (found.manifest is None or found.manifest.task != token) and final != step:
        return Proof(None, f"the checkpoint of step {step} is not of this start, which finished step {final}")
    return Proof(step, None)


def _final_step(trainer: TrainerFiles, token: str, seq: int) -> tuple[int | None, str]:
    """The last step that this start says it finished, as its last act; or None, and why that is not known.

    A record that names no task is of this start when it has seen this request: an earlier one has not.
    """
    said = trainer.progress()
    final, seen = said.get("final_step"), said.get("seq_seen")
    if not isinstance(final, int) or isinstance(final, bool) or said.get("task", token) != token:
        return None, "the trainer left no final_step in progress.json, so what it had done is not known"
    if "task" not in said and not (isinstance(seen, int) and not isinstance(seen, bool) and seen >= seq > 0):
        return None, (
            "the final_step in progress.json may be of an earlier start: neither does it name the task "
            f"{token}, nor is seq_seen {seq}, the number of this pause"
        )
    return final, ""


def scan(context: StepContext, trainer: TrainerFiles, now: int) -> list[CheckpointRow]:
    """The checkpoints of a step as they are now, sizes compared."""
    return [
        _row(context, found, found.manifest, now)
        for found in trainer.checkpoints()
        if found.manifest is not None
    ]


def newest_size(trainer: TrainerFiles) -> int:
    """What the newest checkpoint takes: what the next one will take, more or less."""
    return next((found.size for found in reversed(trainer.checkpoints()) if found.manifest is not None), 0)


def folder_of(storage: JobStorage, checkpoint: CheckpointRow) -> Path | None:
    """Where a checkpoint can be read: in its job's storage, or else its pinned copy."""
    own = _own_folder(storage, checkpoint)
    if _is(own, checkpoint.id, within=_storage(storage, checkpoint)):
        return own
    pinned = storage.data_dir / checkpoint.pinned_path if checkpoint.pinned_path else None
    if pinned is not None and _is(pinned, checkpoint.id, within=storage.data_dir / "pinned"):
        return pinned
    return None


def hold(storage: JobStorage, checkpoint: CheckpointRow) -> bool:
    """Mark a checkpoint in its job's storage, so that its trainer does not prune it; false when it is gone.

    A trainer moves what it prunes aside, and gives back what it then finds marked. So a mark that is seen in
    its place holds; one that is not may have come too late, or be about to be given back.
    """
    for _ in range(_LOOKS):
        with contextlib.suppress(OSError), _opened(storage, checkpoint) as folder:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with contextlib.suppress(OSError):
                os.close(os.open(contract.PINNED, flags, 0o600, dir_fd=folder))
            source = folder_of(storage, replace(checkpoint, pinned_path=None))
            if source is not None and (source / contract.PINNED).exists():
                return True
        time.sleep(_BETWEEN_LOOKS)
    return False


def pin(storage: JobStorage, checkpoint: CheckpointRow) -> str:
    """Copy a checkpoint out of its job's storage; the copy's path, relative to the data directory.

    The copy is durable and its digests are right before it has its name; making it again is fine. Raises
    `PinError`.
    """
    relative = Path("pinned") / checked(checkpoint.workspace) / checked(checkpoint.id)
    target = storage.data_dir / relative
    if _is(target, checkpoint.id, within=target.parent) and not contract.verify(target, deep=True):
        return str(relative)
    held = hold(storage, checkpoint)
    source = folder_of(storage, replace(checkpoint, pinned_path=None))
    if not held or source is None:
        raise PinError(f"the checkpoint {checkpoint.id} is no longer in the job's storage")
    within = _storage(storage, checkpoint)
    if problems := contract.verify(source, deep=False, within=within):
        raise PinError(f"the checkpoint {checkpoint.id} is damaged: {problems[0]}")
    copy = target.with_name(f".{target.name}-{secrets.token_hex(6)}")
    try:
        _copy(source, copy, within)
        if problems := contract.verify(copy, deep=True):
            raise PinError(f"the checkpoint {checkpoint.id} is damaged: {problems[0]}")
        storage.discard(target)
        copy.rename(target)
        sync_folder(target.parent)
    except (OSError, RunsError, contract.TrainerError) as error:
        raise PinError(f"the checkpoint {checkpoint.id} could not be copied: {error}") from error
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    return str(relative)


def unpin(storage: JobStorage, checkpoint: CheckpointRow) -> None:
    """Remove the pinned copy; the original, where there is one, may be pruned again."""
    target = storage.data_dir / "pinned" / checked(checkpoint.workspace) / checked(checkpoint.id)
    storage.discard(target)
    if folder_of(storage, replace(checkpoint, pinned_path=None)) is not None:
        with contextlib.suppress(FileNotFoundError), _opened(storage, checkpoint) as folder:
            os.unlink(contract.PINNED, dir_fd=folder)


def _row(context: StepContext, found: SeenCheckpoint, manifest: contract.Manifest, now: int) -> CheckpointRow:
    return CheckpointRow(
        id=found.id,
        job_id=context.step.job_id,
        workspace=context.workspace,
        job=context.job_name,
        attempt_id=manifest.attempt or None,
        step_name=context.step.name,
        task=manifest.task or None,
        step=found.step,
        size=found.size,
        reason=manifest.reason,
        created_at=round(manifest.created_at * SECOND) or now,
        verified_at=None,
        problem=found.problem,
        present=True,
        metrics=dict(manifest.metrics),
        generation=manifest.generation,
        pin_requested_at=None,
        pin_requested_by=None,
        pinned_at=None,
        pinned_path=None,
    )


def _storage(storage: JobStorage, checkpoint: CheckpointRow) -> Path:
    """The storage of a checkpoint's job: what a workload may write, and no link from there counts."""
    return storage.paths(checkpoint.workspace, checkpoint.job_id).storage


def _own_folder(storage: JobStorage, checkpoint: CheckpointRow) -> Path:
    """Where a checkpoint is in its job's storage, if it is there."""
    trainer = storage.paths(checkpoint.workspace, checkpoint.job_id).trainer(checkpoint.step_name)
    return contract.checkpoint_folder(trainer, checkpoint.step, within=trainer.parent)


@contextlib.contextmanager
def _opened(storage: JobStorage, checkpoint: CheckpointRow) -> Iterator[int]:
    """A checkpoint's folder in its job's storage; raises `OSError` when it is not there, but elsewhere."""
    path = _own_folder(storage, checkpoint)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        disk.require_within(descriptor, path, _storage(storage, checkpoint))
        yield descriptor
    finally:
        os.close(descriptor)


def _is(folder: Path, checkpoint_id: str, *, within: Path) -> bool:
    try:
        return contract.read_checkpoint(folder, within=within).id == checkpoint_id
    except contract.TrainerError:
        return False


def _copy(source: Path, target: Path, within: Path) -> None:
    """Copy what the manifest names, then the manifest, each durably; nothing from outside a folder."""
    entries: Iterable[str] = [entry.path for entry in contract.read_manifest(source, within=within).files]
    target.mkdir(mode=0o700, parents=True)
    folders = {target}
    for path in [*entries, contract.MANIFEST]:
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        folders.add(place.parent)
        opened = disk.open_regular(source / path, within=within)
        with disk.full_disk_named(place), open(opened, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            disk.copy_range(file.fileno(), 0, size, place)
    for folder in folders:
        sync_folder(folder)
