"""Calls about filesets, their files, and models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_helix_plugin.client import responses, streams
from nemo_helix_plugin.client.calls.call import Call, binary, nothing, paged, single
from nemo_helix_plugin.client.calls.jobs import NothingCall
from nemo_helix_plugin.client.request import Request, checked
from nemo_helix_plugin.files import types as files
from nemo_helix_plugin.models import types as models

FILESETS = "/apis/files/v2/workspaces/{workspace}/filesets"
FILES = FILESETS + "/{fileset}/files"
MODELS = "/apis/models/v2/workspaces/{workspace}/models"

Fields = Mapping[str, Any]
FilesetCall = Call[responses.NemoResponse[files.Fileset], responses.NemoResponse[files.Fileset]]
FileCall = Call[responses.NemoResponse[files.FilesetFile], responses.NemoResponse[files.FilesetFile]]
ModelCall = Call[responses.NemoResponse[models.Model], responses.NemoResponse[models.Model]]


def create_fileset(*, body: files.CreateFilesetRequest | Fields, workspace: str | None = None) -> FilesetCall:
    """Make an empty fileset."""
    request = Request(
        "POST", FILESETS, {"workspace": workspace}, body=checked(files.CreateFilesetRequest, body)
    )
    return single(request, files.Fileset)


def list_filesets(
    *, workspace: str | None = None
) -> Call[responses.PagedResponse[files.Fileset], responses.AsyncPagedResponse[files.Fileset]]:
    """List the filesets of a workspace."""
    return paged(Request("GET", FILESETS, {"workspace": workspace}), files.Fileset)


def get_fileset(*, name: str, workspace: str | None = None) -> FilesetCall:
    """Get a fileset, with how much is in it."""
    return single(Request("GET", FILESETS + "/{name}", {"name": name, "workspace": workspace}), files.Fileset)


def delete_fileset(*, name: str, workspace: str | None = None) -> NothingCall:
    """Delete a fileset with its files."""
    return nothing(Request("DELETE", FILESETS + "/{name}", {"name": name, "workspace": workspace}))


def list_files(
    *, fileset: str, workspace: str | None = None
) -> Call[responses.PagedResponse[files.FilesetFile], responses.AsyncPagedResponse[files.FilesetFile]]:
    """List the files of a fileset."""
    return paged(Request("GET", FILES, {"fileset": fileset, "workspace": workspace}), files.FilesetFile)


def upload_file(
    *, fileset: str, path: str, source: str | os.PathLike[str], workspace: str | None = None
) -> FileCall:
    """Write a local file into a fileset under a path; it is there whole, or not at all."""
    parts = {"fileset": fileset, "path": path, "workspace": workspace}
    return single(Request("PUT", FILES + "/{path}", parts, file=Path(source)), files.FilesetFile)


def download_file(
    *, fileset: str, path: str, workspace: str | None = None
) -> Call[streams.BinaryResponse, streams.AsyncBinaryResponse]:
    """Read a file of a fileset."""
    parts = {"fileset": fileset, "path": path, "workspace": workspace}
    return binary(Request("GET", FILES + "/{path}", parts))


def delete_file(*, fileset: str, path: str, workspace: str | None = None) -> NothingCall:
    """Delete a file of a fileset."""
    parts = {"fileset": fileset, "path": path, "workspace": workspace}
    return nothing(Request("DELETE", FILES + "/{path}", parts))


def create_model(*, body: models.CreateModelRequest | Fields, workspace: str | None = None) -> ModelCall:
    """Register a model whose weights are in a fileset."""
    request = Request("POST", MODELS, {"workspace": workspace}, body=checked(models.CreateModelRequest, body))
    return single(request, models.Model)


def list_models(
    *, workspace: str | None = None, page: int | None = None, page_size: int | None = None
) -> Call[responses.PagedResponse[models.Model], responses.AsyncPagedResponse[models.Model]]:
    """List the models of a workspace, the newest first."""
    query = {"page": page, "page_size": page_size}
    return paged(Request("GET", MODELS, {"workspace": workspace}, query), models.Model)


def get_model(*, name: str, workspace: str | None = None) -> ModelCall:
    """Get a model by its name."""
    return single(Request("GET", MODELS + "/{name}", {"name": name, "workspace": workspace}), models.Model)


def delete_model(*, name: str, workspace: str | None = None) -> NothingCall:
    """Forget a model; its fileset stays."""
    return nothing(Request("DELETE", MODELS + "/{name}", {"name": name, "workspace": workspace}))
