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
    with output.open("wb") as stream:
        for number, row in enumerate(dataset_rows(source, where), 1):
            stream.write(json_row(row, f"{source.path}: row {number}") + b"\n")


def dataset_rows(source: HubDataset, where: str) -> Iterator[dict[str, Any]]:
    """The rows of a data set as the library has them; raises as `write_rows` does."""
    with tempfile.TemporaryDirectory(prefix="gym-hub-") as cache:
        yield from _rows(source, cache, where)


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
    folder, name = _folder_of(source)
    try:
        if any((folder / saved).is_file() for saved in _SAVED):
            return datasets.load_from_disk(str(folder))
        if folder.is_dir():
            return datasets.load_dataset(str(folder), name, split=source.split, cache_dir=cache)
        return datasets.load_dataset(source.path, name, split=source.split, revision=source.revision)
    except Exception as error:  # the library raises whatever its transports raise
        reason = " ".join(str(error).split()).rstrip(".")
        reason = f"{type(error).__name__}: {reason[:300]}"
        if folder.is_dir():
            raise DataError(f"{folder}: cannot be read as a data set ({reason}).") from error
        raise DataError(
            f"the data set {source.path} cannot be had ({reason}); it needs the network, for some its terms "
            "accepted and HF_TOKEN set; a folder on this machine needs none: huggingface.path=FOLDER."
        ) from error


def _folder_of(source: HubDataset) -> tuple[Path, str | None]:
    """The folder that is meant if there is one, and the subset that the library is to look for in it.

    A copy of a data set from the hub says in its README.md where its subsets are; elsewhere the folder with
    the subset's name has it.
    """
    folder = Path(source.path).expanduser()
    inner = folder / source.name if source.name is not None else folder
    if inner != folder and inner.is_dir() and not (folder / "README.md").is_file():
        return inner, None
    return folder, source.name


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
