"""What a spec names and somebody has: model, data sets, environment, benchmark; found and looked into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.run_config import catalog
from nemo_helix_plugin.customization import backends
from nemo_helix_server.customizer import environment
from nemo_helix_server.customizer.facts import InputSource
from nemo_helix_server.customizer.gathering import Gathered
from nemo_helix_server.customizer.references import References
from nemo_helix_server.errors import InvalidError, UnknownNameError
from nemo_helix_server.jobs.model import Caller
from nemo_runs.durable.disk import read_regular

_CONFIG = "config.yaml"


@dataclass(frozen=True, slots=True)
class NamedInputs:
    """The inputs of one spec, as one caller may see them."""

    references: References
    data_dir: Path
    caller: Caller
    workspace: str
    gathered: Gathered
    """Takes what names nothing."""

    def of_spec(self, backend: backends.BackendDescription, given: BaseModel) -> dict[str, InputSource]:
        """By what they are for; what names nothing is gathered, and not there."""
        found = {}
        for what, (field, reference) in named(backend, given).items():
            find = self.references.model if what == "model" else self.references.data
            with self.gathered:
                adapter = None
                if what == "model" and _takes_adapter(given):
                    adapter = self.references.adapter(self.caller, self.workspace, field, reference)
                if adapter is not None:
                    found["adapter"] = adapter[0]
                found[what] = find(self.caller, self.workspace, field, adapter[1] if adapter else reference)
        return found

    def benchmark(self, given: BaseModel) -> InputSource | None:
        """The benchmark that checkpoints are asked: one that `gym` knows by name, or one's own.

        Raises `InvalidError`.
        """
        reference = getattr(getattr(given, "eval", None), "benchmark", None)
        if reference is None:
            return None
        if "/" not in reference:
            return InputSource("benchmark", _known_benchmark(reference, self.data_dir), reference)
        found = self.references.data(self.caller, self.workspace, "eval.benchmark", reference)
        if found.kind == "hub" or _CONFIG not in (found.files or ()):
            raise InvalidError(f"eval.benchmark: '{reference}' has no {_CONFIG} of a gym benchmark")
        return found

    def beside(self, given: BaseModel) -> tuple[InputSource, ...]:
        """The data sets beside the first one; what names nothing is gathered."""
        rows = getattr(given, "rows", None)
        found = []
        for reference in getattr(rows, "beside", None) or ():
            with self.gathered:
                found.append(self.references.data(self.caller, self.workspace, "rows.beside", reference))
        return tuple(found)

    def rewards(self, source: InputSource) -> Mapping[str, Any]:
        """What an environment says of its rewards; raises `InvalidError`."""
        return environment.rewards(self._reader(source), source.shown)

    def _reader(self, source: InputSource) -> Callable[[str], bytes | None]:
        if source.kind == "hub":
            raise InvalidError("environment: give a fileset or a folder, not a name at the hub")

        def read(path: str) -> bytes | None:
            if source.kind == "fileset":
                workspace, _, name = source.shown.partition("/")
                try:
                    return self.references.filesets.read(workspace, name, path, environment.LARGEST)
                except UnknownNameError:
                    return None
            return _small(Path(source.place), path)

        return read


def named(backend: backends.BackendDescription, given: BaseModel) -> dict[str, tuple[str, str]]:
    """Field and reference of everything that a spec names."""
    found = {}
    for what, place in backend.references.items():
        reference: Any = given
        for part in place:
            reference = getattr(reference, part, None)
        if reference is not None:
            found[what] = (".".join(place), reference)
    return found


def _takes_adapter(given: BaseModel) -> bool:
    """Whether a job can go on with an adapter: DPO can, of which it is the reference, too."""
    return getattr(getattr(given, "training", None), "type", None) == "dpo"


def _known_benchmark(name: str, folder: Path) -> str:
    """The name of a benchmark that `gym` finds; nothing is looked for in the folder of anybody's work."""
    try:
        catalog.find_benchmark(name, cwd=folder)
    except ConfigError as error:
        said = str(error).removeprefix("--benchmark: ")
        raise InvalidError(f"eval.benchmark: {said}") from error
    return name


def _small(folder: Path, path: str) -> bytes | None:
    file = folder / path
    try:
        if not file.resolve().is_relative_to(folder.resolve()):
            return None
        return read_regular(file, most=environment.LARGEST)
    except (OSError, RuntimeError):
        return None
