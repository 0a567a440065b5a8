"""Options of the example training, from the command line and the step's configuration file."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from nemo_trainer.contract import BadSpecError
from nemo_trainer.contract.names import CONFIG_FILE

FAILURES = ("exit", "oom", "gpu-oom", "nan", "disk", "kill", "hang")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleOptions:
    """What the example does."""

    dir: Path | None = None
    steps: int = 40
    step_seconds: float = 0.0
    seed: int = 1
    rate: float = 0.1
    save_every: int = 10
    keep: int = 2
    boundary: int = 1
    ballast: int = 0
    """Bytes that every checkpoint holds besides its state."""
    save_seconds: float = 0.0
    ignore_pause: bool = False
    fail_at: int = 0
    """The step before which it fails; 0 = none."""
    fail_how: str = "exit"
    fail_times: int = 1
    """How many starts fail in the job's life; the next one gets through."""


_HELP = {
    "dir": "trainer path; by default the environment says it",
    "steps": "steps in all",
    "step_seconds": "how long a step takes at least",
    "seed": "of the data and of their order",
    "rate": "learning rate",
    "save_every": "steps between two checkpoints",
    "keep": "checkpoints to keep",
    "boundary": "it can stop only after multiples of so many steps",
    "ballast": "bytes that make every checkpoint larger",
    "save_seconds": "how long a save takes at least",
    "ignore_pause": "never react to what is wanted",
    "fail_at": "the step before which it fails",
    "fail_how": f"one of {', '.join(FAILURES)}",
    "fail_times": "how many starts fail before one gets through",
}


def read_options(arguments: Sequence[str], environ: Mapping[str, str]) -> ExampleOptions:
    """The options; raises `BadSpecError` with one sentence."""
    parser = _Parser(
        prog="python -m nemo_trainer.example", allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    for field in dataclasses.fields(ExampleOptions):
        flag = f"--{field.name.replace('_', '-')}"
        if isinstance(field.default, bool):
            parser.add_argument(flag, action="store_true", help=_HELP[field.name])
        else:
            parser.add_argument(flag, help=_HELP[field.name])
    given = {**_configured(environ), **vars(parser.parse_args(list(arguments)))}
    known = {field.name: field.default for field in dataclasses.fields(ExampleOptions)}
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise BadSpecError(f"{unknown[0]!r} is not an option of the example; there are {', '.join(known)}")
    options = ExampleOptions(**{name: _convert(name, value, known[name]) for name, value in given.items()})
    if options.fail_how not in FAILURES:
        raise BadSpecError(f"fail_how is {options.fail_how!r}; it must be one of {', '.join(FAILURES)}")
    if min(options.steps, options.save_every, options.boundary) < 1:
        raise BadSpecError("steps, save_every and boundary must be at least 1")
    return options


def _configured(environ: Mapping[str, str]) -> dict[str, Any]:
    path = environ.get(CONFIG_FILE)
    if not path:
        return {}
    try:
        value = json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise BadSpecError(f"{path}: is not JSON that can be read: {error}") from error
    if not isinstance(value, dict):
        raise BadSpecError(f"{path}: must hold an object with the options of the example")
    return value


def _convert(name: str, value: Any, default: Any) -> Any:
    """A value of the type that the option's default has."""
    try:
        if isinstance(default, bool):
            if not isinstance(value, bool):
                raise TypeError  # noqa: TRY301 - one funnel for all that is of the wrong type
            return value
        if name == "dir":
            return Path(value)
        if isinstance(default, int) and isinstance(value, float):
            raise TypeError  # noqa: TRY301 - the same
        return type(default)(value)
    except (TypeError, ValueError):
        wanted = {"bool": "true or false", "int": "a whole number", "float": "a number"}
        raise BadSpecError(
            f"{name} is {value!r}; it must be {wanted.get(type(default).__name__, 'a text')}"
        ) from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadSpecError(f"{message}; see --help")
