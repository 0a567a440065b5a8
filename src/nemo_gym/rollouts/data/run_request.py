"""What is asked for in one run, from the command line or from Python, as the configuration of that run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from nemo_gym.composition import Override
from nemo_gym.errors import UsageError
from nemo_gym.rollouts.run_config.schema import RunConfig, load_run_config

OPTIONS: Final = {
    "model": "policy_model_name",
    "model_url": "policy_base_url",
    "model_api_key": "policy_api_key",
    "temperature": "responses_create_params.temperature",
    "top_p": "responses_create_params.top_p",
    "max_output_tokens": "responses_create_params.max_output_tokens",
    "input_path": "input_jsonl_fpath",
    "output_path": "output_jsonl_fpath",
    "limit": "limit",
    "num_repeats": "num_repeats",
    "concurrency": "num_samples_in_parallel",
    "split": "split",
    "resume": "resume_from_cache",
}
"""Options of `gym eval run` and `nemo_gym.run`, and the keys that they set; a later setting of a key wins."""

_PROMPTS: Final = tuple(f"benchmark.prompt.{name}" for name in ("user", "conversation", "turns"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What is asked of which model."""

    config_paths: Sequence[str] = ()
    benchmark: str | None = None
    """By its name."""
    search_dirs: Sequence[Path] = ()
    verifier: Mapping[str, Any] | None = None
    """Its type and options, in place of the benchmark's own."""
    overrides: Sequence[Override] = ()
    """Settings by their keys; later ones win."""
    options: Mapping[str, str] = field(default_factory=dict)
    """By which option of a command a key was set, for what is wrong with its value."""
    name: str | None = None
    """What a benchmark is called that is guessed from rows; ``None``: after their file."""


def settings_of(options: Mapping[str, Any]) -> list[Override]:
    """What the options of `OPTIONS` set; those that are ``None`` set nothing."""
    return [
        Override(key, options[name], "", f"{key}={options[name]}")
        for name, key in OPTIONS.items()
        if options.get(name) is not None
    ]


def config_of(request: RunRequest, *, cwd: Path, report: Callable[[str], None]) -> RunConfig:
    """The configuration that was asked for; where it names no benchmark, one is guessed from the rows.

    ``report`` hears what was guessed. `nemo_gym.errors.GymError` for whatever is wrong.
    """
    base = _guessed(request, cwd, report)
    if base is None and request.verifier is not None:
        verifier = dict(request.verifier)
        text = f"benchmark.verifier={verifier}"
        typed = [*request.overrides, Override("benchmark.verifier", verifier, "", text)]
        request = replace(request, overrides=typed)
    return load_run_config(
        request.config_paths,
        request.benchmark,
        request.overrides,
        search_dirs=request.search_dirs,
        base=base,
        cwd=cwd,
        options=request.options,
    ).config


def _guessed(request: RunRequest, cwd: Path, report: Callable[[str], None]) -> dict[str, Any] | None:
    """A benchmark for rows that no benchmark is named for; ``None`` where one is, or no rows are."""
    given = {override.key: override.value for override in request.overrides}
    rows = given.get("input_jsonl_fpath")
    if request.benchmark or request.config_paths or "config_paths" in given or not rows:
        return None
    from nemo_gym.rollouts.data.guess import guess_benchmark, sentence
    from nemo_gym.verifiers.registry import verifier_types

    if request.verifier is None:
        raise UsageError(
            f"--input: {rows} is named and no benchmark is; say how its answers are graded, say --verifier "
            f"match (known: {', '.join(verifier_types())}), or name a benchmark with --benchmark NAME."
        )
    path = Path(os.path.abspath(cwd / Path(str(rows)).expanduser()))
    asked = any(key in given for key in _PROMPTS)
    guess = guess_benchmark(path, name=request.name, verifier=request.verifier, asked=asked)
    if guess.said:
        report(f"{sentence(guess, path)}.")
    return {"benchmark": guess.benchmark}
