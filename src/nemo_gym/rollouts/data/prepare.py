"""A benchmark's data: where it is, and how it is made by the benchmark's prepare script.

Made data has the digest of script and arguments in its name, so that other arguments never meet old data and
a finished file is never written again: two runs that prepare at once end up with one whole file.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import inspect
import json
import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nemo_gym import errors, job_paths
from nemo_gym.rollouts.data import hub, row_files
from nemo_gym.rollouts.run_config.dataset_schema import DatasetConfig
from nemo_gym.rollouts.run_config.prompt_schema import Split
from nemo_runs import json_lines
from nemo_runs.suggestions import suggestion

if TYPE_CHECKING:
    from nemo_gym.harness.options import HarnessOptions
    from nemo_gym.harness.rows import HarnessRows
    from nemo_gym.rollouts.run_config.schema import RunConfig


def data_path(config: RunConfig) -> Path:
    """The file of rows that a run reads; it need not be there yet.

    ``input_jsonl_fpath`` if set, else the split's file; where it is made
    ``<stem>-<digest>.jsonl`` in the same folder, or in the user's data folder where that cannot be written.
    """
    if config.input_jsonl_fpath is not None:
        return config.input_jsonl_fpath
    if config.benchmark.lm_eval is not None:
        from nemo_gym.harness import rows as harness_rows

        made = harness_rows.find(config.benchmark.lm_eval, config.policy_api, config.policy_tokenizer)
        return made.path if made is not None else job_paths.prepared_data("lm_eval") / "not made yet"
    return split_path(config, config.split)


def split_path(config: RunConfig, split: Split) -> Path:
    """The same for one split, whatever the run reads."""
    dataset = _dataset(config, split)
    shared = job_paths.prepared_data(config.benchmark.name)
    if dataset.huggingface is not None:
        digest = hashlib.sha256(hub.described(dataset.huggingface)).hexdigest()[:8]
    elif dataset.prepare_script is not None:
        digest = _digest(dataset.prepare_script, config.prepare_script_args)
    else:
        return _file_of(dataset)
    if dataset.jsonl_fpath is None:
        return shared / f"{split}-{digest}.jsonl"
    name = f"{dataset.jsonl_fpath.stem}-{digest}.jsonl"
    own = dataset.jsonl_fpath.parent
    there = [folder / name for folder in (own, shared) if (folder / name).is_file()]
    return there[0] if there else (own if _writable(own) else shared) / name


def _file_of(dataset: DatasetConfig) -> Path:
    if dataset.jsonl_fpath is None:
        raise AssertionError("the schema asks for a file or a data set")
    return dataset.jsonl_fpath


def _dataset(config: RunConfig, split: Split) -> DatasetConfig:
    datasets = config.benchmark.datasets
    if config.benchmark.command is not None:
        raise errors.ConfigError(
            f"benchmark.command: the command of {config.benchmark.name} asks the model itself, so it has no "
            "rows to prepare or to show."
        )
    if split not in datasets:
        known = ", ".join(datasets) or "none"
        raise errors.ConfigError(
            f"split: the benchmark {config.benchmark.name} has no {split}; it has {known}."
        )
    return datasets[split]


def _is_made(dataset: DatasetConfig) -> bool:
    return dataset.huggingface is not None or dataset.prepare_script is not None


def _digest(script: Path, arguments: Mapping[str, Any]) -> str:
    try:
        text = script.read_bytes()
    except OSError as error:
        raise errors.ConfigError(f"{script}: the prepare script cannot be read: {error.strerror}.") from error
    canonical = json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text + b"\0" + canonical.encode()).hexdigest()[:8]


def _writable(folder: Path) -> bool:
    """Whether files can be made in ``folder``, itself made if need be."""
    while not folder.exists():
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def ensure_data(config: RunConfig, *, report: Callable[[str], None] = lambda _: None) -> Path:
    """The file of rows, made first if it is not there and can be made; ``report`` hears about that."""
    if config.benchmark.lm_eval is not None and config.input_jsonl_fpath is None:
        return _harness_rows(config, config.benchmark.lm_eval, report)[1].path
    if config.input_jsonl_fpath is None:
        return ensure_split(config, config.split, report=report)
    if not config.input_jsonl_fpath.is_file():
        raise errors.ConfigError(f"input_jsonl_fpath: there is no file {config.input_jsonl_fpath}.")
    return config.input_jsonl_fpath


def ensure_environments(config: RunConfig, *, report: Callable[[str], None] = lambda _: None) -> None:
    """Install the environments that the sandboxes of the run name, where they are not there.

    Raises `errors.GymError`.
    """
    from nemo_gym.sandbox import config_files
    from nemo_gym.sandbox.registry import environment_of
    from nemo_gym.verifiers.source_files import verifier_specs

    benchmark = config.benchmark
    for spec in config_files.specs(benchmark.agent, *verifier_specs(benchmark.verifier)):
        if (environment := environment_of(spec)) is not None:
            environment.ensure_python(report)


def with_definition(config: RunConfig, *, report: Callable[[str], None] = lambda _: None) -> RunConfig:
    """The configuration with what only the definition of a task of lm-eval says: digests and repeats.

    Of other benchmarks as it is.
    """
    harness = config.benchmark.lm_eval
    if harness is None:
        return config
    config, made = _harness_rows(config, harness, report)
    repeats = config.num_repeats if config.num_repeats is not None else made.repeats
    changed = {
        "lm_eval": harness.model_copy(update={"definition": made.definition}),
        "num_repeats": repeats,
    }
    return config.model_copy(update={"benchmark": config.benchmark.model_copy(update=changed)})


def _harness_rows(
    config: RunConfig, harness: HarnessOptions, report: Callable[[str], None]
) -> tuple[RunConfig, HarnessRows]:
    """The rows, and the configuration with the tokenizer that made them: the server's where none is set."""
    from nemo_gym.harness import rows

    try:
        return config, rows.ensure(harness, config.policy_api, config.policy_tokenizer, report=report)
    except rows.NoTokenizerDataError:
        if config.policy_base_url is None or config.policy_model_name is None:
            raise
    key = config.policy_api_key.removeprefix("host:") if config.policy_api_key.startswith("host:") else None
    tokenizer = rows.of_server(config.policy_base_url, config.policy_model_name, key)
    config = config.model_copy(update={"policy_tokenizer": tokenizer})
    return config, rows.ensure(harness, config.policy_api, tokenizer, report=report)


