"""What commands are given besides words: bodies from files, standard input and options, and secrets."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nemo_cli.completion import files
from nemo_runs import strict_json

if TYPE_CHECKING:
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # generic in newer releases only

SOURCE_HELP = "`host:VAR` for the value of an environment variable here, or `-` for standard input."


class JsonObject(_ParamType):
    """An option's value that is a JSON object."""

    name = "JSON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The object, as a dict."""
        if isinstance(value, dict):
            return value
        try:
            found = strict_json.loads(value)
        except json.JSONDecodeError as error:
            self.fail(f"this is not JSON: {error}", param, ctx)
        except ValueError as error:
            self.fail(f"it {error}", param, ctx)
        if not isinstance(found, dict):
            self.fail(f"this is a JSON {_kind(found)}; an object in braces is needed", param, ctx)
        return found


def input_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--input-file`` and ``--input-data``; the command gets ``input_file`` and ``input_data``."""
    for option in (
        click.option("--input-data", metavar="TEXT", help="The whole body, as JSON or YAML."),
        click.option(
            "--input-file",
            metavar="FILE",
            shell_complete=files,
            help="The whole body from a JSON or YAML file; `-` is standard input.",
        ),
    ):
        function = option(function)
    return function


def body(input_file: str | None, input_data: str | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The body from file or text, over which the flags win that were given."""
    if input_file is not None and input_data is not None:
        raise click.UsageError("Give --input-file or --input-data, not both.")
    given: dict[str, Any] = {}
    if input_file is not None:
        given = _mapping(_read(input_file), "standard input" if input_file == "-" else input_file)
    elif input_data is not None:
        given = _mapping(input_data, "--input-data")
    return {**given, **{name: value for name, value in flags.items() if value is not None}}


def validated(
    model: type[Model], found: Mapping[str, Any], where: Callable[[Sequence[str]], str] = lambda _path: ""
) -> Model:
    """The body as its type; all that does not fit is one usage error that names the fields, never a value.

    ``where`` gives the line of a field in its file, as words that follow its name.
    """
    from pydantic import ValidationError

    from nemo_helix_plugin.body_problems import body_problems, in_lines

    try:
        return model.model_validate(found)
    except ValidationError:
        problems = body_problems(model, found)
        lines = [
            f"{'.'.join(one.path)}{where(one.path)}: {one.text}" if one.path else one.text for one in problems
        ]
        raise click.UsageError(f"{in_lines(lines)}.") from None


def secret(value: str, option: str) -> str:
    """The secret that ``host:VAR`` or ``-`` stands for; a literal is refused."""
    if value == "-":
        found = _typed(option) if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
        if not found:
            raise click.UsageError(f"{option} -: standard input was empty.")
        return found
    prefix, _, name = value.partition(":")
    if prefix != "host" or not name:
        raise click.UsageError(
            f"{option} takes no secret itself, since others see command lines: put it into an environment "
            f"variable and give {option} host:VARIABLE, or give {option} - and type it."
        )
    if not os.environ.get(name):
        raise click.UsageError(f"{option} {value}: the environment variable {name} is not set, or empty.")
    return os.environ[name]


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
"""Of each command that removes something, or acts on many things at once; see `confirm`."""


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal before what cannot be undone; where nobody can be asked, only ``yes`` goes on."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"{question} There is nobody to ask; add --yes.")
    click.confirm(question, abort=True, err=True)


def _typed(option: str) -> str:
    return str(click.prompt(f"Value for {option}", hide_input=True, err=True))


def _read(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        with open(name, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise click.UsageError(f"--input-file {name}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"--input-file {name}: this is not text in UTF-8.") from None


def _mapping(text: str, where: str) -> dict[str, Any]:
    try:
        found = strict_json.loads(text)
    except json.JSONDecodeError:
        found = yaml_value(text, where)
    except ValueError as error:
        yaml_value(text, where)  # which says the line of a key that is there twice
        raise click.UsageError(f"{where} {error}.") from None
    if not isinstance(found, dict):
        raise click.UsageError(f"{where} holds a {_kind(found)}; an object is needed.")
    return found


def yaml_value(text: str, where: str) -> Any:
    """The value of a YAML text that JSON can hold; `click.UsageError` says where it is wrong."""
    import yaml

    from nemo_helix_plugin import yaml_text

    try:
        return strict_json.checked(yaml_text.load(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise click.UsageError(f"{where}{place} is neither JSON nor YAML: {problem}.") from None
    except ValueError as error:
        raise click.UsageError(f"{where} {error}.") from None


def _kind(value: object) -> str:
    kinds = {
        list: "list",
        str: "text",
        int: "number",
        float: "number",
        bool: "truth value",
        type(None): "null",
    }
    return kinds.get(type(value), type(value).__name__)
