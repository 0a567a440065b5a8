"""Everything that is not right with the body of a request or a spec, field by field, at once."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from nemo_helix_plugin.model_fields import field_suggestion
from nemo_runs.counts import counted

if TYPE_CHECKING:
    from pydantic import BaseModel

STAND_IN = "placeholder/placeholder"
"""A text that every reference to a model, a fileset or a file may be, in place of one that is not known."""
_ROUNDS = 8
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


class BodyProblem(NamedTuple):
    """One thing that is not right."""

    path: tuple[str, ...]
    """The keys that lead to it, as the body has them; empty for the whole body."""
    text: str
    """What is wrong and what would be right, without the value."""

    def __str__(self) -> str:
        """As a line: the dotted path, and what is said of it."""
        return f"{'.'.join(self.path)}: {self.text}" if self.path else self.text


def several(problems: Iterable[str]) -> ValueError:
    """What a model's validator raises for problems that it found together; each is reported by itself."""
    return ValueError("\n".join(problems))


def in_lines(problems: Sequence[str]) -> str:
    """Problems as one text: the only one as it is; of several their number, and a line for each."""
    if len(problems) == 1:
        return problems[0]
    return "\n".join([f"{counted(len(problems), 'problem')}:", *(f"  {problem}" for problem in problems)])


def body_problems(model: type[BaseModel], given: Mapping[str, Any]) -> list[BodyProblem]:
    """All problems of a body, in the order in which they are found; none when it fits.

    What relates fields to each other is looked at only where these are right. So each field that is wrong is
    left out, or given a stand-in, until all the rest has been looked at.
    """
    from pydantic import ValidationError

    found: list[BodyProblem] = []
    mended: Any = copy.deepcopy(dict(given))
    touched: set[tuple[str, ...]] = set()
    for _ in range(_ROUNDS):
        try:
            model.model_validate(mended)
        except ValidationError as error:
            rows = error.errors(include_url=False, include_context=False, include_input=False)
        else:
            break
        before = frozenset(touched)
        placed = [(row, tuple(_place(row["loc"], mended, missing=row["type"] == "missing"))) for row in rows]
        found += _new(model, [(row, path) for row, path in placed if path not in before], found)
        kinds = {path: row["type"] for row, path in placed}
        changes = [
            _take_out(mended, path, touched, missing=kind == "missing", unknown=kind == "extra_forbidden")
            for path, kind in kinds.items()
        ]
        if not any(changes):
            break
    return found


def _new(
    model: type[BaseModel],
    placed: Sequence[tuple[Mapping[str, Any], tuple[str, ...]]],
    known: Sequence[BodyProblem],
) -> list[BodyProblem]:
    """Of a field that may be of several kinds, what each kind says is one problem."""
    rows_of: dict[tuple[str, ...], list[list[BodyProblem]]] = {}
    for row, path in placed:
        rows_of.setdefault(path, []).append(list(_said(model, row, path)))
    found = []
    for path, said in rows_of.items():
        whole = said[0] if len(said) == 1 else [BodyProblem(path, ", or ".join(one[0].text for one in said))]
        found += [problem for problem in whole if problem not in known]
    return found


def _said(model: type[BaseModel], row: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[BodyProblem]:
    if row["type"] == "extra_forbidden":
        yield BodyProblem(path, f"there is no such field{field_suggestion(model, path[-1])}")
        return
    if row["type"] == "missing":
        yield BodyProblem(path, "it is missing, and required")
        return
    for text in row["msg"].removeprefix("Value error, ").splitlines():
        message = text[:1].lower() + text[1:]
        for theirs, ours in _WORDING:
            message = theirs.sub(ours, message)
        yield BodyProblem(path, message)


def _place(found: Sequence[int | str], given: object, *, missing: bool) -> Iterator[str]:
    """The keys of the body that lead to a problem: pydantic has kinds of objects and values among them."""
    for number, part in enumerate(found, start=1):
        asked_for = missing and number == len(found)
        if isinstance(given, Mapping) and part not in given and not asked_for:
            continue
        if isinstance(part, str) and not isinstance(given, Mapping):
            continue
        yield str(part)
        if isinstance(given, Mapping):
            given = given.get(str(part))
        elif isinstance(given, list) and isinstance(part, int) and part < len(given):
            given = given[part]


def _take_out(
    body: Any, path: tuple[str, ...], touched: set[tuple[str, ...]], *, missing: bool, unknown: bool
) -> bool:
    """Put a stand-in where something is missing; empty what is wrong, or remove it where that does not help.

    What was set counts as set for as long as possible. Whether this changed the body is given back.
    """
    holder = body
    for depth, part in enumerate(path):
        here = path[: depth + 1]
        inner = holder.get(part)
        if here != path and isinstance(inner, dict):
            holder = inner
            continue
        again = here in touched
        touched.add(here)
        if missing and here == path and part not in holder:
            holder[part] = STAND_IN
        elif part in holder and (again or unknown or inner is None or inner == []):
            del holder[part]
        elif part in holder:
            holder[part] = [] if isinstance(inner, list) else None
        else:
            return False
        return True
    return False
