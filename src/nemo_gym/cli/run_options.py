"""The options that say what is asked of which model: those of `gym eval run` and `gym eval preview`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from nemo_cli.completion import files
from nemo_gym.cli import completing
from nemo_gym.cli.foreign_options import one_benchmark
from nemo_gym.cli.judge_options import chosen_judges, judge_options
from nemo_gym.cli.options import include_path_option, included_folders, overrides_argument

if TYPE_CHECKING:
    from nemo_gym.composition import Override
    from nemo_gym.rollouts.run_config.schema import RunConfig

_KEY_VARIABLE: Final = "NEMO_GYM_POLICY_API_KEY"
_OPTIONS: Final = (
    click.option(
        "-c",
        "--config",
        "config_paths",
        multiple=True,
        metavar="FILE",
        shell_complete=files,
        help="Config file to include; repeatable.",
    ),
    click.option(
        "--benchmark",
        multiple=True,
        callback=one_benchmark,
        metavar="NAME",
        shell_complete=completing.benchmark_names,
        help="A benchmark by name (`gym list benchmarks`).",
    ),
    click.option(
        "--search-dir",
        "search_dirs",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder to look for benchmarks and configs in; repeatable.",
    ),
    click.option(
        "-i",
        "--input",
        "input_path",
        metavar="FILE",
        shell_complete=files,
        help="Rows that replace the benchmark's data, or that a benchmark is guessed from.",
    ),
    click.option(
        "--verifier",
        metavar="TYPE|YAML",
        shell_complete=completing.verifier_names,
        help="How answers are graded: a type, a Python file, or '{type: match, mode: numeric}'.",
    ),
    click.option("-m", "--model", metavar="NAME", help="Name of the model, as the server lists it."),
    click.option("--model-url", metavar="URL", help="Base URL of an OpenAI-compatible server, with its /v1."),
    click.option("--temperature", type=float, help="Sampling temperature; 0 is the likeliest answer."),
    click.option(
        "--top-p", type=float, help="Sample from the likeliest tokens of this share together, 0 to 1."
    ),
    click.option("--max-output-tokens", type=int, help="Longest answer, in tokens."),
    click.option("--split", type=click.Choice(["benchmark", "validation", "train"]), help="Which data."),
)


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, and the override tokens; the command gives all that it gets of them to `load`."""
    command = overrides_argument(command)
    command = judge_options(include_path_option(command))
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was typed; ``flags`` are options by name, those of `run_request.OPTIONS` among them."""

    config_paths: tuple[str, ...]
    benchmark: str | None
    search_dirs: tuple[Path, ...]
    verifier: str | None
    overrides: tuple[str, ...]
    flags: Mapping[str, Any]


def load(chosen: Chosen, *, report: Callable[[str], None]) -> RunConfig:
    """The configuration that was asked for; where it names no benchmark, one is guessed from the rows.

    ``report`` hears what was guessed. `nemo_gym.errors.GymError` for whatever is wrong.
    """
    from nemo_gym.composition import parse_overrides
    from nemo_gym.rollouts.data.run_request import RunRequest, config_of

    included = included_folders(chosen.flags.get("include_paths", ()))
    judges = chosen_judges(chosen.flags)
    request = RunRequest(
        config_paths=chosen.config_paths,
        benchmark=chosen.benchmark,
        search_dirs=chosen.search_dirs,
        verifier=parse_verifier(chosen.verifier),
        overrides=[*_of_flags(chosen.flags), *included, *judges, *parse_overrides(chosen.overrides)],
        options=_typed(chosen.flags),
    )
    return config_of(request, cwd=Path.cwd(), report=report)


def parse_verifier(text: str | None) -> dict[str, Any] | None:
    """``TYPE``, or a mapping in YAML."""
    if text is None:
        return None
    if not text.lstrip().startswith("{"):
        if text.strip().endswith(".py"):
            return {"type": "python", "path": os.path.abspath(Path(text.strip()).expanduser())}
        return {"type": text.strip()}
    import yaml

    from nemo_gym.errors import ConfigError
    from nemo_gym.yaml_files import read_flow

    try:
        found = read_flow(text)
    except (yaml.YAMLError, ConfigError) as error:
        problem = getattr(error, "problem", None) or "bad keys"
        raise click.UsageError(f"--verifier: the value is not YAML ({problem}).") from None
    if not isinstance(found, dict) or not isinstance(found.get("type"), str):
        raise click.UsageError("--verifier: needs a type, as in '{type: match, mode: numeric}'.")
    return found


def _typed(flags: Mapping[str, Any]) -> dict[str, str]:
    """The keys that options have set, and the options as a person types them."""
    from nemo_gym.rollouts.data.run_request import OPTIONS

    return {
        key: f"--{name.removesuffix('_path').replace('_', '-')}"
        for name, key in OPTIONS.items()
        if flags.get(name) is not None
    }


def _of_flags(flags: Mapping[str, Any]) -> list[Override]:
    from nemo_gym.rollouts.data.run_request import settings_of

    if flags.get("model_api_key") is not None:
        flags = {**flags, "model_api_key": _key_reference(flags["model_api_key"])}
    return settings_of(flags)


def _key_reference(value: str) -> str:
    """``host:VAR`` as it is; ``-`` reads the key into this process's environment; a literal is refused."""
    if value.startswith("host:"):
        return value
    if value != "-":
        raise click.UsageError("--model-api-key takes host:VAR or - (standard input), never the key itself.")
    os.environ[_KEY_VARIABLE] = sys.stdin.readline().strip()
    if not os.environ[_KEY_VARIABLE]:
        raise click.UsageError("--model-api-key -: standard input holds no key.")
    return f"host:{_KEY_VARIABLE}"
