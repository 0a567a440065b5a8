"""What is asked for from Python, as the request that the commands make too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_gym.composition import Override
from nemo_gym.errors import DataError, UsageError
from nemo_gym.job_paths import RolloutPaths, default_output
from nemo_gym.rollouts.data.run_request import RunRequest, settings_of
from nemo_gym.rollouts.run_config.identity import digest
from nemo_gym.verifiers.callables.python_function import function_spec
from nemo_gym.verifiers.registry import verifier_types
from nemo_gym.yaml_files import holds_rows
from nemo_runs.durable.files import replace_file

Questions = str | Path | Iterable[Mapping[str, Any]]
"""Rows, the path of a file of rows, or the name of a benchmark."""
Grader = str | Mapping[str, Any] | Callable[..., Any]
"""How answers are graded: the type of a verifier, its type and options, or a function."""
_NAME = "questions"
"""What a benchmark is called that is made of rows in memory."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments that say which questions are asked, and how answers are graded."""

    questions: Questions | None
    output: str | Path
    verifier: Grader | None
    prompt: str | None
    system: str | None
    config: str | Path | Iterable[str | Path]
    settings: Mapping[str, Any] | None

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function that grades, if one does."""
        return self.verifier if callable(self.verifier) else None

    @property
    def paths(self) -> RolloutPaths:
        """The files of the output."""
        path = Path(self.output).expanduser().absolute()
        return RolloutPaths(path) if path.suffix == ".jsonl" else default_output(path)

    def request(self, options: Mapping[str, Any]) -> RunRequest:
        """The request; ``options`` are of `run_request.OPTIONS`, beside the files. Writes rows in memory."""
        _refuse_literal(options.get("model_api_key"))
        found = _found(self.questions, self.paths.output)
        files = [self.config] if isinstance(self.config, str | Path) else list(self.config)
        prompts = {"benchmark.prompt.user": self.prompt, "benchmark.prompt.system": self.system}
        return RunRequest(
            config_paths=[str(path) for path in files],
            benchmark=found.get("benchmark"),
            name=found.get("name"),
            verifier=_verifier(self.verifier, guessed="rows" in found and not files),
            overrides=[
                *settings_of(
                    {**options, "input_path": found.get("rows"), "output_path": str(self.paths.output)}
                ),
                *overrides_of({key: text for key, text in prompts.items() if text is not None}, "prompt"),
                *overrides_of(self.settings or {}, "settings"),
            ],
        )


def _refuse_literal(key: str | None) -> None:
    if key is not None and not key.startswith("host:"):
        raise UsageError(
            "model_api_key: takes host:VAR, the environment variable that holds the key, never the key."
        )


def _found(questions: Questions | None, output: Path) -> dict[str, str]:
    """What ``questions`` is: a ``benchmark`` by name, or ``rows``, a file; rows in memory get a ``name``."""
    if questions is None:
        return {}
    if isinstance(questions, str | Path):
        path = Path(questions).expanduser()
        if isinstance(questions, Path) or holds_rows(path):
            return {"rows": str(path)}
        return {"benchmark": questions}
    return {"rows": str(_written(questions, output)), "name": _NAME}


def _written(questions: Iterable[Mapping[str, Any]], output: Path) -> Path:
    """The rows in a file beside the output that is named after what they are."""
    lines = []
    for number, row in enumerate(questions):
        if not isinstance(row, Mapping):
            raise UsageError(f"questions[{number}]: must be a mapping of fields to values, such as a dict.")
        try:
            lines.append(json.dumps(dict(row), ensure_ascii=False, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise DataError(f"questions[{number}]: cannot be written as JSON ({error}).") from None
    if not lines:
        raise DataError("questions: holds no rows.")
    path = output.with_name(f"{output.stem}_questions-{digest({'rows': lines})[:12]}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    return path


def _verifier(given: Grader | None, *, guessed: bool) -> Mapping[str, Any] | None:
    if given is None:
        if guessed:
            raise UsageError(
                "verifier: say how answers are graded: a function, a mapping such as "
                '{"type": "match", "mode": "numeric"}, or one of ' + ", ".join(verifier_types()) + "."
            )
        return None
    if isinstance(given, str):
        return {"type": given}
    return given if isinstance(given, Mapping) else function_spec(given)


def overrides_of(values: Mapping[str, Any], where: str) -> list[Override]:
    """Values by dotted key, as JSON has them, paths as text; ``where`` is the argument that has them.

    Raises `UsageError` for a key that is not a dotted path, and for a value that JSON has no place for.
    """
    found = []
    for key, value in values.items():
        if not isinstance(key, str) or not all(key.split(".")):
            raise UsageError(f"{where}: {key!r} is not a dotted key, such as benchmark.prompt.user.")
        try:
            plain = json.loads(json.dumps(value, default=_path_text))
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"{where}: the value of {key} cannot be written as JSON ({error}).") from None
        found.append(Override(key, plain, "++", f"++{key}={plain}"))
    return found


def _path_text(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
