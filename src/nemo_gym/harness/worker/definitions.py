"""Task definitions, read without their data: the tasks that a name stands for, their files and data."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lm_eval.api.group import Group
from lm_eval.api.task import Task
from lm_eval.tasks import TaskManager, _factory
from lm_eval.tasks._index import Entry, Kind
from lm_eval.tasks._yaml_loader import load_yaml

from nemo_gym.harness.worker import nltk_data

SHIPPED = Path(sys.modules["lm_eval.tasks"].__file__ or "").parent
_FILE_BUILDERS = frozenset({"json", "csv", "parquet", "text", "arrow", "pandas", "xml"})


class CannotRunError(Exception):
    """Something that cannot be done, said in one sentence for a user."""


class NoTokenizerError(CannotRunError):
    """It asks for likelihoods, and no tokenizer is named."""


class NoSuchNameError(CannotRunError):
    """There is no task of that name."""


class Definition(Task):  # type: ignore[misc]  # no types come with lm-eval
    """A task as its file has it; stands for the task where only its name is needed."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.settings = config
        self.name = str(config["task"])

    @property
    def task_name(self) -> str:
        """As the file has it, or as the group calls it."""
        return self.name


Definition.__abstractmethods__ = frozenset()  # of a task that is made later


class _DefinitionFactory(_factory.TaskFactory):  # type: ignore[misc]
    """Makes definitions where lm-eval's own makes tasks with their data."""

    def _build_task(self, entry: Any, overrides: dict[str, Any] | None) -> Definition:
        config = self._load_full_config(entry, overrides)
        for key in ("tag", "group", "task_list"):
            config.pop(key, None)
        return Definition(config)


@dataclass(slots=True)
class Loaded:
    """What a name stands for."""

    name: str
    definitions: dict[str, Definition]
    """By the name of the task, in lm-eval's order."""
    groups: dict[str, Group]
    include_path: list[Path] = field(default_factory=list)


def make_index() -> list[dict[str, Any]]:
    """Every name that lm-eval's own definitions have. Takes some 20 seconds: thousands of files are read."""
    found = TaskManager().task_index
    return [_index_row(entry) for _, entry in sorted(found.items())]


def own_names(include_path: Iterable[Path]) -> list[dict[str, Any]]:
    """The names that a user's own folders have."""
    found = _own_index(include_path)
    return [_index_row(entry) for _, entry in sorted(found.items())]


def _index_row(entry: Entry) -> dict[str, Any]:
    config = entry.cfg or {}
    kind = entry.kind.name.lower()
    is_task = entry.kind in {Kind.TASK, Kind.PY_TASK}
    return {
        "name": entry.name,
        "kind": "task" if entry.kind is Kind.PY_TASK else kind,
        "path": None if entry.yaml_path is None else str(entry.yaml_path),
        "tags": sorted(entry.tags),
        "class": entry.kind is Kind.PY_TASK,
        "output_type": config.get("output_type", "generate_until") if is_task else None,
        "data": _shown_data(config) if is_task else None,
    }


def _entry(row: Mapping[str, Any]) -> Entry:
    kind = Kind.PY_TASK if row["class"] else Kind[row["kind"].upper()]
    return Entry(row["name"], kind, Path(row["path"]) if row["path"] else None, None, set(row["tags"]))


def _own_index(include_path: Iterable[Path]) -> dict[str, Entry]:
    folders = list(include_path)
    for folder in folders:
        if not folder.is_dir():
            raise CannotRunError(f"include_path: there is no folder {folder}")
    if not folders:
        return {}
    found: dict[str, Entry] = TaskManager(include_path=folders, include_defaults=False).task_index
    return found


def load(name: str, include_path: list[Path], shipped: Iterable[Mapping[str, Any]] | None) -> Loaded | None:
    """The definitions behind a name; ``None`` where the names of lm-eval's own are needed for that.

    Raises `NoSuchNameError`, and `CannotRunError` for definitions that cannot be read.
    """
    own = _own_index(include_path)
    if shipped is None and not _closed(name, own):
        return None
    index = {row["name"]: _entry(row) for row in shipped or ()} | own
    if name not in index:
        raise NoSuchNameError(f"there is no task '{name}'")
    manager = TaskManager(include_defaults=False)
    manager._index = index
    manager._factory = _DefinitionFactory()
    real, _factory.ConfigurableTask = _factory.ConfigurableTask, Definition
    try:
        with nltk_data.noted():
            found = manager.load([name])
    except CannotRunError:
        raise
    except Exception as error:
        raise CannotRunError(f"its definition cannot be read: {_said(error)}") from error
    finally:
        _factory.ConfigurableTask = real
    return Loaded(name, dict(found["tasks"]), dict(found.get("groups") or {}), include_path)