def ensure_split(config: RunConfig, split: Split, *, report: Callable[[str], None] = lambda _: None) -> Path:
    """The same for one split, whatever the run reads. Safe to do twice at once.

    `errors.ConfigError` for data that is not there and for arguments that the script does not take,
    `errors.DataError` for a script that fails or makes something else than rows. What the script prints goes
    to stderr.
    """
    path = split_path(config, split)
    if path.is_file():
        return path
    if _is_made(_dataset(config, split)):
        report(f"preparing the data of {config.benchmark.name}: {path}")
        return _make(config, split)
    raise errors.ConfigError(
        f"benchmark.datasets.{split}.jsonl_fpath: there is no file {path}, and nothing that makes it."
    )


def _make(config: RunConfig, split: Split) -> Path:
    path, dataset = split_path(config, split), _dataset(config, split)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.DataError(f"{path.parent}: the folder cannot be made: {error.strerror}.") from error
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        if dataset.huggingface is not None:
            hub.write_rows(dataset.huggingface, unfinished, f"benchmark.datasets.{split}.huggingface")
            _check(unfinished, dataset.huggingface.path, "the data set")
        elif dataset.prepare_script is not None:
            _run(dataset.prepare_script, unfinished, config.prepare_script_args)
            _check(unfinished, dataset.prepare_script, "the prepare script")
        _publish(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _run(script: Path, output: Path, arguments: Mapping[str, Any]) -> None:
    with _module(script) as module, contextlib.redirect_stdout(sys.stderr):
        function = getattr(module, "prepare", None)
        if not callable(function):
            raise errors.ConfigError(f"{script}: must define prepare(output, …).")
        _check_arguments(function, script, arguments)
        try:
            function(output, **arguments)
        except errors.GymError:
            raise
        except ValueError as error:
            raise errors.ConfigError(f"prepare_script_args: {script}: {str(error).rstrip('.')}.") from error
        except Exception as error:
            raise errors.DataError(_failure(script, error)) from error


@contextlib.contextmanager
def _module(script: Path) -> Iterator[ModuleType]:
    """The script as a module, known to the import system only meanwhile."""
    name = f"_nemo_gym_prepare_{uuid.uuid4().hex}"
    spec = importlib.util.spec_from_file_location(name, script)
    if spec is None or spec.loader is None:
        raise errors.ConfigError(f"{script}: a prepare script is a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise errors.DataError(_failure(script, error)) from error
    try:
        yield module
    finally:
        del sys.modules[name]


def _failure(script: Path, error: Exception) -> str:
    reason = " ".join(str(error).split()).rstrip(".")
    return f"{script}: the prepare script failed with {type(error).__name__}: {reason}."


def _check_arguments(function: Callable[..., Any], script: Path, arguments: Mapping[str, Any]) -> None:
    known = list(inspect.signature(function).parameters.values())[1:]
    optional = {p.name: p.default is not p.empty for p in known if p.kind is not p.VAR_KEYWORD}
    _check_names(optional, len(optional) < len(known), script, arguments)


def check_script(script: Path, arguments: Mapping[str, Any]) -> None:
    """Raise `errors.ConfigError` for what is wrong as far as it can be seen without running the script."""
    try:
        body = ast.parse(script.read_bytes()).body
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise errors.ConfigError(
            f"{script}{line}: no valid Python: {getattr(error, 'msg', error)}."
        ) from None
    found = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == "prepare"]
    if not found or found[-1].decorator_list:
        return
    given = found[-1].args
    named = [*given.posonlyargs, *given.args]
    optional = {a.arg: i >= len(named) - len(given.defaults) for i, a in enumerate(named)}
    optional |= {a.arg: d is not None for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True)}
    if named:
        del optional[named[0].arg]
    _check_names(optional, given.kwarg is not None, script, arguments)


