"""Requests and responses of the filesets' routes."""

from __future__ import annotations

from nemo_helix_plugin.jobs import models, names
from nemo_helix_plugin.jobs.requests import ShortText


class CreateFilesetRequest(models.RequestModel):
    """A new, empty fileset."""

    name: names.EntityName
    description: ShortText | None = None


class Fileset(models.ResponseModel):
    """A folder of files by name."""

    name: str
    workspace: str | None = None
    description: str | None = None
    url: str | None = None
    """``fileset://workspace/name``."""
    files: int | None = None
    size_bytes: int | None = None
    created_by: str | None = None
    created_at: models.Moment | None = None


class FilesetFile(models.ResponseModel):
    """One file of a fileset."""

    path: str
    size: int
    sha256: str | None = None
    """Said in answer to an upload."""
