"""What is saved: space for it and the metric to choose by, looked at before the training; the best of several
checkpoints; and what a save that failed comes to."""

from __future__ import annotations

import errno
import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_engines.errors import BadSpecError, NotSavedError, TrainerError
from nemo_engines.metric_watch import STATE, MetricWatch
from nemo_engines.spec import EngineSpec
from nemo_runs.durable import disk
from nemo_runs.sizes import size_in_words
from nemo_trainer.contract import Checkpoint, Reason, list_checkpoints

if TYPE_CHECKING:
    from nemo_engines.running import TrainingRun

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NOT_WRITTEN = ("file write failed", "File too large")
"""What torch and safetensors say."""
_LITTLE = 1 << 20
_MARGIN = 64 << 20


def not_saved(folder: Path, step: int, error: Exception) -> NotSavedError:
    """The failure of a save, as one sentence; the folder that it wrote to is removed."""
    free = disk.free_bytes(folder.parent)
    full = (
        getattr(error, "errno", None) in _FULL
        or "No space left" in str(error)
        or (free is not None and free < _LITTLE)
    )
    shutil.rmtree(folder, ignore_errors=True)
    why = "No space left on device" if full else f"{type(error).__name__}: {error}"
    if not full and any(sign in str(error) for sign in _NOT_WRITTEN):
        why = "its files could not be written: the disk is full, or a limit on the size of files was reached"
    return NotSavedError(
        f"the checkpoint of step {step} was not saved: {why}; the checkpoints from before are as they were"
    )


def check_space(needs: Mapping[Path, int]) -> None:
    """`TrainerError` when the disk of a folder is known to have less space than the bytes that it needs."""
    by_disk: dict[int, int] = {}
    for folder, size in needs.items():
        device = folder.stat().st_dev
        by_disk[device] = by_disk.get(device, 0) + size
        free = disk.free_bytes(folder)
        if free is not None and free < by_disk[device] + _MARGIN:
            raise TrainerError(
                f"the disk of {folder} has {size_in_words(free)} left, and a checkpoint and the trained "
                f"model need {size_in_words(by_disk[device] + _MARGIN)}: free disk space, then start again"
            )


def check_metric(spec: EngineSpec, reported: Collection[str] | None = None) -> None:
    """`BadSpecError` for a metric to choose by that nothing will report.

    ``reported``: all names that there are, where they are known before a step has reported its own.
    """
    stopping = spec.early_stopping.metric
    if stopping is not None and not stopping.startswith(("val_", "eval_")):
        raise BadSpecError(
            f"early_stopping.metric '{stopping}' is of no evaluation: names begin with val_, as val_loss"
        )
    _check_metric(spec, "early_stopping.metric", stopping, reported)
    _check_metric(spec, "save.best_metric", spec.save.best_metric, reported)


def _check_metric(spec: EngineSpec, field: str, metric: str | None, reported: Collection[str] | None) -> None:
    if metric is None:
        return
    if metric.startswith("eval_"):
        score = spec.evaluation and spec.evaluation.metric
        if metric != score:
            known = f"it is {score}" if score else "there is none"
            raise BadSpecError(f"{field} '{metric}' is the score of no benchmark of this training: {known}")
        return
    if metric.startswith("val_") and spec.validation is None:
        raise BadSpecError(f"{field} '{metric}' needs rows to validate with, and there are none")
    if not metric.startswith(("train_", "val_")):
        raise BadSpecError(
            f"{field} '{metric}' is never reported: names begin with train_ or val_, as val_loss"
        )
    if reported is not None and metric not in reported:
        known = ", ".join(sorted(reported))
        raise BadSpecError(f"{field} '{metric}' is never reported; reported are {known}")


def opened_watch(run: TrainingRun) -> MetricWatch:
    """What was evaluated until the checkpoint that training goes on from."""
    watch = MetricWatch(run.spec.save, run.spec.early_stopping)
    metric = run.spec.save.best_metric
    if run.checkpoint is None or watch.restore(run.checkpoint.manifest.engine.get(STATE)) or metric is None:
        return watch
    for item in list_checkpoints(run.session.context.trainer_path):  # of an earlier version, oldest first
        if isinstance(item, Checkpoint) and item.step <= run.checkpoint.step:
            value = item.manifest.metrics.get(metric)
            watch.observe(item.step, {} if value is None else {metric: value}, saved=True)
    return watch


def publish(
    run: TrainingRun, watch: MetricWatch, kept: Collection[int], folder: Path, step: int, reason: Reason
) -> Checkpoint:
    """Publish a checkpoint with what was evaluated until then, and remove those that are no longer kept."""
    made = run.session.publish(folder, step, reason, engine={STATE: watch.state()})
    run.session.prune(run.spec.save.keep, keep_steps=kept)
    return made


def choose_best(run: TrainingRun, watch: MetricWatch) -> Path | None:
    """The folder of the checkpoint that is best by the metric of the spec; none where the last is wanted."""
    metric = run.spec.save.best_metric
    if run.spec.save.output != "best" or metric is None:
        return None
    if watch.best_step is None:
        sys.stderr.write(f"save.best_metric '{metric}' was never reported: the last weights are kept\n")
        return None
    found = {
        item.step: item.folder
        for item in list_checkpoints(run.session.context.trainer_path)
        if isinstance(item, Checkpoint)
    }
    if watch.best_step not in found:
        run.warn(f"the best checkpoint, of step {watch.best_step}, is not there any more: the last is taken")
    return found.get(watch.best_step)
