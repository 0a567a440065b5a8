"""What the last steps need, looked for by the first one: an error there would come after all the training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_helix_server.customizer.steps.reporting import StepError, TransferReport
from nemo_helix_server.customizer.steps.service_calls import ServiceRefusedError, ask
from nemo_helix_server.files.locations import open_tree
from nemo_runs.durable import disk
from nemo_runs.sizes import size_in_words

_NOT_FOUND = 404


def try_end(end: Mapping[str, Any], report: TransferReport, model: Path) -> None:
    """Whether the trained model can be registered under its name, and its files will have space.

    ``end`` has ``workspace``, ``name`` and ``job`` of the model, the ``root`` of the filesets, and ``whole``:
    whether all weights are written. ``model`` is the folder of the base model.
    """
    if report.context.jobs_url:
        _require_name(end, report)
    _require_space(end, report, model)


def _require_name(end: Mapping[str, Any], report: TransferReport) -> None:
    workspace, name = end["workspace"], end["name"]
    try:
        there = ask(report, f"/apis/models/v2/workspaces/{workspace}/models/{name}")
    except ServiceRefusedError as error:
        if error.code == _NOT_FOUND:
            return
        raise StepError(
            f"the trained model could not be registered at the end: {error.detail.rstrip('.')}"
        ) from error
    if there.get("created_by_job") != end["job"]:
        raise StepError(
            f"output.name: there is a model '{name}' in workspace {workspace} by now; choose another name"
        )


def _require_space(end: Mapping[str, Any], report: TransferReport, model: Path) -> None:
    """Files on the disk of the job's storage become links there; elsewhere they need their own space."""
    place = open_tree(end["root"]).local("")
    if place is None or not end["whole"] or not place.exists():
        return
    size = sum(path.stat().st_size for path in model.rglob("*") if path.is_file())
    if place.stat().st_dev == report.context.storage.stat().st_dev:
        return
    free = disk.free_bytes(place)
    if free is not None and free < size:
        raise StepError(
            f"the disk of the filesets ({place}) has {size_in_words(free)} left, and the trained model needs "
            f"about {size_in_words(size)}; free disk space, then run the job again"
        )
