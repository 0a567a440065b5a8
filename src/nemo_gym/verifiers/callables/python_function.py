"""A verifier that is a function of the program that runs the evaluation (`nemo_gym.run`)."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict

from nemo_gym.errors import ConfigError
from nemo_gym.types import Episode, Policy, Row, Task, Verdict
from nemo_gym.verifiers.python_file import as_verdict, parameters, values

TYPE = "function"


class FunctionOptions(BaseModel):
    """What is recorded of a function that grades; `nemo_gym.run` makes it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """What the function is called."""
    sha256: str
    """Digest of its source, and of the functions and constants of its module that it uses."""


class FunctionVerifier:
    """Grades by a function of the calling program.

    A plain function is called in one thread, one answer after the other; an ``async`` one in the event loop.
    """

    Options: ClassVar[type[BaseModel]] = FunctionOptions

    def __init__(
        self,
        options: BaseModel,
        models: Mapping[str, Policy] | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        self.options = cast("FunctionOptions", options)
        if function is None:
            raise ConfigError(
                f"{self.options.name} is a function of the Python program that collected these answers; "
                "call nemo_gym.run with it there, or put it in a file and name that: "
                "{type: python, path: grade.py}"
            )
        self._function = function
        self._models = models or {}
        self._parameters = parameters(function, self.options.name)
        self._thread: ThreadPoolExecutor | None = None
        if not _is_async(function):
            if "models" in self._parameters:
                raise ConfigError(f"{self.options.name} takes models, so it must be an async function")
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="grading")

    def check_row(self, row: Row) -> str | None:
        """Nothing is known about what the function needs."""
        del row
        return None

    async def verify(self, task: Task, episode: Episode) -> Verdict:
        """Call the function with the parameters that it names."""
        given = values(task.row, episode, {}) | {"models": self._models}
        chosen = {name: given[name] for name in self._parameters}
        if self._thread is None:
            result = await self._function(**chosen)
        else:
            loop = asyncio.get_running_loop()
            result = await loop.run_in_executor(self._thread, lambda: self._function(**chosen))
        return as_verdict(result, episode.text)

    def close(self) -> None:
        """Let the thread go; a call that does not return is left alone."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)


def function_spec(function: Callable[..., Any]) -> dict[str, Any]:
    """The description of a function as a verifier. Raises `ConfigError` where its source cannot be read."""
    name = getattr(function, "__name__", None) or type(function).__name__
    digest = hashlib.sha256("\n".join(_identity(function, set())).encode()).hexdigest()
    return {"type": TYPE, "name": name, "sha256": digest}


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(_called(function))


def _called(function: Any) -> Any:
    """The function behind a callable: of an object its method ``__call__``."""
    unwrapped = inspect.unwrap(function)
    unwrapped = getattr(unwrapped, "__func__", unwrapped)
    return unwrapped if inspect.isfunction(unwrapped) else getattr(type(unwrapped), "__call__", unwrapped)  # noqa: B004 - the method itself is wanted


def _identity(function: Any, seen: set[int]) -> list[str]:
    """Source of a function, then what it uses of its own program: functions likewise, and constants."""
    if isinstance(function, functools.partial):
        given = [*enumerate(function.args), *sorted(function.keywords.items())]
        return [*_identity(function.func, seen), *(f"{name} = {value!r}" for name, value in given)]
    code = _called(function)
    if id(code) in seen:
        return []
    seen.add(id(code))
    try:
        found = [textwrap.dedent(inspect.getsource(code))]
    except (OSError, TypeError):
        raise ConfigError(
            f"verifier: the source of {function!r:.60} cannot be read, so a change of it would not "
            "be noticed; give a function that is written with def."
        ) from None
    used = inspect.getclosurevars(code)
    state = getattr(inspect.unwrap(function), "__dict__", {})
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(code).parameters.items()
        if parameter.default is not parameter.empty
    }
    for name, value in sorted({**used.globals, **used.nonlocals, **state, **defaults}.items()):
        if inspect.isfunction(value) and value.__module__ == code.__module__:
            found += _identity(value, seen)
        elif not callable(value):
            found += _plain(name, value)
    return found


def _plain(name: str, value: Any) -> list[str]:
    """A constant as it would be written; a list, a mapping or an object may change from call to call."""
    parts = value if isinstance(value, tuple) else (value,)
    constant = all(part is None or isinstance(part, bool | int | float | str) for part in parts)
    return [f"{name} = {value!r}"] if constant else []