def _closed(name: str, own: Mapping[str, Entry]) -> bool:
    """Whether a name and all that it consists of are a user's own."""
    entry = own.get(name)
    if entry is None:
        return False
    if entry.kind is Kind.TAG:
        return all(_closed(member, own) for member in entry.tags)
    if entry.kind is not Kind.GROUP:
        return True
    return all(_closed_member(member, own) for member in (entry.cfg or {}).get("task") or ())


def _closed_member(member: Any, own: Mapping[str, Entry]) -> bool:
    if isinstance(member, str):
        return _closed(member, own)
    if not isinstance(member, dict):
        return False
    if "group" in member and member["group"] not in own:
        members = member.get("task") or ()
        return all(_closed_member(inner, own) for inner in members if not isinstance(members, str))
    return _closed(str(member.get("group") or member.get("task")), own)


def files_of(loaded: Loaded) -> dict[str, str]:
    """The digests of all files that the definitions consist of, by path: YAML, what it includes, Python."""
    found: set[Path] = set()
    for definition in loaded.definitions.values():
        source = (definition.settings.get("metadata") or {}).get("config_source")
        if source and source != "inline":
            found.update(_yaml_files(Path(source)))
    for group in loaded.groups.values():
        source = (group.metadata or {}).get("config_source")
        if source and source != "inline":
            found.update(_yaml_files(Path(source)))
    folders = {path.parent for path in found}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and Path(file).parent != SHIPPED and any(Path(file).is_relative_to(f) for f in folders):
            found.add(Path(file))
    return {str(path): _sha256(path) for path in sorted(found)}


def _yaml_files(path: Path) -> Iterator[Path]:
    path = path.expanduser().resolve()
    yield path
    included = load_yaml(path, resolve_func=False, recursive=False).get("include") or []
    for name in included if isinstance(included, list) else [included]:
        yield from _yaml_files(path.parent / name)


def data_files(loaded: Loaded) -> dict[str, str]:
    """The digests of the local files that the tasks read, by path."""
    found: set[Path] = set()
    for definition in loaded.definitions.values():
        for name in _local_names(definition.settings):
            path = Path(name).expanduser()
            if path.is_dir():
                found.update(inner for inner in path.rglob("*") if inner.is_file())
            elif path.is_file():
                found.add(path)
    return {str(path.resolve()): _sha256(path) for path in sorted(found)}


def _local_names(config: Mapping[str, Any]) -> Iterator[str]:
    kwargs = config.get("dataset_kwargs") or {}
    path = config.get("dataset_path")
    if isinstance(path, str) and path not in _FILE_BUILDERS and os.path.exists(path):
        yield path
    for key in ("data_files", "data_dir"):
        for name in _texts(kwargs.get(key)):
            if "://" not in name:
                yield name


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def downloads(loaded: Loaded) -> list[str]:
    """What the tasks fetch unless it is in the cache of Hugging Face: data sets, files, metrics."""
    found: dict[str, None] = {}
    for definition in loaded.definitions.values():
        for name in _fetched(definition.settings):
            found[name] = None
    return list(found)


def _fetched(config: Mapping[str, Any]) -> Iterator[str]:
    path, kwargs = config.get("dataset_path"), config.get("dataset_kwargs") or {}
    if callable(config.get("custom_dataset")):
        yield f"what {config['custom_dataset'].__name__}() of its definition loads"
    elif isinstance(path, str) and path not in _FILE_BUILDERS and not os.path.exists(path):
        yield f"the data set {_shown_data(config)}"
    for name in _texts(kwargs.get("data_files")):
        if "://" in name:
            yield f"the file {name}"
    for metric in config.get("metric_list") or ():
        if isinstance(metric, Mapping) and metric.get("hf_evaluate") is True:
            yield f"the metric {metric.get('metric')}"


def _shown_data(config: Mapping[str, Any]) -> str | None:
    path, name = config.get("dataset_path"), config.get("dataset_name")
    if not isinstance(path, str):
        return None
    return f"{path} ({name})" if name else path


def refuse_unsupported(loaded: Loaded) -> None:
    """Refuse, by name, what cannot be asked or graded here. Raises `CannotRunError`."""
    for name, definition in loaded.definitions.items():
        config = definition.settings
        if config.get("unsafe_code"):
            raise CannotRunError(
                f"the task {name} runs code that the model wrote, which is done in a sandbox only; "
                "lm-eval runs it as you (the benchmark humaneval and the verifier code use one)"
            )
        if config.get("doc_to_image") is not None or config.get("doc_to_audio"):
            raise CannotRunError(f"the task {name} shows images or plays sound, which cannot be sent")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


said = _said
