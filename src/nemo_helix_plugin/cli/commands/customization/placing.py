"""What a spec names, as the service can find it: files of this machine are sent, and a name at the hub is
recognised."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from nemo_helix_plugin.cli import uploading
from nemo_helix_plugin.cli.command_context import CommandContext
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.customization import recipes
from nemo_helix_plugin.jobs import names
from nemo_runs.addresses import is_loopback
from nemo_runs.counts import counted

_FILE = "file://"
_LIKE_PATHS = ("/", "./", "../", "~")
_DIGITS = 12


def here(source: str, beside: Path) -> Path | None:
    """The file or folder of this machine that a source names; `click.UsageError` for a path to nothing.

    A relative path is looked up in ``beside``, the folder of the spec file, then in the current folder.
    """
    if source.startswith(recipes.SCHEME):
        found = recipes.shipped_file(source)
        if found is None:
            raise click.UsageError(f"{source}: no such file ships with the recipes.")
        return found
    if "://" in source and not source.startswith(_FILE):
        return None
    path = Path(source.removeprefix(_FILE)).expanduser()
    for found in (beside / path, path):
        if found.exists():
            return found
    if source.startswith((*_LIKE_PATHS, _FILE)) or source.endswith((".jsonl", ".json")):
        raise click.UsageError(f"{source}: there is no such file or folder.")
    return None


def at_hub(source: str) -> str | None:
    """``hf://owner/name`` for what cannot be the name of something in a workspace; `None` where it can."""
    parts = source.split("/")
    if len(parts) != 2 or "://" in source or not all(part and part[0].isalnum() for part in parts):
        return None
    return f"{uploading.HUB}{source}" if any(names.problem_with(part) for part in parts) else None


class SourcePlaces:
    """Finds places for one call of a command; the service is asked as far as that is needed."""

    def __init__(self, call: CommandContext, beside: Path) -> None:
        self._call = call
        self._beside = beside

    def reference(self, what: str, source: str) -> str:
        """The reference that a spec gets; ``what`` is ``model``, ``dataset`` or ``environment``.

        Data and environments are sent, so that a job goes on with what it began with. A model is only
        referred to where the service is on this machine.
        """
        path = here(source, self._beside)
        if path is not None:
            local = what == "model" and is_loopback(urlsplit(self._call.context.base_url).hostname)
            return self._model(path) if local else self.sent(what, path)
        hub = at_hub(source) or self._elsewhere(what, source)
        if hub is not None:
            self._call.report(f"{source} is taken from the hub.")
        return hub or source

    def sent(self, what: str, path: Path) -> str:
        """A fileset that holds just these files: it is named by what is in them, and so never changes."""
        found = uploading.local(str(path), what)
        name = f"{_stem(found, what)}-{digest(found)[:_DIGITS]}"
        uploading.make_fileset(self._call, name, None, exist_ok=True)
        sent, kept = uploading.send(self._call, name, found)
        if what == "model":
            uploading.register(self._call, name, name, exist_ok=True)
        if sent:
            self._call.report(f"uploaded {path} as '{name}': {counted(sent, 'file')}.")
        else:
            self._call.report(f"{path} is there already as '{name}': {counted(kept, 'file')}.")
        return f"{self._call.workspace}/{name}"

    def _model(self, path: Path) -> str:
        if not (path / "config.json").is_file():
            raise click.UsageError(
                f"{path}: a folder of a model in the layout of transformers has a config.json; this has not."
            )
        return str(path.resolve())

    def _elsewhere(self, what: str, source: str) -> str | None:
        """The name at the hub of what looks like workspace/name and that no workspace has."""
        owner, slash, name = source.partition("/")
        if not slash or "://" in source or self._call.output_format == "code":
            return None
        asked: dict[str, Any] = {"workspace": owner}
        if what == "model" and self._has("models.get", {**asked, "name": name}):
            return None
        if self._has("files.get_fileset", {**asked, "name": name}):
            return None
        return f"{uploading.HUB}{source}"

    def _has(self, method: str, asked: dict[str, Any]) -> bool:
        from nemo_helix_plugin.client.errors import NotFoundError, PermissionDeniedError

        try:
            self._call.ask(Operation(method, asked))
        except NotFoundError:
            return False
        except (
            PermissionDeniedError
        ):  # another workspace, of which nothing may be known: the service will say
            return True
        return True


def _stem(path: Path, what: str) -> str:
    try:
        return uploading.derived_name(str(path.resolve()))[:30].rstrip("-.+_@")
    except click.UsageError:
        return what


def digest(path: Path) -> str:
    """A digest of what is in a file or folder: names and contents of all files."""
    found = hashlib.sha256()
    for file, relative in uploading.pairs(path):
        with file.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        found.update(f"{relative}\0{content}\n".encode())
    return found.hexdigest()
