"""Filters of lists: ``--filter`` as text or JSON, and dotted ones such as ``--filter.status error``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from nemo_runs import strict_json
from nemo_runs.suggestions import suggestion

PREFIX = "--filter."
FIELDS = ("name", "project", "source", "status", "workspace", "created_at", "updated_at", "spec")
OTHER_FIELDS = ("id", "description", "attempt_id", "fileset", "output_location", "custom_fields", "ownership")
_NESTED = ("spec", "custom_fields", "ownership")
_OPERATORS = ("eq", "gte", "lte", "gt", "lt", "like", "in", "nin", "exists")
_LISTS = ("in", "nin")
_HELP = {
    "name": "Jobs of this name.",
    "project": "Jobs of this project.",
    "source": "Jobs that this service submitted, such as `customization`.",
    "status": "Jobs in this status; can be repeated.",
    "workspace": "Jobs of this workspace, with `--workspace -`.",
    "created_at": "Jobs created then; `--filter.created_at.gte 2026-01-01` and the like.",
    "updated_at": "The same of the last change.",
    "spec": "A value in the spec, by its path: `--filter.spec.backend unsloth`.",
}

Pairs = Sequence[tuple[str, str]]


class FilteringCommand(click.Command):
    """A command with dotted filters of any path; its function gets them as ``dotted``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params[1:1] = [
            click.Option([f"{PREFIX}{name}"], expose_value=False, metavar="VALUE", help=_HELP[name])
            for name in FIELDS
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the dotted filters out, and parse the rest."""
        pairs, rest = _taken(ctx, args)
        left = super().parse_args(ctx, rest)
        ctx.params["dotted"] = pairs
        return left


def _taken(ctx: click.Context, args: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    pairs: list[tuple[str, str]] = []
    rest: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word.startswith(PREFIX):
            path, equals, value = word.removeprefix(PREFIX).partition("=")
            if not equals:
                found = next(words, None)
                if found is None:
                    raise click.UsageError(f"Option '{word}' requires an argument.", ctx)
                value = found
            _check_path(path, ctx)
            pairs.append((path, value))
        else:
            rest.append(word)
    return pairs, rest


def _check_path(path: str, ctx: click.Context) -> None:
    first, _, rest = path.partition(".")
    known = (*FIELDS, *OTHER_FIELDS)
    if first not in known:
        hint = (
            suggestion(f"{PREFIX}{first}", [f"{PREFIX}{name}" for name in known])
            or f"; jobs have: {', '.join(known)}"
        )
        raise click.UsageError(f"No such option: {PREFIX}{path}{hint}.", ctx)
    if first in _NESTED:
        if not rest:
            raise click.UsageError(f"{PREFIX}{first} needs a path, as in {PREFIX}{first}.backend.", ctx)
    elif rest and rest.removeprefix("$") not in _OPERATORS:
        raise click.UsageError(
            f"No such option: {PREFIX}{path}{suggestion(rest, _OPERATORS)}; after a field there may be: "
            f"{', '.join(_OPERATORS)}.",
            ctx,
        )


def tree(pairs: Pairs) -> dict[str, Any]:
    """Dotted filters as a JSON filter; values of one path that was given several times are alternatives."""
    given: dict[tuple[str, str], list[str]] = {}
    for path, value in pairs:
        field, operator = _split(path)
        several = value.split(",") if operator in _LISTS or field == "status" else [value]
        given.setdefault((field, operator), []).extend(item.strip() for item in several)
    found: dict[str, Any] = {}
    for (field, operator), values in given.items():
        if field == "status":
            for value in values:
                check_status(value)
        read = _readings(field, values) if operator in {"eq", *_LISTS} else list[Any](values)
        found.setdefault(field, {}).update(_condition(operator, read))
    return {field: _short(condition) for field, condition in found.items()}


def check_status(value: str) -> None:
    """Refuse what is not a status, with the one that was meant."""
    from nemo_helix_plugin.jobs.statuses import HelixJobStatus

    known = [status.value for status in HelixJobStatus]
    if value not in known:
        hint = suggestion(value, known) or f"; there are: {', '.join(known)}"
        raise click.UsageError(f"There is no status '{value}'{hint}.")


def combined(text: str | None, pairs: Pairs) -> str | dict[str, Any] | None:
    """``--filter`` and dotted filters together; a dotted one wins over the same field of a JSON filter.

    Raises `click.UsageError` for text that begins like JSON and is not.
    """
    dotted = tree(pairs)
    if text is None:
        return dotted or None
    if not text.lstrip().startswith("{"):
        return " AND ".join([f"({text})", *_as_text(dotted)]) if dotted else text
    try:
        given = strict_json.loads(text)
    except json.JSONDecodeError as error:
        raise click.UsageError(f"--filter begins like JSON, but is not JSON: {error}.") from None
    except ValueError as error:
        raise click.UsageError(f"--filter {error}.") from None
    return {**given, **dotted}


def _split(path: str) -> tuple[str, str]:
    field, _, last = path.rpartition(".")
    operator = last.removeprefix("$")
    if field and operator in _OPERATORS:
        return field, operator
    return path, "eq"


def _readings(field: str, values: list[str]) -> list[Any]:
    """In a spec, ``16`` may be a number or a text, and nobody says which: both are meant."""
    if field.partition(".")[0] not in _NESTED:
        return list(values)
    found: list[Any] = []
    for value in values:
        found.append(value)
        try:
            other = strict_json.loads(value)
        except ValueError:
            continue
        if isinstance(other, int | float | bool):
            found.append(other)
    return found


def _condition(operator: str, values: list[Any]) -> dict[str, Any]:
    if operator in _LISTS or len(values) > 1:
        return {"$nin" if operator == "nin" else "$in": values}
    if operator == "exists":
        return {"$exists": str(values[0]).lower() not in {"false", "no", "0"}}
    return {f"${operator}": values[0]}


def _short(condition: dict[str, Any]) -> Any:
    return condition["$eq"] if list(condition) == ["$eq"] else condition


def _as_text(found: Mapping[str, Any]) -> list[str]:
    """The conditions of a tree in the text spelling."""
    signs = {"$gte": ">=", "$lte": "<=", "$gt": ">", "$lt": "<", "$like": "~", "$eq": ":"}
    parts = []
    for field, condition in found.items():
        for operator, value in (condition if isinstance(condition, dict) else {"$eq": condition}).items():
            if operator in {"$in", "$nin"}:
                listed = ", ".join(json.dumps(item) for item in value)
                parts.append(f"{field} {'NOT IN' if operator == '$nin' else 'IN'} [{listed}]")
            elif operator in signs:
                parts.append(f"{field}{signs[operator]}{json.dumps(value)}")
            else:
                raise click.UsageError(f"{PREFIX}{field}.exists goes with a --filter in JSON only.")
    return parts
