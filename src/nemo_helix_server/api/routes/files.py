"""Routes of filesets and their files. Uploads are streamed, and a file is there whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import urllib.parse
from typing import Annotated, Any

from fastapi import Header, Request
from fastapi import Path as PathParameter
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from nemo_helix_plugin.files import types
from nemo_helix_plugin.jobs.models import Page
from nemo_helix_server.api.access import OPERATES, READS, Operator, PathName, Service
from nemo_helix_server.api.guard import make_router, takes_a_file
from nemo_helix_server.api.problems import answers
from nemo_helix_server.errors import InvalidError, MalformedRequestError, StateConflictError, unwritable
from nemo_helix_server.files.filesets import chunks
from nemo_helix_server.files.locations import Upload

FILESETS = "/apis/files/v2/workspaces/{workspace}/filesets"
router = make_router(FILESETS, ["files"])
Document = dict[str, Any]
FilePath = Annotated[str, PathParameter(min_length=1, max_length=2048, description="Path in the fileset.")]
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


@router.get("", response_model=Page[types.Fileset], responses=answers(404, 422), dependencies=READS)
def list_filesets(workspace: PathName, service: Service) -> Document:
    """The filesets of a workspace."""
    return {"data": service.filesets.all(workspace)}


@router.post("", status_code=201, response_model=types.Fileset, responses=answers(404, 409, 422))
def create_fileset(
    workspace: PathName, body: types.CreateFilesetRequest, caller: Operator, service: Service
) -> Document:
    """Make an empty fileset."""
    service.workspaces.get(workspace)
    return service.filesets.create(caller.name, workspace, body.name, body.description)


@router.get("/{name}", response_model=types.Fileset, responses=answers(404, 422), dependencies=READS)
def get_fileset(workspace: PathName, name: PathName, service: Service) -> Document:
    """One fileset, with how much is in it."""
    return service.filesets.get(workspace, name)


@router.delete("/{name}", status_code=204, responses=answers(404, 422), dependencies=OPERATES)
def delete_fileset(workspace: PathName, name: PathName, service: Service) -> None:
    """Remove a fileset with its files."""
    service.filesets.delete(workspace, name)


@router.get(
    "/{name}/files", response_model=Page[types.FilesetFile], responses=answers(404, 422), dependencies=READS
)
def list_files(workspace: PathName, name: PathName, service: Service) -> Document:
    """The files of a fileset, by path."""
    return {"data": service.filesets.files(workspace, name)}


@router.put(
    "/{name}/files/{path:path}",
    status_code=201,
    response_model=types.FilesetFile,
    responses=answers(404, 409, 422),
    dependencies=OPERATES,
    openapi_extra={"requestBody": {"required": True, "content": _BYTES}},
)
@takes_a_file
async def upload_file(
    workspace: PathName,
    name: PathName,
    path: FilePath,
    request: Request,
    service: Service,
    if_none_match: Annotated[str | None, Header(description="`*`: only if there is no such file.")] = None,
    x_content_sha256: Annotated[
        str | None, Header(max_length=64, description="The file is kept only if this is its digest.")
    ] = None,
) -> Document:
    """Write a file; one that is there is replaced when the new one is whole."""
    if if_none_match == "*" and await asyncio.to_thread(_is_there, service, workspace, name, path):
        raise StateConflictError(f"the fileset '{name}' has a file '{path}' already")
    upload = None
    try:
        upload = await asyncio.to_thread(service.filesets.upload, workspace, name, path)
        size, digest = await _receive(request, upload)
        _check_digest(path, digest, x_content_sha256)
        await asyncio.to_thread(upload.commit)
    except BaseException as error:
        if upload is not None:
            await asyncio.to_thread(upload.abort)
        if isinstance(error, IsADirectoryError | NotADirectoryError | FileExistsError):
            raise StateConflictError(
                f"the path '{path}' and another file of '{name}' are in each other's way"
            ) from None
        if isinstance(error, OSError):
            raise unwritable(f"the file '{path}'", error) from error
        raise
    return {"path": path, "size": size, "sha256": digest}


def _check_digest(path: str, digest: str, wanted: str | None) -> None:
    if wanted is not None and wanted.lower() != digest:
        raise InvalidError(f"the file '{path}' did not arrive as it was sent; send it again")


async def _receive(request: Request, upload: Upload) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    try:
        async for chunk in request.stream():
            digest.update(chunk)
            size += len(chunk)
            await asyncio.to_thread(upload.write, chunk)
    except ClientDisconnect:
        raise MalformedRequestError("the client went away before its file was whole") from None
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) != size:
        raise MalformedRequestError(f"{declared} bytes were announced and {size} came")
    return size, digest.hexdigest()


def _is_there(service: Service, workspace: str, name: str, path: str) -> bool:
    return path in service.filesets.paths(workspace, name)


@router.get(
    "/{name}/files/{path:path}",
    response_class=StreamingResponse,
    responses={**answers(404, 422), 200: {"description": "The file.", "content": _BYTES}},
    dependencies=READS,
)
def download_file(workspace: PathName, name: PathName, path: FilePath, service: Service) -> StreamingResponse:
    """The bytes of a file."""
    file, size = service.filesets.open(workspace, name, path)
    shown = urllib.parse.quote(path.rpartition("/")[2], safe="")
    headers = {"content-length": str(size), "content-disposition": f"attachment; filename*=UTF-8''{shown}"}
    return StreamingResponse(chunks(file), media_type="application/octet-stream", headers=headers)


@router.delete(
    "/{name}/files/{path:path}", status_code=204, responses=answers(404, 422), dependencies=OPERATES
)
def delete_file(workspace: PathName, name: PathName, path: FilePath, service: Service) -> None:
    """Remove a file."""
    service.filesets.delete_file(workspace, name, path)
