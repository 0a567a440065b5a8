"""Putting rows aside for validation. Lines keep their numbers, so that what is said of one can be found."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from nemo_helix_server.customizer.steps.reporting import StepError
from nemo_runs.counts import counted

_TRAINING = ("train.jsonl", "training.jsonl")


def split(folder: Path, into: Path, *, share: float, seed: int) -> None:
    """Move a share of the rows of a dataset into another folder; a moved row leaves an empty line.

    At least one row goes and one stays. Which ones depends on the seed and the number of rows alone.
    """
    source = rows_file(folder)
    lines = source.read_bytes().split(b"\n")  # a carriage return alone is white space within a row
    if lines[-1]:
        lines.append(b"")
    full = [number for number, line in enumerate(lines) if line.strip()]
    if len(full) < 2:
        raise StepError(
            f"{folder.name}/{source.name}: has {counted(len(full), 'row')}, and a "
            f"validation_split of {share:g} needs "
            "two; set schedule.validation_split to 0"
        )
    count = min(max(1, round(len(full) * share)), len(full) - 1)
    chosen = set(random.Random(seed).sample(full, count))
    _write(into, source.name, [line if number in chosen else b"" for number, line in enumerate(lines)])
    _write(folder, source.name, [b"" if number in chosen else line for number, line in enumerate(lines)])


def rows_file(folder: Path) -> Path:
    """The file with the training rows; raises `StepError` when it is not clear which one that is."""
    for name in _TRAINING:
        if (folder / name).is_file():
            return folder / name
    found = sorted(folder.glob("*.jsonl"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "no .jsonl file"
        raise StepError(f"the dataset {folder.name} has {names}; it must have {_TRAINING[0]}")
    return found[0]


def _write(folder: Path, name: str, lines: list[bytes]) -> None:
    """Write a file into a folder of its own, in the place of what is there."""
    made = folder.with_name(f".{folder.name}.split")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    (made / name).write_bytes(b"\n".join(lines))
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
    made.rename(folder)
