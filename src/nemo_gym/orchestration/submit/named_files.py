"""The files that a run config names: those that go along to another machine, and those that must be there."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nemo_gym.errors import ConfigError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.orchestration.plan.benchmark_runs import BenchmarkRun
from nemo_gym.tools.config_files import tool_specs
from nemo_gym.verifiers.source_files import FILE_KEYS

if TYPE_CHECKING:
    from nemo_gym.rollouts.run_config.prompt_schema import Split

Keys = tuple[str | int, ...]
"""The place of a value in a run config."""
_FOLDER = "folders are not copied"
_PROGRAM = "programs are not copied"
_MOST_IMAGES = 2000
"""Each is a line of the job's script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """A file or folder of this machine that a run reads."""

    keys: Keys
    path: Path
    copied_as: str = ""
    """Its name in the job's folder when it goes along; empty: it does not."""
    because: str = ""
    """Why it does not."""
    made_by: Path | None = None
    """The script that makes it, so that it need not be there yet."""
    along: Mapping[Path, str] = field(default_factory=dict)
    """Files that belong to it, by their names there."""

    @property
    def where(self) -> str:
        """The dotted path in the config."""
        words = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys)
        return "".join(words).removeprefix(".")


def named_files(run: Mapping[str, Any] | None) -> list[NamedFile]:
    """All of one run."""
    if run is None:
        return []
    benchmark = run["benchmark"]
    return [
        *_reference(run),
        *_rows(run),
        *_verifiers(benchmark.get("verifier"), ("benchmark", "verifier")),
        *_tools(benchmark.get("agent")),
        *_sandbox(benchmark.get("agent"), ("benchmark", "agent")),
        *_harness(benchmark.get("lm_eval")),
        *_command(benchmark.get("command")),
        *_fixed(run, ("policy_tokenizer",), _FOLDER),
    ]


def moved(
    run: BenchmarkRun, missing: set[Path], folder: Path, *, where: str, machine: str, contained: bool = False
) -> BenchmarkRun:
    """The run with every missing file in the job's own folder.

    ``contained``: the driver runs in a container, which may hold what the machine does not. Raises
    `ConfigError`, with the path below ``where``, for what is missing there and cannot go along.
    """
    gone = [file for file in named_files(run.run) if _is_wanted(file, missing)]
    if run.run is None or not gone:
        return run
    settings, inputs = copy.deepcopy(run.run), dict(run.inputs)
    for file in gone:
        if file.copied_as:
            target = inputs.get(file.path) or _free(folder / file.copied_as, inputs)
            _put(settings, file.keys, str(target))
            if file.made_by is None or file.path.is_file():
                inputs[file.path] = target
            inputs |= {path: folder / name for path, name in file.along.items()}
        elif not contained:
            raise ConfigError(
                f"{where}.{file.where}: there is no {file.path} on {machine}, and {file.because}; put it "
                "there under the same name."
            )
    if any(_is_of_rows(file, run.run) for file in gone):
        inputs |= _images(run.run, folder, where)
    return replace(run, run=settings, inputs=inputs)


def _is_wanted(file: NamedFile, missing: set[Path]) -> bool:
    """Whether it has to go along; data that a script makes does so with the script, or where it is made."""
    made_there = file.made_by is not None and file.made_by not in missing and not file.path.is_file()
    return file.path in missing and not made_there


def _free(target: Path, inputs: Mapping[Path, Path]) -> Path:
    """The name, or another one where files of several folders are called the same."""
    taken, wanted, number = set(inputs.values()), target, 1
    while target in taken:
        number += 1
        target = wanted.with_name(f"{number}-{wanted.name}")
    return target


def _is_of_rows(file: NamedFile, run: Mapping[str, Any]) -> bool:
    return file.keys[0] == "input_jsonl_fpath" or file.keys[1:3] == ("datasets", run.get("split"))


def _put(settings: Any, keys: Keys, value: str) -> None:
    for key in keys[:-1]:
        settings = settings[key]
    settings[keys[-1]] = value


