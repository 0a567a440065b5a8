"""Config files that include others by ``config_paths``: found, read, made absolute and merged in order."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym import errors
from nemo_gym.composition import load_yaml, merge
from nemo_gym.harness import names as harness_names
from nemo_gym.rollouts.run_config import catalog
from nemo_gym.sandbox import config_files
from nemo_gym.tools.config_files import file_specs, tool_specs
from nemo_gym.verifiers.source_files import FILE_KEYS, python_verifiers, read_source, verifier_specs

MAX_ATTEMPTS = "NEMO_GYM_MAX_ROLLOUT_ATTEMPTS"
"""Environment variable: the default of ``max_rollout_attempts``."""

_DATA_FILES = ("jsonl_fpath", "prepare_script")


@dataclass(slots=True)
class IncludeTree:
    """Reads files and whatever they include. Later siblings win, and a file wins over what it includes."""

    cwd: Path
    search_dirs: Sequence[Path] = ()
    files: list[Path] = field(default_factory=list)
    """Every file that was read, in the order of its merging."""
    _open: list[Path] = field(default_factory=list)

    def load(self, path: Path) -> dict[str, Any]:
        """The merged content of one file, its ``config_paths`` used up; a file may not include itself."""
        path = Path(os.path.abspath(path))
        if path in self._open:
            chain = " → ".join(str(p) for p in (*self._open[self._open.index(path) :], path))
            raise errors.ConfigError(f"config_paths: a file includes itself: {chain}.")
        self._open.append(path)
        content = absolute_files(load_yaml(path), path.parent, self.cwd)
        merged = self.over_includes(content, beside=path.parent, where=f"{path}: config_paths")
        self._open.pop()
        if path not in self.files:
            self.files.append(path)
        return merged

    def over_includes(self, content: Mapping[str, Any], *, beside: Path, where: str) -> dict[str, Any]:
        """``content`` over the files that its ``config_paths`` names."""
        names = content.get("config_paths") or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise errors.ConfigError(f"{where}: must be a list of file names.")
        found = [
            name
            if harness_names.is_name(name)
            else catalog.find_config(
                name, cwd=self.cwd, search_dirs=self.search_dirs, beside=beside, where=where
            )
            for name in names
        ]
        rest = {key: value for key, value in content.items() if key != "config_paths"}
        return merge(self.siblings(found), rest)

    def siblings(self, paths: Sequence[Path | str]) -> dict[str, Any]:
        """Files side by side, later ones over earlier ones; they may not name two benchmarks.

        A text is the name of a task of lm-eval, which needs no file.
        """
        result: dict[str, Any] = {}
        owner: Path | str | None = None
        for path in paths:
            content = harness_names.configuration(path) if isinstance(path, str) else self.load(path)
            old, new = _benchmark_name(result), _benchmark_name(content)
            if owner is not None and old is not None and new is not None and old != new:
                raise errors.ConfigError(
                    f"benchmark: a run measures one benchmark; {owner} names {old} and {path} names {new}."
                )
            owner = path if new is not None else owner
            result = merge(result, content)
        return result


def _benchmark_name(config: Mapping[str, Any]) -> Any:
    benchmark = config.get("benchmark")
    return benchmark.get("name") if isinstance(benchmark, Mapping) else None


def absolute_files(config: dict[str, Any], folder: Path, cwd: Path) -> dict[str, Any]:
    """Make the file names in a config absolute: beside its own file, or in the current folder if only there.

    Names that hold an interpolation are left for later.
    """
    benchmark = config.get("benchmark")
    datasets = benchmark.get("datasets") if isinstance(benchmark, Mapping) else None
    for dataset in datasets.values() if isinstance(datasets, Mapping) else ():
        if isinstance(dataset, dict):
            for key in _DATA_FILES:
                _absolute(dataset, key, folder, cwd)
            _absolute_hub_folder(dataset.get("huggingface"), folder, cwd)
    for spec in verifier_specs(benchmark.get("verifier") if isinstance(benchmark, Mapping) else None):
        named = FILE_KEYS.get(str(spec.get("type")))
        if named is not None and "source" not in spec:
            _absolute(spec, named, folder, cwd)
    for spec in tool_specs(benchmark.get("agent") if isinstance(benchmark, Mapping) else None):
        _absolute_tools(spec, folder, cwd)
    for spec in config_files.file_specs(*_owners_of_sandboxes(benchmark)):
        _absolute(spec, config_files.NAME_KEY, folder, cwd)
    _absolute(config, "input_jsonl_fpath", folder, cwd)
    command = benchmark.get("command") if isinstance(benchmark, Mapping) else None
    if isinstance(command, dict):
        _absolute_command(command, folder, cwd)
    harness = benchmark.get("lm_eval") if isinstance(benchmark, Mapping) else None
    if isinstance(harness, dict):
        _absolute_folders(harness, folder, cwd)
    until = config.get("until")
    if isinstance(until, dict) and _is_path(until.get("better_than"), (folder, cwd)):
        _absolute(until, "better_than", folder, cwd)
    return config


def _is_path(name: Any, folders: Sequence[Path]) -> bool:
    """Whether the name of a run is one of the file system, and not the id of a submission."""
    return isinstance(name, str) and ("/" in name or any((folder / name).exists() for folder in folders))


def with_sources(config: dict[str, Any]) -> dict[str, Any]:
    """Put the text of each Python file that grades or holds tools into the config, so that it goes along."""
    benchmark = config.get("benchmark")
    benchmark = benchmark if isinstance(benchmark, Mapping) else {}
    for spec in python_verifiers(benchmark.get("verifier")):
        _read_into(spec, "benchmark.verifier.path")
    for spec in file_specs(benchmark.get("agent")):
        _read_into(spec, "benchmark.agent.tools")
    for spec in config_files.file_specs(*_owners_of_sandboxes(benchmark)):
        _read_pins_into(spec)
    return config


def _owners_of_sandboxes(benchmark: Any) -> Iterator[Any]:
    """The descriptions of the agent and of all verifiers."""
    if isinstance(benchmark, Mapping):
        yield benchmark.get("agent")
        yield from verifier_specs(benchmark.get("verifier"))


def _read_pins_into(spec: dict[str, Any]) -> None:
    path = Path(spec[config_files.NAME_KEY])
    try:
        pins = config_files.read_pins(path)
    except errors.ConfigError as error:
        raise errors.ConfigError(f"sandbox.{config_files.NAME_KEY}: {error}.") from None
    spec |= {config_files.NAME_KEY: path.name, config_files.PINS_KEY: pins}


def _read_into(spec: dict[str, Any], where: str) -> None:
    path = spec.get("path")
    if isinstance(path, str) and spec.get("source") is None:
        try:
            spec |= {"path": os.path.basename(path), "source": read_source(Path(path))}
        except errors.ConfigError as error:
            raise errors.ConfigError(f"{where}: {error}.") from None


def _absolute_tools(spec: dict[str, Any], folder: Path, cwd: Path) -> None:
    """The file of a toolset, and the words of a command that are files beside the config."""
    if spec.get("type") == "file" and "source" not in spec:
        _absolute(spec, "path", folder, cwd)
    command = spec.get("command")
    if isinstance(command, list):
        spec["command"] = [
            _absolute_name(word, folder, cwd) if str(word).startswith(("./", "../")) else word
            for word in command
        ]


def _absolute_folders(harness: dict[str, Any], folder: Path, cwd: Path) -> None:
    """The folders with a user's own tasks; one that is not in a list becomes a list."""
    names = harness.get("include_path")
    if isinstance(names, str):
        names = [names]
    if isinstance(names, list):
        harness["include_path"] = [_absolute_name(name, folder, cwd) for name in names]


