"""Routes of checkpoints: which a job has, and keeping one beyond the job's storage."""

from __future__ import annotations

from typing import Any

from nemo_helix_plugin.jobs import types
from nemo_helix_server.api.access import READS, Operator, PathName, Service
from nemo_helix_server.api.guard import make_router
from nemo_helix_server.api.problems import answers
from nemo_helix_server.api.routes.jobs import JOBS

CHECKPOINTS = JOBS + "/{job}/checkpoints"
router = make_router(CHECKPOINTS, ["checkpoints"])
Document = dict[str, Any]


@router.get("", response_model=types.Page[types.Checkpoint], responses=answers(404, 422), dependencies=READS)
def list_checkpoints(workspace: PathName, job: PathName, service: Service) -> Document:
    """The checkpoints of a job, the newest step first."""
    return service.checkpoints.all(workspace, job)


@router.get("/{checkpoint}", response_model=types.Checkpoint, responses=answers(404, 422), dependencies=READS)
def get_checkpoint(workspace: PathName, job: PathName, checkpoint: PathName, service: Service) -> Document:
    """One checkpoint, by its id."""
    return service.checkpoints.get(workspace, job, checkpoint)


@router.post("/{checkpoint}/pin", response_model=types.Checkpoint, responses=answers(404, 409, 422))
def pin_checkpoint(
    workspace: PathName, job: PathName, checkpoint: PathName, caller: Operator, service: Service
) -> Document:
    """Have a checkpoint copied out of the job's storage; `pinned` says when that is done."""
    return service.checkpoints.pin(caller, workspace, job, checkpoint)


@router.delete("/{checkpoint}/pin", response_model=types.Checkpoint, responses=answers(404, 409, 422))
def unpin_checkpoint(
    workspace: PathName, job: PathName, checkpoint: PathName, caller: Operator, service: Service
) -> Document:
    """Have the pinned copy removed."""
    return service.checkpoints.unpin(caller, workspace, job, checkpoint)