def _reference(run: Mapping[str, Any]) -> Iterator[NamedFile]:
    """The rows of a run that is compared with, and what says which tasks they are of."""
    output = (run.get("until") or {}).get("better_than")
    if output is not None:
        name = f"reference-{Path(output).name}"
        here, there = RolloutPaths(Path(output)), RolloutPaths(Path(name))
        along = {
            here.manifest: str(there.manifest),
            here.materialized_inputs: str(there.materialized_inputs),
        }
        yield NamedFile(keys=("until", "better_than"), path=Path(output), copied_as=name, along=along)


def _rows(run: Mapping[str, Any]) -> Iterator[NamedFile]:
    """The rows that are asked, and those that examples come from."""
    rows = run.get("input_jsonl_fpath")
    if rows:
        yield NamedFile(keys=("input_jsonl_fpath",), path=Path(rows), copied_as=Path(rows).name)
    datasets = run["benchmark"].get("datasets") or {}
    prompt = run["benchmark"].get("prompt") or {}
    examples = (prompt.get("examples") or {}).get("split")
    own = None if rows else run.get("split")
    wanted = {own: ""} | ({examples: "examples-"} if examples not in (None, own) else {})
    for split, prefix in wanted.items():
        if split in datasets:
            yield from _split(run, str(split), prefix)


def _split(run: Mapping[str, Any], split: str, prefix: str) -> Iterator[NamedFile]:
    keys: Keys = ("benchmark", "datasets", split)
    dataset = run["benchmark"]["datasets"][split]
    hub = dataset.get("huggingface")
    if hub:
        yield from _fixed(hub, (*keys, "huggingface", "path"), _FOLDER)
        return
    script, rows = dataset.get("prepare_script"), Path(dataset["jsonl_fpath"])
    if not script:
        yield NamedFile(keys=(*keys, "jsonl_fpath"), path=rows, copied_as=f"{prefix}{rows.name}")
        return
    maker, made = Path(script), _made(run, split)
    along = {made: made.name} if made is not None and made.is_file() else {}
    yield NamedFile(keys=(*keys, "prepare_script"), path=maker, copied_as=maker.name, along=along)
    # what is made lies beside the file that this names
    yield NamedFile(keys=(*keys, "jsonl_fpath"), path=rows, copied_as=rows.name, made_by=maker)


def _made(run: Mapping[str, Any], split: str) -> Path | None:
    """The data that was prepared on this machine already, by its digest's name."""
    from nemo_gym.rollouts.data.prepare import split_path
    from nemo_gym.rollouts.run_config.schema import RunConfig

    try:
        return split_path(RunConfig.model_validate(dict(run)), cast("Split", split))
    except ConfigError:
        return None  # its script cannot be read; that is said elsewhere


def _images(run: Mapping[str, Any], folder: Path, where: str) -> dict[Path, Path]:
    """The image files that rows name relative to their own -> where they go, beside the rows."""
    prompt = run["benchmark"].get("prompt") or {}
    names, talk = prompt.get("images") or (), prompt.get("conversation")
    if not names and talk is None:
        return {}
    key = "images" if names else "conversation"
    from nemo_gym.rollouts.data.prepare import data_path
    from nemo_gym.rollouts.run_config.schema import RunConfig

    config = RunConfig.model_validate(dict(run))
    rows = data_path(config)
    if not rows.is_file():
        return {}  # made there, with what belongs to it
    from nemo_gym.rollouts.data.dataset import read_rows
    from nemo_gym.rollouts.data.image_data import file_names
    from nemo_gym.rollouts.data.images_in_place import image_values
    from nemo_gym.rollouts.run_config.fields import row_mapper

    fields = row_mapper(config.benchmark.fields, parse=config.benchmark.parse)
    found: dict[Path, Path] = {}
    for row in read_rows(rows, limit=config.limit):
        values = fields(row)
        images = [*(values.get(each) for each in names), *image_values(values.get(str(talk)))]
        for name in (name for image in images for name in file_names(image)):
            if Path(name).expanduser().is_absolute() or ".." in Path(name).parts:
                text = f"the image {name} is not below the folder of {rows.name}, so it is not copied"
                raise ConfigError(f"{where}.benchmark.prompt.{key}: {text}; {_AS_DATA}.")
            if not (rows.parent / name).is_file():
                text = f"{rows} names the image {name}, and there is no such file"
                raise ConfigError(f"{where}.benchmark.prompt.{key}: {text}.")
            found[rows.parent / name] = folder / name
        if len(found) > _MOST_IMAGES:
            text = f"{rows.name} names more than {_MOST_IMAGES} image files, which are not copied"
            raise ConfigError(f"{where}.benchmark.prompt.{key}: {text}; {_AS_DATA}.")
    return found


