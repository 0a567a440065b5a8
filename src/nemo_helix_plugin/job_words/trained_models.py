"""The model that a customization job has made, and what can be done with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_helix_plugin.jobs.statuses import HelixJobStatus

Record = Mapping[str, Any]
_SOURCE = "customization"
"""The source of jobs whose last step registers a model."""


def trained_model(job: Record) -> str:
    """``workspace/name`` of the model that a completed customization job has made; nothing of others."""
    spec = job.get("spec")
    output = spec.get("output") if isinstance(spec, Mapping) else None
    name = output.get("name") if isinstance(output, Mapping) else None
    if job.get("status") != HelixJobStatus.COMPLETED or job.get("source") != _SOURCE or not name:
        return ""
    return f"{job.get('workspace') or ''}/{name}"


def model_commands(job: Record) -> list[str]:
    """The commands for the model of a completed customization job, the likeliest first; none of others."""
    workspace, _, name = trained_model(job).partition("/")
    if not name:
        return []
    where = f" --workspace {workspace}"
    return [
        f"nemo models chat {name} --with-base{where}",
        f"nemo models serve {name}{where}",
        f"nemo models export {name} --to merged{where}",
        f"nemo models push {name} OWNER/NAME{where}",
        f"gym eval run --benchmark BENCHMARK --model {workspace}/{name}",
    ]