def _check_names(
    optional: Mapping[str, bool], takes_others: bool, script: Path, arguments: Mapping[str, Any]
) -> None:
    """``optional``: the arguments of the script after the output, and whether each may be left out."""
    for name in arguments if not takes_others else ():
        if name not in optional:
            hint = suggestion(name, optional) or f"; known: {', '.join(optional) or 'none'}"
            raise errors.ConfigError(f"prepare_script_args.{name}: {script} takes no such argument{hint}.")
    missing = [name for name, may_lack in optional.items() if not may_lack and name not in arguments]
    if missing:
        raise errors.ConfigError(f"prepare_script_args: {script} needs {', '.join(missing)}.")


def _check(path: Path, source: Path | str, what: str) -> None:
    """Every line must be one JSON object, and there must be one; the message speaks of what made them."""
    if not path.is_file():
        raise errors.DataError(f"{source}: {what} did not write its output file.")
    try:
        rows = 0
        for number, line in row_files.numbered_lines(path):
            json_lines.parse_row(line, number)
            rows += 1
    except json_lines.NotJsonLinesError as error:
        problem = f"{error.line}: {error}."
        raise errors.DataError(
            f"{source}: {what} wrote something that is not a row, line {problem}"
        ) from None
    except errors.DataError as error:
        problem = str(error).removeprefix(str(path)).lstrip(":")
        raise errors.DataError(
            f"{source}: {what} wrote something that is not a row, line {problem}"
        ) from None
    if not rows:
        raise errors.DataError(f"{source}: {what} wrote no rows.")


def _publish(unfinished: Path, path: Path) -> None:
    """Give the whole file its name once it is on the disk; the second of two keeps the first one's file."""
    from nemo_runs.durable import files

    with unfinished.open("rb+") as stream:
        os.fsync(stream.fileno())
    unfinished.chmod(0o644)
    try:
        os.link(unfinished, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        unfinished.replace(path)
    files.sync_folder(path.parent)
