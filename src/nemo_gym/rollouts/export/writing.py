"""Writing an export whole or not at all, where nothing is yet."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nemo_gym.errors import GymError, UsageError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.export.exported import ExportedOutput
from nemo_runs.durable import disk
from nemo_runs.durable.beside import folder_beside, locked

_FILES = {"parquet": ".parquet", "csv": ".csv", "share": ".zip", "report": ".html"}
"""Formats that are one file, with its ending; the others are a folder."""
_ENDINGS = frozenset({*_FILES.values(), ".json", ".jsonl", ".xlsx", ".pdf", ".eval", ".md", ".tar"})
"""Endings that say what a file is."""

UNFINISHED = "EXPORT_UNFINISHED"
"""A file in a folder that is written in its own place, as long as it is not whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What is wanted."""

    form: str
    path: Path | None
    """``None``: named after the run, in the current folder."""
    datasets: Sequence[str] = ()
    python: Path | None = None


def exported(
    run: str, outputs: Mapping[str, RolloutPaths], labels: Mapping[str, str], models: Mapping[str, str | None]
) -> list[ExportedOutput]:
    """The benchmarks of a run as exports see them; ``models`` are a campaign's, by benchmark."""
    return [
        ExportedOutput(name, paths, run, labels, campaign_model=models.get(name))
        for name, paths in outputs.items()
    ]


def write_export(outputs: Sequence[ExportedOutput], request: ExportRequest) -> Path:
    """Write an export; where it is now.

    It is made beside its place and renamed when it is whole; what an earlier one that was killed has left of
    it is removed. Raises `GymError` for what is there already, for
    a run without a summary, and for a library that is missing.
    """
    form = request.form
    if request.datasets and form != "model-card":
        raise UsageError("--dataset is for --to model-card alone.")
    if request.python is not None and form not in ("wandb", "mlflow"):
        raise UsageError("--python is for --to wandb and --to mlflow alone.")
    path = (request.path or Path(_file_name(Path(outputs[0].run).name, form))).absolute()
    _refuse_other_ending(form, path)
    with disk.full_disk_named(path):
        _remove_unfinished(path)
        if os.path.lexists(path):
            within = path / _file_name(Path(outputs[0].run).name, form) if path.is_dir() else None
            raise _there_already(path, within)
        path.parent.mkdir(parents=True, exist_ok=True)
        if form in ("wandb", "mlflow"):  # their files name the folder that they are in
            return _written_in_place(outputs, request, path)
        with folder_beside(path) as made:
            target = made / path.name
            _write(outputs, request, target)
            _move(target, path)
    return path


def _remove_unfinished(path: Path) -> None:
    """Remove what was written in its own place, if the process that wrote it is gone."""
    if (path / UNFINISHED).is_file():
        with locked(path / UNFINISHED, wait=False) as is_ours:
            if is_ours:
                shutil.rmtree(path, ignore_errors=True)


def _move(made: Path, path: Path) -> None:
    """Give what was made its place, which another may have taken meanwhile: of several the first stays."""
    try:
        if made.is_dir():
            made.rename(path)
            return
        try:
            os.link(made, path)
        except OSError as error:
            if error.errno not in disk.NO_HARD_LINKS:
                raise
            if os.path.lexists(path):
                raise _there_already(path) from None
            made.rename(path)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR) and os.path.lexists(path):
            raise _there_already(path) from None
        raise


def _refuse_other_ending(form: str, path: Path) -> None:
    ending = _FILES.get(form)
    if path.suffix.lower() in _ENDINGS and path.suffix.lower() != ending:
        if form == "share":
            raise UsageError(f"--output {path.name}: a share ends with .zip, the report alone with .html.")
        what = "a folder" if ending is None else f"a file that ends with {ending}"
        raise UsageError(f"--output {path.name}: --to {form} writes {what}.")


def _there_already(path: Path, within: Path | None = None) -> GymError:
    example = "" if within is None else f", say {within}"
    return GymError(f"{path} is there already; choose another --output{example}.")


def _file_name(run: str, form: str) -> str:
    """What an export is called that was given no name; the ending alone names the format of a table."""
    ending, run = _FILES.get(form, ""), run.removesuffix(".jsonl")
    return f"{run}{ending}" if ending == f".{form}" else f"{run}-{form}{ending}"


def _written_in_place(outputs: Sequence[ExportedOutput], request: ExportRequest, path: Path) -> Path:
    from nemo_gym.rollouts.export.trackers import tracker_python, write_tracker

    tracker: Literal["wandb", "mlflow"] = "wandb" if request.form == "wandb" else "mlflow"
    python = tracker_python(tracker, request.python)
    try:
        path.mkdir()
    except FileExistsError:
        raise _there_already(path) from None
    try:
        (path / UNFINISHED).write_text("gym job export was ended before it had written everything.\n")
        with locked(path / UNFINISHED):
            write_tracker(tracker, outputs, path, python=python)
            (path / UNFINISHED).unlink()
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    return path


def _write(outputs: Sequence[ExportedOutput], request: ExportRequest, target: Path) -> None:
    if request.form in _FILES:
        _write_file(outputs, request.form, target)
        return
    if request.form == "lm-eval":
        from nemo_gym.rollouts.export.lm_eval import write_lm_eval

        write_lm_eval(outputs, target)
    elif request.form == "inspect":
        from nemo_gym.rollouts.export.inspect_log import write_inspect

        for output in outputs:
            write_inspect(output, target)
    else:
        from nemo_gym.rollouts.export.model_card import parse_datasets, write_model_card

        write_model_card(outputs, target, parse_datasets(request.datasets))


def _write_file(outputs: Sequence[ExportedOutput], form: str, target: Path) -> None:
    if form in ("share", "report"):
        from nemo_gym.rollouts.export.share import write_report, write_share

        (write_share if form == "share" else write_report)(outputs, target)
    else:
        from nemo_gym.rollouts.export.rows import write_csv, write_parquet

        (write_csv if form == "csv" else write_parquet)(outputs, target)
