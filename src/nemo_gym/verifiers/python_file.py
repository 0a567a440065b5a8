"""A verifier that is one Python file beside the config."""

from __future__ import annotations

import inspect
import linecache
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nemo_gym.errors import ConfigError
from nemo_gym.tools.file_worker import alone
from nemo_gym.types import Episode, GradedRollout, MetricInfo, Policy, Row, Task, Verdict
from nemo_gym.verifiers.grading_processes import GradingProcesses
from nemo_gym.verifiers.grading_worker import said
from nemo_gym.verifiers.source_files import read_source

_PARAMETERS = ("answer", "row", "episode", "options", "models")
_DIRECTIONS = {"higher": True, "lower": False, None: None}
_RESULT_KEYS = ("reward", "extracted_answer", "metrics", "fields")


class PythonOptions(BaseModel):
    """Options of the verifier that is a Python file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | None = None
    """The file, relative to the config that names it. It is read when the config is loaded, and goes wherever
    the config goes."""
    source: str | None = None
    """The text of the file; put there in place of ``path`` when the config is loaded."""
    function: str = "grade"
    """The function of the file that grades one answer."""
    timeout_seconds: float = Field(60, gt=0, allow_inf_nan=False)
    """How long it may take for one answer; not for an ``async`` function."""
    processes: int = Field(2, ge=1, le=64)
    """How many answers are graded at once, each in a process of its own; not for an ``async`` function."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Values of your own, for the parameter ``options`` of the function."""

    @model_validator(mode="after")
    def _has_text(self) -> Self:
        if self.path is None and self.source is None:
            raise ValueError("needs a path, the Python file that grades")
        return self


class PythonVerifier:
    """Grades by a function of a Python file.

    A plain function runs in processes of its own, with a limit of time; an ``async`` one runs in the
    collector, where it can ask judge models.
    """

    Options: ClassVar[type[BaseModel]] = PythonOptions

    def __init__(self, options: BaseModel, models: Mapping[str, Policy] | None = None) -> None:
        self.options = cast("PythonOptions", options)
        self._models = models or {}
        name, source = self._text()
        self._module = loaded(name, source)
        self._function = function_of(self._module, self.options.function)
        self._parameters = parameters(self._function, self.options.function)
        self._processes: GradingProcesses | None = None
        if not inspect.iscoroutinefunction(self._function):
            if "models" in self._parameters:
                raise ConfigError(f"{self.options.function} takes models, so it must be an async function")
            arguments = {"name": name, "source": source, "function": self.options.function}
            self._processes = GradingProcesses(
                "nemo_gym.verifiers.python_file:grader",
                arguments,
                time_limit=self.options.timeout_seconds,
                count=self.options.processes,
            )
        self.metrics = declared(getattr(self._module, "metrics", {}))
        self.graded_ends = frozenset(getattr(self._module, "graded_ends", ()))
        self.grade_group: Callable[[Sequence[GradedRollout]], Any] | None = getattr(
            self._module, "grade_group", None
        )
        self.aggregate: Callable[[Iterable[GradedRollout]], Any] | None = getattr(
            self._module, "aggregate", None
        )

    def check_row(self, row: Row) -> str | None:
        """Ask ``check_row`` of the file, if it has one."""
        check = getattr(self._module, "check_row", None)
        found = None if check is None else check(row)
        return None if found is None else str(found)

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Call the function with the parameters that it names."""
        if self._processes is not None:
            result = await self._processes.call(
                row=task.row,
                response=episode.response,
                turns=[episode.turns, episode.tool_calls],
                fields=episode.fields,
                options=self.options.options,
            )
            return Verdict(**result)
        given = values(task.row, episode, self.options.options) | {"models": self._models}
        result = await self._function(**{name: given[name] for name in self._parameters})
        return as_verdict(result, episode.text)

    def _text(self) -> tuple[str, str]:
        """Name and text of the file."""
        if self.options.source is not None:
            return Path(self.options.path or "grade.py").name, self.options.source
        path = Path(self.options.path or "")
        return path.name, read_source(path)


def loaded(name: str, source: str) -> types.ModuleType:
    """The file as a module; raises `ConfigError` where it does not load."""
    module = types.ModuleType(f"_gym_grader_{Path(name).stem}")
    module.__file__ = name
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(source, name, "exec"), module.__dict__)  # noqa: S102 - the file that the user named
    except Exception as error:  # foreign code
        raise ConfigError(f"{name} does not load: {said(error)}{alone(error)}") from error
    return module


def function_of(module: types.ModuleType, name: str) -> Callable[..., Any]:
    """The function that grades."""
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigError(f"{module.__file__} has no function {name}; write def {name}(answer, row)")
    return cast("Callable[..., Any]", function)


def parameters(function: Callable[..., Any], name: str) -> list[str]:
    """The parameters that are passed, by name; raises `ConfigError` for one that is not known."""
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            continue
        if parameter.name in _PARAMETERS and parameter.kind is not parameter.POSITIONAL_ONLY:
            found.append(parameter.name)
        elif parameter.default is parameter.empty:
            known = ", ".join(_PARAMETERS)
            raise ConfigError(
                f"{name} has a parameter '{parameter.name}' that is not known; known are {known}"
            )
    return found


def values(row: Row, episode: Episode, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a function may ask for."""
    return {"answer": episode.text, "row": row, "episode": episode, "options": dict(options)}


def as_verdict(result: Any, answer: str) -> Verdict:
    """What a function returned as a verdict: a number, a mapping or a verdict. `TypeError` for others."""
    if isinstance(result, Verdict):
        return result
    if not isinstance(result, Mapping):
        return Verdict(result, answer.strip() or None)
    unknown = [key for key in result if key not in _RESULT_KEYS]
    if unknown or "reward" not in result:
        known = ", ".join(_RESULT_KEYS)
        problem = f"it has {unknown[0]!r}" if unknown else "it has no 'reward'"
        raise TypeError(f"the mapping that was returned is wrong: {problem}; known are {known}")
    return Verdict(**{"extracted_answer": answer.strip() or None, **result})


def declared(metrics: Any) -> dict[str, MetricInfo]:
    """The file's declaration of metrics: ``"higher"``, ``"lower"``, ``None`` or a `MetricInfo` by name."""
    found: dict[str, MetricInfo] = {}
    for name, said_of_it in metrics.items() if isinstance(metrics, Mapping) else ():
        if isinstance(said_of_it, MetricInfo):
            found[name] = said_of_it
        elif said_of_it in _DIRECTIONS:
            found[name] = MetricInfo(_DIRECTIONS[said_of_it])
        else:
            raise ConfigError(
                f"metrics['{name}'] is {said_of_it!r}, none of 'higher', 'lower', None, MetricInfo"
            )
    return found


def grader(name: str, source: str, function: str) -> Callable[..., dict[str, Any]]:
    """In a grading process: the function that grades one answer, its verdict as JSON."""
    called = function_of(loaded(name, source), function)
    wanted = parameters(called, function)

    def grade(
        row: Row, response: Row, turns: Sequence[int], fields: Row, options: Mapping[str, Any]
    ) -> dict[str, Any]:
        episode = Episode(response, turns[0], turns[1], fields)
        given = values(row, episode, options)
        verdict = as_verdict(called(**{parameter: given[parameter] for parameter in wanted}), episode.text)
        return {name: getattr(verdict, name) for name in _RESULT_KEYS}

    return grade
