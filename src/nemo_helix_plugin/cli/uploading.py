"""Sending folders and files of this machine into filesets, and getting them back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from nemo_helix_plugin.cli.command_context import CommandContext
from nemo_helix_plugin.cli.output.code import Operation
from nemo_runs.counts import counted

HUB = "hf://"
_LONGEST_NAME = 200
_SUFFIXES = re.compile(r"(\.(jsonl|json|parquet|csv|txt|gz))+$")


def derived_name(source: str) -> str:
    """A name out of a file's, a folder's or a repository's."""
    last = _SUFFIXES.sub("", source.rstrip("/").rpartition("/")[2].lower())
    name = re.sub(r"^[^a-z]+", "", re.sub(r"-+", "-", re.sub(r"[^a-z0-9@.+_-]+", "-", last)))[:50].strip("-")
    if len(name) < 2:
        raise click.UsageError(f"{source}: no name can be made of this; rename it to begin with a letter.")
    return name


def pairs(source: Path) -> Iterator[tuple[Path, str]]:
    """Files with their paths in a fileset."""
    if source.is_file():
        yield source, source.name
        return
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if path.is_file() and not any(part.startswith(".") for part in relative.parts):
            yield path, relative.as_posix()


def local(source: str, option: str) -> Path:
    """A folder or file of this machine that has something to send."""
    path = Path(source).expanduser()
    if not path.exists():
        raise click.UsageError(f"{option} {source}: there is no such file or folder.")
    found = [relative for _, relative in pairs(path)]
    if not found:
        raise click.UsageError(f"{option} {source}: there are no files in it.")
    for relative in found:
        _check_name(relative, f"{option} {source}")
    return path


def _check_name(relative: str, where: str) -> None:
    """Names that a fileset takes: said before anything is sent, and so that it can be read."""
    try:
        plain = max(len(part.encode()) for part in relative.split("/")) <= _LONGEST_NAME
    except UnicodeEncodeError:
        plain = False
    if not plain or "\\" in relative or any(ord(letter) < 32 for letter in relative):
        raise click.UsageError(
            f"{where}: a fileset cannot hold a file called {ascii(relative)[:100]}; rename it: names are "
            f"text without \\ and control characters, of at most {_LONGEST_NAME} bytes."
        )


def make_fileset(call: CommandContext, name: str, description: str | None, *, exist_ok: bool) -> None:
    """Make a fileset; one that is there is an error unless that is fine."""
    from nemo_helix_plugin.client.errors import ConflictError

    body = {"name": name, **({"description": description} if description else {})}
    try:
        call.ask(Operation("files.create_fileset", {"body": body, "workspace": call.workspace}))
    except ConflictError as error:
        if not exist_ok:
            error.add_note("--exist-ok adds what is not in it yet, and leaves the rest as it is.")
            raise


def send(call: CommandContext, fileset: str, source: Path) -> tuple[int, int]:
    """Send what the fileset does not have yet; how many files were sent, and how many were there."""
    asked = {"fileset": fileset, "workspace": call.workspace}
    there = {record["path"] for record in call.all_records(Operation("files.list_files", asked, "list"))}
    sent = kept = 0
    for path, relative in pairs(source):
        if relative in there:
            kept += 1
            continue
        call.ask(Operation("files.upload_file", {**asked, "path": relative, "source": str(path)}))
        sent += 1
    return sent, kept


def register(call: CommandContext, name: str, fileset: str, *, exist_ok: bool) -> None:
    """Register a whole model."""
    from nemo_helix_plugin.client.errors import ConflictError

    body = {"name": name, "fileset": fileset, "kind": "full"}
    try:
        call.ask(Operation("models.create", {"body": body, "workspace": call.workspace}))
    except ConflictError:
        if not exist_ok:
            raise


def upload(call: CommandContext, what: str, source: str, *, exist_ok: bool) -> str:
    """Send a model, dataset or environment, and return the reference to it."""
    if source.startswith(HUB):
        return source
    path = local(source, f"--upload-{what}")
    name = derived_name(str(path.resolve()))
    make_fileset(call, name, None, exist_ok=exist_ok)
    sent, kept = send(call, name, path)
    if what == "model":
        register(call, name, name, exist_ok=exist_ok)
    call.report(
        f"uploaded {what} '{name}': {counted(sent, 'file')} sent, {counted(kept, 'was', 'were')} there."
    )
    return f"{call.workspace}/{name}"


def fetch(
    call: CommandContext, fileset: str, target: Path, only: str | None, *, workspace: str | None = None
) -> list[str]:
    """Get the files of a fileset, each whole or not at all; their paths."""
    asked = {"fileset": fileset, "workspace": workspace or call.workspace}
    if only is not None:
        wanted = [only]
    else:
        wanted = [item["path"] for item in call.all_records(Operation("files.list_files", asked, "list"))]
    for path in wanted:
        place = target / _inside(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        with call.asking():
            call.ask(Operation("files.download_file", {**asked, "path": path}, "bytes")).save(place)
    return wanted


def _inside(path: str) -> Path:
    parts = path.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise click.UsageError(f"{path!r} is not a path inside a fileset.")
    return Path(*parts)
