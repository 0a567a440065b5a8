"""A model by name, as folders of this machine: its own files, and those of the model it is attached to.

Files come from the service's filesets into the user's cache, each whole or not at all; what was fetched is
found again while the service's record and its list of files are the same. A folder may be named in place of a
model, for which no service is asked.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nemo_helix_plugin.cli import uploading
from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.client.errors import NotFoundError
from nemo_models import engine, weights
from nemo_models.errors import ModelsError
from nemo_runs import file_locks
from nemo_runs.durable.files import replace_file
from nemo_runs.environments.installing import cache_folder
from nemo_runs.sizes import size_in_words

_HUB = "hf://"
_FOLDERS = ("/", "./", "../", "~")
_KEPT = "fetched.json"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model whose files are here."""

    name: str
    """What it is called, without its workspace."""
    shown: str
    """What was named: ``workspace/name``, a folder, or ``hf://owner/name``."""
    folder: Path
    adapter: bool
    digest: str
    """``sha256:…`` of all its files, those of the base model of an adapter included."""
    base: LocalModel | None = None
    """What an adapter is attached to; of a whole model what it was trained from, where that was asked for."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """What the service knows of it."""

    def to_json(self) -> dict[str, Any]:
        """As one JSON object."""
        return {
            "name": self.name,
            "shown": self.shown,
            "kind": "adapter" if self.adapter else "full",
            "folder": str(self.folder),
            "digest": self.digest,
            "base": self.base.to_json() if self.base else None,
        }


@dataclass(slots=True)
class ModelFinder:
    """Finds models, and fetches what is not here yet."""

    call: CommandContext
    report: Callable[[str], None]
    cache: Path = field(default_factory=cache_folder)

    def find(self, named: str, *, base: str | None = None, with_base: bool = False) -> LocalModel:
        """The model, with its base model if it is an adapter or ``with_base`` asks for it.

        ``base`` names another base model than the record does. Raises `ModelsError`, or a client's error.
        """
        found = self._one(named)
        if found.adapter or with_base:
            reference = base or _base_reference(found)
            if reference is None:
                raise ModelsError(
                    f"the model {found.shown} does not say what it was trained from: name it by --base"
                )
            found = replace(found, base=self._base(found, reference, chosen=base is not None))
        if found.adapter and found.base is not None:
            both = hashlib.sha256(f"{found.digest}\0{found.base.digest}".encode()).hexdigest()
            found = replace(found, digest=f"sha256:{both}")
        return found

    def _base(self, model: LocalModel, reference: str, *, chosen: bool) -> LocalModel:
        if reference.startswith("/") and not chosen and not Path(reference).is_dir():
            raise ModelsError(
                f"the base model of {model.shown} is the folder {reference} of the service's machine, which "
                "is not here: copy it, and give --base FOLDER"
            )
        workspace = model.shown.partition("/")[0] if model.record else self.call.workspace
        found = self._one(reference, workspace=workspace, may_be_a_fileset=True)
        if found.adapter:
            raise ModelsError(f"the base model {reference} of {model.shown} is an adapter itself")
        return found

    def _one(self, named: str, *, workspace: str | None = None, may_be_a_fileset: bool = False) -> LocalModel:
        if named.startswith(_FOLDERS):
            return self._folder(Path(named).expanduser())
        if named.startswith(_HUB):
            return self._hub(named)
        owner, slash, name = named.rpartition("/")
        owner = owner if slash else workspace or self.call.workspace
        try:
            record = self._asked("models.get", name=name, workspace=owner)
        except NotFoundError:
            if not may_be_a_fileset:
                raise
            record = {"fileset": name}
        folder, digest = self._fetched(owner, record)
        adapter = record.get("kind") == "adapter" or weights.is_adapter(folder)
        weights.check(folder, f"{owner}/{name}")
        return LocalModel(name, f"{owner}/{name}", folder, adapter, digest, record=record)

    def _folder(self, folder: Path) -> LocalModel:
        if not folder.is_dir():
            raise ModelsError(f"{folder} is not a folder: name the folder of a model, or a model")
        weights.check(folder, str(folder))
        real = folder.resolve()
        digest = weights.remembered_digest(real, self.cache)
        return LocalModel(real.name, str(folder), real, weights.is_adapter(real), digest)

    def _hub(self, named: str) -> LocalModel:
        self.report(f"looks for {named} at the hub …")
        name = named.removeprefix(_HUB)
        answer = engine.find().answer("nemo_engines.hub.download", name, extra={"HF_HUB_OFFLINE": "0"})
        folder = Path(answer["folder"])
        weights.check(folder, named)
        digest = weights.remembered_digest(folder, self.cache)
        return LocalModel(name.rpartition("/")[2], named, folder, weights.is_adapter(folder), digest)

    def _asked(self, method: str, **arguments: Any) -> dict[str, Any]:
        found = record_of(self.call.ask(Operation(method, arguments)))
        assert isinstance(found, dict)
        return found

    def _fetched(self, workspace: str, record: Mapping[str, Any]) -> tuple[Path, str]:
        """The folder with the files of a fileset, and their digest."""
        name = str(record["fileset"])
        fileset = self._asked("files.get_fileset", name=name, workspace=workspace)
        asked = {"fileset": name, "workspace": workspace}
        files = self.call.all_records(Operation("files.list_files", asked, "list"))
        listed = {str(one["path"]): int(one["size"]) for one in files}
        if not listed:
            raise ModelsError(f"the fileset {workspace}/{name} has no files")
        marks = [self.call.context.base_url, workspace, name, fileset.get("created_at")]
        marks += [record.get("updated_at"), sorted(listed.items())]
        key = hashlib.sha256(json.dumps(marks, default=str).encode()).hexdigest()[:20]
        home = self.cache / "fetched-models" / key
        folder = home / name
        folder.mkdir(parents=True, exist_ok=True)
        with (home / ".lock").open("w") as lock:
            file_locks.take(lock.fileno())
            if (known := _known(home)) is not None:
                return folder, known
            self._fill(workspace, name, listed, folder)
            digest = weights.digest_of(folder)
            replace_file(home / _KEPT, json.dumps({"digest": digest}).encode() + b"\n")
        return folder, digest

    def _fill(self, workspace: str, name: str, listed: Mapping[str, int], folder: Path) -> None:
        """Fetch what is not here yet, in the order of the list."""
        for there in (path for path in folder.rglob("*") if path.is_file()):
            if there.relative_to(folder).as_posix() not in listed:
                there.unlink()
        wanted = {path: size for path, size in listed.items() if not _is_there(folder / path, size)}
        check_space(folder, sum(wanted.values()), f"the files of {workspace}/{name}")
        self.report(f"fetches {workspace}/{name}: {size_in_words(sum(wanted.values()))} …")
        for path, size in wanted.items():
            uploading.fetch(self.call, name, folder, path, workspace=workspace)
            if (folder / path).stat().st_size != size:
                raise ModelsError(f"{workspace}/{name} has changed while it was fetched; try again")


def check_space(folder: Path, needed: int, what: str) -> None:
    """Raise `ModelsError` where the disk of a folder has no space; ``needed`` counts bytes."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ModelsError(
            f"{what} need {size_in_words(needed)}, and {size_in_words(free)} are free in {folder}: free some "
            "space, or choose another disk"
        )


def _is_there(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _known(home: Path) -> str | None:
    try:
        return str(json.loads((home / _KEPT).read_bytes())["digest"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _base_reference(model: LocalModel) -> str | None:
    named = model.record.get("base_model") or weights.named_base(model.folder)
    return str(named) if named else None
