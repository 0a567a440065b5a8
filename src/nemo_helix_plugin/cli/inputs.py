"""What commands are given besides words: bodies from files, standard input and options, and secrets."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nemo_runs import strict_json
from nemo_runs.counts import counted

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

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


def validated(model: type[Model], found: Mapping[str, Any]) -> Model:
    """The body as its type; what does not fit is a usage error that names the field, never its value."""
    from pydantic import ValidationError

    try:
        return model.model_validate(found)
    except ValidationError as error:
        raise click.UsageError(_problem(model, error, found)) from None


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


_WORDING = (
    (
        re.compile(r"^input tag '(.*)' found using '(.*)' does not match any of the expected tags: "),
        r"the \2 '\1' is not one of ",
    ),
    (re.compile(r"^unable to extract tag using discriminator '(.*)'$"), r"'\1' is missing"),
    (re.compile(r"^input should be a valid dictionary( or instance of .*)?$"), "an object is needed"),
    (re.compile(r"^extra inputs are not permitted$"), "there is no such field"),
    (
        re.compile(r"^input should be a valid string$"),
        "text is needed; put a number or true and false in quotes",
    ),
)
"""What pydantic says, and what is said in its place."""


def _place(found: Sequence[int | str], given: object) -> Iterator[str]:
    """The keys of the body that lead to a problem: pydantic has kinds of objects among them."""
    for number, part in enumerate(found, start=1):
        if isinstance(given, Mapping) and part not in given and number < len(found):
            continue
        yield str(part)
        if isinstance(given, Mapping):
            given = given.get(str(part))
        elif isinstance(given, list) and isinstance(part, int) and part < len(given):
            given = given[part]


def _problem(model: type[BaseModel], error: ValidationError, given: object) -> str:
    """The first problem, and how many more there are."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    first, more = found[0], len(found) - 1
    where = ".".join(_place(first["loc"], given))
    message = first["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if first["type"] == "extra_forbidden":
        from nemo_helix_plugin.model_fields import field_suggestion

        message = f"there is no such field{field_suggestion(model, str(first['loc'][-1]))}"
    for theirs, ours in _WORDING:
        message = theirs.sub(ours, message)
    end = f"; {counted(more, 'more problem is', 'more problems are')} there" if more else ""
    return f"{where}: {message}{end}." if where else f"{message}{end}."
