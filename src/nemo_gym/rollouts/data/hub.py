"""A data set of the Hugging Face hub, or a local folder of the same kind, as a file of rows."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nemo_gym.errors import ConfigError, DataError
from nemo_gym.rollouts.data.row_files import json_row
from nemo_gym.rollouts.run_config.dataset_schema import HubDataset

_SAVED = ("state.json", "dataset_dict.json")
"""What `save_to_disk` of the library writes: of one split, of several."""


def described(source: HubDataset) -> bytes:
    """What distinguishes this data from other: the names, and of a folder its files with sizes and times."""
    words = json.dumps(source.model_dump(exclude_none=True), sort_keys=True).encode()
    folder = Path(source.path)
    if not folder.is_dir():
        return words
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    found = [(str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return words + json.dumps(found).encode()


def write_rows(source: HubDataset, output: Path, where: str) -> None:
    """Write the rows of a data set, one JSON line each, in its order.

    `DataError` when it cannot be had or holds what JSON cannot; `ConfigError`, beginning with ``where``, for
    a split that it lacks.
    """
    with tempfile.TemporaryDirectory(prefix="gym-hub-") as cache, output.open("wb") as stream:
        for number, row in enumerate(_rows(source, cache, where), 1):
            stream.write(json_row(row, f"{source.path}: row {number}") + b"\n")


def _rows(source: HubDataset, cache: str, where: str) -> Iterator[dict[str, Any]]:
    try:
        import datasets
    except ImportError:
        raise DataError(
            f"{where}: a data set of the hub needs the package datasets: pip install 'nemo-baton[datasets]'."
        ) from None
    datasets.disable_progress_bars()
    loaded = _chosen(_load(datasets, source, cache), source, where)
    for name, feature in loaded.features.items():
        if isinstance(feature, datasets.Image):
            loaded = loaded.cast_column(name, datasets.Image(decode=False))
        elif type(feature).__name__ in ("Audio", "Video"):
            loaded = loaded.remove_columns(name)
    yield from loaded


def _load(datasets: Any, source: HubDataset, cache: str) -> Any:
    folder = Path(source.path)
    try:
        if any((folder / name).is_file() for name in _SAVED):
            return datasets.load_from_disk(str(folder))
        elsewhere = {"cache_dir": cache} if folder.is_dir() else {}
        return datasets.load_dataset(
            source.path, source.name, split=source.split, revision=source.revision, **elsewhere
        )
    except Exception as error:  # the library raises whatever its transports raise
        reason = " ".join(str(error).split()).rstrip(".")
        reason = f"{type(error).__name__}: {reason[:300]}"
        if folder.is_dir():
            raise DataError(f"{folder}: cannot be read as a data set ({reason}).") from error
        raise DataError(
            f"the data set {source.path} cannot be had ({reason}); it needs the network, for some its terms "
            "accepted and HF_TOKEN set; a folder on this machine needs none: huggingface.path=FOLDER."
        ) from error


def _chosen(loaded: Any, source: HubDataset, where: str) -> Any:
    """The split that is asked for, or the only one."""
    if hasattr(loaded, "features"):
        return loaded
    splits = list(loaded)
    if source.split is None and len(splits) == 1:
        return loaded[splits[0]]
    if source.split not in splits:
        raise ConfigError(f"{where}.split: {source.path} has {', '.join(splits)}; name one of them.")
    return loaded[source.split]