def _absolute(node: dict[str, Any], key: str, folder: Path, cwd: Path) -> None:
    if key in node:
        node[key] = _absolute_name(node[key], folder, cwd)


def _absolute_name(name: Any, folder: Path, cwd: Path) -> Any:
    """The file beside the config, or the one here where only that is there; other values stay."""
    if not isinstance(name, str) or not name or "${" in name or name == "???":
        return name
    expanded = os.path.expanduser(name)
    beside, here = folder / expanded, cwd / expanded
    return os.path.abspath(here if here.exists() and not beside.exists() else beside)


def _absolute_hub_folder(source: Any, folder: Path, cwd: Path) -> None:
    """Make the path of a data set absolute where it is a folder and no name of the hub."""
    name = source.get("path") if isinstance(source, dict) else None
    if isinstance(name, str) and (
        name.startswith((".", "/", "~")) or any((at / name).is_dir() for at in (folder, cwd))
    ):
        _absolute(source, "path", folder, cwd)


def _absolute_command(command: dict[str, Any], folder: Path, cwd: Path) -> None:
    """A command starts in the folder of its config unless that names another one; its files are there too."""
    if command.get("working_folder") is not None:
        _absolute(command, "working_folder", folder, cwd)
    elif "argv" in command or "shell" in command:
        command["working_folder"] = str(folder)
    files = command.get("files")
    if isinstance(files, list):
        command["files"] = [_absolute_name(file, folder, cwd) for file in files]


def user_settings(search_dirs: Sequence[Path], cwd: Path) -> Path | None:
    """The first ``env.yaml`` of the search folders and the current one: a user's own defaults."""
    shipped = catalog.shipped_root()
    for root in catalog.search_roots(search_dirs, cwd):
        path = root / "env.yaml"
        if path.is_file() and (root != shipped or root == cwd):
            return Path(os.path.abspath(path))
    return None


def environment_defaults() -> dict[str, Any]:
    """What the environment says instead of the schema's own defaults."""
    text = os.environ.get(MAX_ATTEMPTS, "")
    if not text:
        return {}
    if not text.isdecimal() or int(text) < 1:
        raise errors.ConfigError(f"{MAX_ATTEMPTS}: must be a whole number from 1.")
    return {"max_rollout_attempts": int(text)}
