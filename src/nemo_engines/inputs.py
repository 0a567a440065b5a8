"""What must be the same when a training goes on: data, model, settings, number of processes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from nemo_engines.data.rows import Dataset
from nemo_engines.errors import BadSpecError
from nemo_engines.spec import EngineSpec, settings

_BLOCK = 64 * 1024
_SAMPLES = 16
ADAPTER_CONFIG = "adapter_config.json"


def input_digests(
    spec: EngineSpec, training: Dataset, validation: Dataset | None, *, precision: str, processes: int
) -> dict[str, str]:
    """Every input by name, as text that people can compare."""
    return {
        "engine": spec.engine,
        "method": spec.method,
        "training data": training.identity,
        "validation data": validation.identity if validation else "none",
        "model": model_fingerprint(Path(spec.model)),
        **({"adapter": adapter_fingerprint(Path(spec.adapter))} if spec.adapter else {}),
        "precision": precision,
        "number of processes": str(processes),
        **settings(spec),
    }


def model_fingerprint(folder: Path) -> str:
    """Configuration, tokenizer and a sample of the weights; `BadSpecError` when it is not a model's folder.

    Reading every byte of large weights at each start would take longer than loading them: of each file of
    weights
    the size and blocks spread over it are taken.
    """
    if not (folder / "config.json").is_file():
        raise BadSpecError(f"the model {folder} is not a folder of a model: it has no config.json")
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        if path.suffix in (".safetensors", ".bin"):
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
            for block in _sampled(path):
                digest.update(block)
        elif path.suffix in (".json", ".jinja", ".txt", ".model"):
            digest.update(f"{path.name}\0".encode() + _content(path))
    return f"sha256:{digest.hexdigest()}"


def adapter_fingerprint(folder: Path) -> str:
    """Configuration and weights of an adapter; `BadSpecError` when it is not an adapter's folder."""
    if not (folder / ADAPTER_CONFIG).is_file():
        raise BadSpecError(f"the adapter {folder} is not a folder of an adapter: it has no {ADAPTER_CONFIG}")
    digest = hashlib.sha256()
    for path in sorted(folder.glob("adapter_*")):
        with path.open("rb") as file:
            digest.update(f"{path.name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}".encode())
    return f"sha256:{digest.hexdigest()}"


def _content(path: Path) -> bytes:
    if path.name != "config.json":
        return path.read_bytes()
    try:
        config = json.loads(path.read_bytes())
        config.pop("_name_or_path", None)
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise BadSpecError(f"{path} is not a JSON object: {error}") from error
    return json.dumps(config, sort_keys=True).encode()


def _sampled(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        step = max(_BLOCK, size // _SAMPLES)
        for offset in range(0, size, step):
            stream.seek(offset)
            yield stream.read(_BLOCK)
