"""Folders with the files of a model: what they are, and the digest of all that is in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from nemo_models.errors import ModelsError
from nemo_runs.durable.files import replace_file

ADAPTER = "adapter_config.json"
CONFIG = "config.json"
_WEIGHTS = (".safetensors", ".bin", ".gguf")


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter, which needs a base model."""
    return (folder / ADAPTER).is_file()


def check(folder: Path, shown: str) -> None:
    """Raise `ModelsError` for a folder without a model."""
    if not is_adapter(folder) and not (folder / CONFIG).is_file():
        raise ModelsError(f"{shown} has neither {CONFIG} nor {ADAPTER}: it is not a model of transformers")


def named_base(folder: Path) -> str | None:
    """The base model that an adapter's folder names."""
    try:
        found = json.loads((folder / ADAPTER).read_bytes())["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(found) if found else None


def model_type(folder: Path) -> str | None:
    """The architecture that a model's folder names, such as ``qwen3``."""
    try:
        return str(json.loads((folder / CONFIG).read_bytes())["model_type"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """Relative names and paths of a model's files; hidden ones are left out."""
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in relative.parts):
            yield relative.as_posix(), path


def size_of(folder: Path) -> int:
    """Bytes of a model's weights."""
    return sum(path.stat().st_size for _, path in files_of(folder) if path.suffix in _WEIGHTS)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(folder: Path) -> str:
    """``sha256:…`` of the names and digests of all files."""
    whole = hashlib.sha256()
    for name, path in files_of(folder):
        whole.update(f"{name}\0{file_digest(path)}\n".encode())
    return f"sha256:{whole.hexdigest()}"


def remembered_digest(folder: Path, cache: Path) -> str:
    """The same; it is not computed again while names, sizes and times of the files are the same."""
    stats = [(name, path.stat()) for name, path in files_of(folder)]
    marks = [(name, found.st_size, found.st_mtime_ns, found.st_ino) for name, found in stats]
    key = hashlib.sha256(json.dumps([str(folder), marks]).encode()).hexdigest()[:24]
    kept = cache / "model-digests" / key
    try:
        return kept.read_text(encoding="ascii").strip()
    except OSError:
        digest = digest_of(folder)
    kept.parent.mkdir(parents=True, exist_ok=True)
    replace_file(kept, f"{digest}\n".encode())
    return digest
