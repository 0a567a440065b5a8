"""Publishing a checkpoint: everything on the disk, then its manifest, then its place in the history."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from nemo_runs.durable import disk
from nemo_runs.durable.files import sync_folder
from nemo_runs.errors import DiskFullError
from nemo_trainer.contract import (
    MANIFEST,
    PINNED,
    Checkpoint,
    Manifest,
    NotSavedError,
    NotWriterError,
    TrainerPaths,
    read_checkpoint,
)
from nemo_trainer.contract.files import files_below, seal, sync_folders
from nemo_trainer.contract.generations import own_number
from nemo_trainer.contract.manifest import write_manifest

Source = Path | Callable[[Path], object]

_STAGING = ".staging-"
_REPLACED = ".replaced-"
_LITTLE = 1 << 20
"""A file system with less than this free was full when a save has failed."""


def staging(paths: TrainerPaths, step: int) -> Path:
    """Where the files of a checkpoint are written before it is published."""
    suffix = f".g{paths.generation}" if paths.generation else ""
    return paths.checkpoints / f"{_STAGING}{step}{suffix}"


def make_empty(folder: Path) -> None:
    """Make a folder, or empty the one that is there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def publish(
    paths: TrainerPaths, source: Source, manifest: Manifest, fence: Callable[[], None] = lambda: None
) -> Checkpoint:
    """Make a checkpoint of a folder, or of what a function writes into the folder that it is given.

    ``manifest`` says everything except the files. A folder is moved, unless it is the checkpoint's own.
    ``fence`` raises when this process must not write here any more; it is called before anything is
    replaced. Raises `NotSavedError`; what was published before is then as it was.
    """
    fence()
    paths.checkpoints.mkdir(parents=True, exist_ok=True)
    folder = staging(paths, manifest.step) if callable(source) else source
    with _failure_named(paths, folder, manifest.step, fence, ours=callable(source)):
        if callable(source):
            make_empty(folder)
            source(folder)
        elif not folder.is_dir():
            raise NotSavedError(f"{folder}: is not a folder, so there is nothing to publish")
        place = paths.checkpoint(manifest.step)
        if folder.absolute() != place and folder.stat().st_dev != paths.checkpoints.stat().st_dev:
            folder = _brought_near(paths, folder, manifest.step)
        (folder / MANIFEST).unlink(missing_ok=True)
        files = [path for path in files_below(folder) if path.name not in {MANIFEST, PINNED}]
        if not files:
            raise NotSavedError(f"{folder}: is empty, so there is nothing to publish")
        entries = seal(folder, files)
        sync_folders(folder)
        fence()
        write_manifest(folder, dataclasses.replace(manifest, files=entries))
        if folder.absolute() != place:
            fence()
            _put(paths, folder, place)
        return read_checkpoint(place)


def recover(paths: TrainerPaths) -> None:
    """Undo what a crash left half done; to be called while nobody publishes.

    What a later generation does, should this process have been replaced, is left alone.
    """
    if not paths.checkpoints.is_dir():
        return
    for path in sorted(paths.checkpoints.iterdir()):
        replaced = path.name.startswith(_REPLACED)
        name = path.name.removeprefix(_REPLACED).split("-")[0] if replaced else path.name
        if own_number(name) > paths.generation:
            continue
        if path.name.startswith(_STAGING):
            shutil.rmtree(path, ignore_errors=True)
        elif path.name.startswith(_REPLACED):
            place = paths.checkpoints / path.name.removeprefix(_REPLACED).split("-")[0]
            if place.exists():
                discard(paths, path)
            else:
                path.rename(place)
    sync_folder(paths.checkpoints)


def discard(paths: TrainerPaths, folder: Path) -> bool:
    """Remove a checkpoint's folder that has left the history; a pinned one is put beside it instead."""
    if (folder / PINNED).exists():
        supersede(paths, folder)
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def supersede(paths: TrainerPaths, folder: Path) -> None:
    """Put a checkpoint beside the history, where nothing goes on from it unless it is named."""
    paths.superseded.mkdir(exist_ok=True)
    step = folder.name.removeprefix(_REPLACED).split("-")[0]
    folder.rename(paths.superseded / f"{step}-{secrets.token_hex(5)}")
    sync_folder(paths.superseded)
    sync_folder(paths.checkpoints)


def _put(paths: TrainerPaths, folder: Path, place: Path) -> None:
    """Rename a sealed folder to its place; one that is there already steps aside and is removed then."""
    aside = paths.checkpoints / f"{_REPLACED}{place.name}-{secrets.token_hex(5)}"
    replaces = place.exists()
    if replaces:
        place.rename(aside)
    try:
        folder.rename(place)
    except OSError:
        if replaces:
            aside.rename(place)
        raise
    sync_folder(paths.checkpoints)
    if folder.parent != paths.checkpoints:
        sync_folder(folder.parent)
    if replaces:
        discard(paths, aside)


def _brought_near(paths: TrainerPaths, folder: Path, step: int) -> Path:
    """A copy on the file system of the checkpoints, since a rename does not reach from one to another."""
    near = staging(paths, step)
    shutil.rmtree(near, ignore_errors=True)
    try:
        shutil.copytree(folder, near, symlinks=True)
    except BaseException:
        shutil.rmtree(near, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    return near


@contextlib.contextmanager
def _failure_named(
    paths: TrainerPaths, folder: Path, step: int, fence: Callable[[], None], *, ours: bool
) -> Iterator[None]:
    """Turn the failure of a save into one sentence, and free the space that its files took."""
    try:
        yield
    except NotWriterError:
        raise
    except Exception as error:
        fence()  # what stands in the folder may be the next writer's
        free = disk.free_bytes(paths.checkpoints)
        full = _is_full(error) or (free is not None and free < _LITTLE)
        if ours:
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, NotSavedError):
            raise
        if not full and not isinstance(error, OSError):
            raise
        why = "no space is left on the disk; free some" if full else str(error)
        raise NotSavedError(
            f"{paths.checkpoint(step)}: the checkpoint of step {step} was not saved: {why}; "
            "the checkpoints from before are as they were"
        ) from error


def _is_full(error: BaseException | None) -> bool:
    """Whether an error, or one that it came from, means that a write did not fit."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, DiskFullError) or (isinstance(error, OSError) and disk.is_full(error)):
            return True
        error = error.__cause__ or error.__context__
    return False
