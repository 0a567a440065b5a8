"""Checkpoints on the disk: which there are, whether they are whole, and the newest that is."""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nemo_trainer.contract import generations
from nemo_trainer.contract.errors import CheckpointUnusableError
from nemo_trainer.contract.files import file_problems
from nemo_trainer.contract.manifest import Manifest, parse_manifest, read_bytes
from nemo_trainer.contract.names import MANIFEST, PINNED, TrainerPaths


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint with a readable manifest."""

    step: int
    folder: Path
    manifest: Manifest
    digest: str
    """sha256 of ``MANIFEST.json``, and so of everything that the checkpoint consists of."""

    @property
    def id(self) -> str:
        """A name for people and addresses that no other checkpoint of the job has."""
        return f"ckpt-{self.step}-{self.digest[:10]}"

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return self.manifest.size

    @property
    def pinned(self) -> bool:
        """Whether it is marked to be kept."""
        return (self.folder / PINNED).exists()


@dataclass(frozen=True, slots=True)
class Damaged:
    """A folder that should be a checkpoint and is none."""

    folder: Path
    step: int
    problem: str
    """A sentence that names the file."""


class Sorted(NamedTuple):
    """All checkpoints in the history, each list with the oldest step first."""

    counting: list[Checkpoint | Damaged]
    outdated: list[Checkpoint | Damaged]
    """Saved when another generation had taken over, or saved again by one."""


class Found(NamedTuple):
    """The newest whole checkpoint, and what was passed over on the way to it."""

    checkpoint: Checkpoint | None
    passed_over: tuple[Damaged, ...]
    """Newest first."""


def read_checkpoint(folder: Path, *, within: Path | None = None) -> Checkpoint:
    """The checkpoint in a folder, its files not looked at; raises `CheckpointUnusableError`.

    ``within``, here and below: the folder in which all of it must lie, whatever links lead there.
    """
    data = read_bytes(folder, within=within)
    manifest = parse_manifest(data, folder)
    return Checkpoint(manifest.step, folder, manifest, hashlib.sha256(data).hexdigest())


def verify(folder: Path, *, deep: bool, within: Path | None = None) -> list[str]:
    """What is wrong with the checkpoint in a folder, a sentence each; nothing = verified.

    Sizes are compared always, digests when ``deep``, which reads every byte.
    """
    try:
        manifest = parse_manifest(read_bytes(folder, within=within), folder)
    except CheckpointUnusableError as error:
        return [str(error)]
    if not manifest.files:
        return [f"{folder}: its manifest names no files"]
    if within is not None and not folder.resolve().is_relative_to(within.resolve()):
        return [f"{folder}: leads out of {within}"]
    return file_problems(folder, manifest.files, deep=deep) or _foreign_files(folder, manifest)


def _foreign_files(folder: Path, manifest: Manifest) -> list[str]:
    """What was put there later: a library that looks for its files by name would load it."""
    known, found = {entry.path for entry in manifest.files} | {MANIFEST, PINNED}, []
    for parent, folders, files in os.walk(folder):
        for name in [*files, *(name for name in folders if Path(parent, name).is_symlink())]:
            path = Path(parent, name)
            if path.relative_to(folder).as_posix() not in known and not name.startswith("."):
                found.append(f"{path}: is not part of the checkpoint; remove it")
    return found


def list_checkpoints(trainer_path: Path, *, within: Path | None = None) -> list[Checkpoint | Damaged]:
    """The checkpoints that count, oldest step first; one without a readable manifest of its step is damaged.

    Where several generations saved a step, the newest one's counts; see `sort_checkpoints` for the others.
    """
    return sort_checkpoints(trainer_path, within=within).counting


def checkpoint_folder(trainer_path: Path, step: int, *, within: Path | None = None) -> Path:
    """Where the checkpoint of a step is; where there is none, the name that all generations share."""
    found = (item.folder for item in list_checkpoints(trainer_path, within=within) if item.step == step)
    return next(found, TrainerPaths(trainer_path).checkpoint(step))


def list_superseded(trainer_path: Path) -> list[Checkpoint]:
    """Checkpoints beside the history, which went on from an older one; those with a readable manifest."""
    parent = TrainerPaths(trainer_path).superseded
    found = []
    for folder in sorted(parent.iterdir()) if parent.is_dir() else ():
        with contextlib.suppress(CheckpointUnusableError):
            found.append(read_checkpoint(folder))
    return sorted(found, key=lambda checkpoint: checkpoint.step)


def newest_verified(trainer_path: Path, *, deep: bool, within: Path | None = None) -> Found:
    """The newest checkpoint whose files are all there; later ones that are not are named."""
    passed_over: list[Damaged] = []
    for found in reversed(list_checkpoints(trainer_path, within=within)):
        if isinstance(found, Damaged):
            passed_over.append(found)
        elif problems := verify(found.folder, deep=deep, within=within):
            passed_over.append(Damaged(found.folder, found.step, problems[0]))
        else:
            return Found(found, tuple(passed_over))
    return Found(None, tuple(passed_over))


def _look(folder: Path, step: int, within: Path | None) -> Checkpoint | Damaged:
    try:
        checkpoint = read_checkpoint(folder, within=within)
    except CheckpointUnusableError as error:
        return Damaged(folder, step, str(error))
    if checkpoint.step != step:
        return Damaged(folder, step, f"{folder}: its manifest is of step {checkpoint.step}")
    return checkpoint


def sort_checkpoints(trainer_path: Path, *, within: Path | None = None) -> Sorted:
    """The checkpoints that count, and those that do not; reads every manifest and generation once."""
    parent = TrainerPaths(trainer_path).checkpoints
    folders = _folders(parent)
    counting: list[Checkpoint | Damaged] = []
    outdated: list[Checkpoint | Damaged] = []
    limits = generations.limits(trainer_path, within=within)
    for step, number, name in folders:
        item = _look(parent / name, step, within)
        wrote = item.manifest.generation if isinstance(item, Checkpoint) else number
        beyond = any(step > limit for later, limit in limits if later > wrote)
        twice = bool(counting) and counting[-1].step == step
        if beyond or (twice and isinstance(item, Damaged)):
            outdated.append(item)
            continue
        if twice:
            outdated.append(counting.pop())
        counting.append(item)
    return Sorted(counting, outdated)


def _folders(parent: Path) -> list[tuple[int, int, str]]:
    """Step, generation in the name, and name of each folder, in this order.

    Names are decimal numbers without leading zeros, as ``40`` and, of a generation of its own, ``40.g3``.
    """
    try:
        names = [entry.name for entry in parent.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    for name in names:
        number = generations.own_number(name)
        step = name.removesuffix(f".g{number}")
        if step.isascii() and step.isdecimal() and step[0] != "0":
            found.append((int(step), number, name))
    return sorted(found)