_AS_DATA = "put images into the rows, as data URLs or as those of a Parquet file"


def _verifiers(verifier: Any, keys: Keys) -> Iterator[NamedFile]:
    """What a verifier and those within it name; the text of Python files is in the config."""
    if not isinstance(verifier, Mapping):
        return
    key = FILE_KEYS.get(str(verifier.get("type")))
    path = verifier.get(key) if key is not None else None
    if key is not None and path and "source" not in verifier:
        label = "-".join(str(part) for part in keys[1:] if part != "verifiers")
        yield NamedFile(keys=(*keys, key), path=Path(path), copied_as=f"{label}-{Path(path).name}")
    yield from _sandbox(verifier, keys)
    inner = verifier.get("verifiers")
    for name, spec in inner.items() if isinstance(inner, Mapping) else ():
        yield from _verifiers(spec, (*keys, "verifiers", name))


def _tools(agent: Any) -> Iterator[NamedFile]:
    """The files among the words of a command that serves tools; its program has to be there."""
    for number, spec in enumerate(tool_specs(agent)):
        command = spec.get("command")
        for place, word in enumerate(command if isinstance(command, Sequence) else ()):
            keys: Keys = ("benchmark", "agent", "tools", number, "command", place)
            path = Path(str(word))
            if not path.is_absolute() or (place and not path.exists()):
                continue  # a name, or an argument that is no file here either
            if place and path.is_file():
                yield NamedFile(keys=keys, path=path, copied_as=f"tools-{number}-{path.name}")
            else:
                why = _FOLDER if place else f"{_PROGRAM} (a script goes along when its interpreter is first)"
                yield NamedFile(keys=keys, path=path, because=why)


def _sandbox(owner: Any, keys: Keys) -> Iterator[NamedFile]:
    sandbox = owner.get("sandbox") if isinstance(owner, Mapping) else None
    if isinstance(sandbox, Mapping):
        yield from _fixed(sandbox, (*keys, "sandbox", "image"), "images are not copied")
        yield from _fixed(sandbox, (*keys, "sandbox", "python"), _PROGRAM)
        yield from _each(sandbox, (*keys, "sandbox", "read_only"), _FOLDER)


def _harness(harness: Any) -> Iterator[NamedFile]:
    if isinstance(harness, Mapping):
        yield from _each(harness, ("benchmark", "lm_eval", "include_path"), _FOLDER)


def _command(command: Any) -> Iterator[NamedFile]:
    if isinstance(command, Mapping):
        yield from _fixed(command, ("benchmark", "command", "working_folder"), _FOLDER)
        yield from _each(command, ("benchmark", "command", "files"), "a command's files are not copied")
        program = (command.get("argv") or [""])[:1]
        yield from _each({"argv": program}, ("benchmark", "command", "argv"), _PROGRAM)


def _fixed(owner: Mapping[str, Any], keys: Keys, because: str) -> Iterator[NamedFile]:
    """What is named by an absolute path, and has to be there."""
    value = owner.get(str(keys[-1]))
    if isinstance(value, str) and Path(value).is_absolute():
        yield NamedFile(keys=keys, path=Path(value), because=because)


def _each(owner: Mapping[str, Any], keys: Keys, because: str) -> Iterator[NamedFile]:
    values = owner.get(str(keys[-1]))
    for number, value in enumerate(values if isinstance(values, Sequence) else ()):
        if isinstance(value, str) and Path(value).is_absolute():
            yield NamedFile(keys=(*keys, number), path=Path(value), because=because)
