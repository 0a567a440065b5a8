"""What a reference in a spec means: a model or fileset, a path of this machine, or a name at the hub."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nemo_helix_plugin.jobs import names
from nemo_helix_server.customizer.facts import InputSource
from nemo_helix_server.errors import ForbiddenError, InvalidError
from nemo_helix_server.files.filesets import Filesets
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.models.registry import ModelRegistry

HUB = "hf://"
_FILE = "file://"
_MOST = 1000


@dataclass(frozen=True, slots=True)
class References:
    """Finds what references name, before any job exists."""

    models: ModelRegistry
    filesets: Filesets
    data_dir: Path
    local_paths: Sequence[Path] | None
    """Folders in which paths may lie; `None`: anywhere but in the service's own."""

    def model(self, caller: Caller, workspace: str, field: str, reference: str) -> InputSource:
        """A model; an adapter cannot be trained on."""
        elsewhere = self._elsewhere(field, reference)
        if elsewhere is not None:
            return elsewhere
        owner, name = self._named(caller, workspace, field, reference)
        found = self.models.find(owner, name)
        if found is None:
            return self._fileset(owner, name, field, "model or fileset")
        if found.get("kind") == "adapter":
            raise InvalidError(
                f"{field}: '{reference}' is an adapter of {found.get('base_model')}; name that one, or a "
                "model with merged weights (DPO alone goes on with an adapter)"
            )
        source = self._fileset(owner, found["fileset"], field, "fileset")
        return InputSource(source.kind, source.place, f"{owner}/{name}", source.files)

    def adapter(
        self, caller: Caller, workspace: str, field: str, reference: str
    ) -> tuple[InputSource, str] | None:
        """The files of an adapter, and the reference to what it is attached to; `None` for all else."""
        if reference.startswith("/") or "://" in reference:
            return None
        owner, name = self._named(caller, workspace, field, reference)
        found = self.models.find(owner, name)
        if found is None or found.get("kind") != "adapter" or not found.get("base_model"):
            return None
        source = self._fileset(owner, found["fileset"], field, "fileset")
        return InputSource(source.kind, source.place, f"{owner}/{name}", source.files), found["base_model"]

    def data(self, caller: Caller, workspace: str, field: str, reference: str) -> InputSource:
        """Data, or an environment."""
        elsewhere = self._elsewhere(field, reference)
        if elsewhere is not None:
            return elsewhere
        owner, name = self._named(caller, workspace, field, reference)
        return self._fileset(owner, name, field, "fileset")

    def _elsewhere(self, field: str, reference: str) -> InputSource | None:
        if reference.startswith(HUB):
            return _hub(field, reference)
        if reference.startswith((_FILE, "/")):
            return self._path(field, Path(reference.removeprefix(_FILE)))
        if "://" in reference:
            raise InvalidError(
                f"{field}: '{reference}' does not name anything; give workspace/name, a path of the "
                "service's machine, or hf://owner/name"
            )
        return None

    def _named(self, caller: Caller, workspace: str, field: str, reference: str) -> tuple[str, str]:
        owner, slash, name = reference.rpartition("/")
        owner = owner if slash else workspace
        for part in (owner, name):
            problem = names.problem_with(part)
            if problem:
                raise InvalidError(
                    f"{field}: '{reference}' names no model or fileset: {problem}; a path of the service's "
                    "machine begins with /, a name at the hub with hf://"
                )
        if caller.workspace not in {None, owner}:
            raise ForbiddenError(f"{field}: '{reference}' is of another workspace than yours")
        return owner, name

    def _fileset(self, workspace: str, name: str, field: str, what: str) -> InputSource:
        if not self.filesets.exists(workspace, name):
            raise InvalidError(
                f"{field}: there is no {what} '{name}' in workspace '{workspace}'; upload it, or name a path "
                "of the service's machine"
            )
        files = self.filesets.paths(workspace, name)
        if not files:
            raise InvalidError(
                f"{field}: the fileset '{workspace}/{name}' has no files yet; upload them first"
            )
        return InputSource("fileset", self.filesets.address(workspace, name), f"{workspace}/{name}", files)

    def _path(self, field: str, path: Path) -> InputSource:
        real = Path(os.path.realpath(path))
        own = real.is_relative_to(self.data_dir.resolve())
        inside = self.local_paths is None or any(
            real.is_relative_to(folder.resolve()) for folder in self.local_paths
        )
        if own or not path.is_absolute() or not inside:
            allowed = ", ".join(map(str, self.local_paths or ())) or "none"
            where = "the service's own data are not" if own else f"allowed folders are: {allowed}"
            raise ForbiddenError(
                f"{field}: paths such as '{path}' are not open to customization jobs here ({where}); upload "
                "a fileset, or have an operator set customization.local_paths"
            )
        try:
            files = tuple(sorted(os.listdir(real))[:_MOST]) if real.is_dir() else (real.name,)
        except OSError as error:
            raise InvalidError(f"{field}: the service cannot read {path}: {error.strerror}") from error
        if not real.is_file() and not real.is_dir():
            raise InvalidError(
                f"{field}: there is neither a file nor a folder at {path} on the service's machine"
            )
        return InputSource("path", str(real), str(path), files)


def _hub(field: str, reference: str) -> InputSource:
    name = reference.removeprefix(HUB)
    parts = name.split("/")
    if not 1 <= len(parts) <= 2 or not all(part and part[0].isalnum() for part in parts):
        raise InvalidError(f"{field}: '{reference}' is not a name at the hub; write hf://owner/name")
    return InputSource("hub", name, reference)
