"""A sweep: one job for each combination of values of some fields of a spec. Pure: nothing is asked or sent.

The service knows no sweeps. Each job says in its ``custom_fields`` which sweep it is of, and with which
values; so the jobs of a sweep are found by a filter, and a job that is rerun stays in it.
"""

from __future__ import annotations

import copy
import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_JOBS = 256
NAME_FIELD, VALUES_FIELD = "sweep", "swept"
"""Keys of ``custom_fields``: the sweep's name, and the values by field."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A field of the spec, ``schedule.learning_rate``, and the values that it takes in turn."""

    field: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SweepJob:
    """One job of a sweep, before it is submitted."""

    name: str
    values: Mapping[str, Any]
    spec: dict[str, Any]
    custom_fields: dict[str, Any]


def axis(word: str, scalar: Callable[[str], Any]) -> Axis:
    """``field=value,value…`` as an axis; ``scalar`` reads one value. Raises `ValueError` in one sentence."""
    field, equals, listed = word.partition("=")
    texts = [text.strip() for text in listed.split(",")]
    if not equals or not all(field.split(".")) or not all(texts):
        raise ValueError(f"{word}: write field=value,value, as in schedule.learning_rate=1e-5,3e-5")
    if len(set(texts)) < len(texts):
        raise ValueError(f"{word}: each value once")
    return Axis(field, tuple(scalar(text) for text in texts))


def new_name() -> str:
    """A name for a sweep that was given none."""
    return f"sweep-{secrets.token_hex(4)}"


def jobs_of(spec: Mapping[str, Any], axes: Sequence[Axis], name: str) -> list[SweepJob]:
    """The jobs of a sweep, the last axis varying fastest. Raises `ValueError` in one sentence.

    A model that the spec names gets the job's number at its end, since each job makes one.
    """
    fields = [one.field for one in axes]
    if len(set(fields)) < len(fields):
        raise ValueError("a field can be swept once; list its values behind one --sweep")
    combinations = list(itertools.product(*(one.values for one in axes)))
    if len(combinations) > MOST_JOBS:
        raise ValueError(f"{len(combinations)} jobs are more than a sweep may have ({MOST_JOBS})")
    digits = len(str(len(combinations)))
    made = []
    for number, combination in enumerate(combinations, start=1):
        values = dict(zip(fields, combination, strict=True))
        suffix = f"-{number:0{digits}}"
        swept = copy.deepcopy(dict(spec))
        for field, value in values.items():
            _put(swept, field, value)
        output = swept.get("output")
        if isinstance(output, dict) and isinstance(output.get("name"), str) and "output.name" not in values:
            output["name"] += suffix
        custom = {NAME_FIELD: name, VALUES_FIELD: values}
        made.append(SweepJob(f"{name}{suffix}", values, swept, custom))
    return made


def _put(spec: dict[str, Any], field: str, value: Any) -> None:
    *outer, last = field.split(".")
    inner = spec
    for part in outer:
        found = inner.setdefault(part, {})
        if not isinstance(found, dict):
            raise ValueError(  # noqa: TRY004 - what was typed is wrong
                f"{field}: {part} of the spec holds no object to put it in"
            )
        inner = found
    inner[last] = value


def values_of(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """The swept values of a job, by field; empty of one without."""
    values = (job.get("custom_fields") or {}).get(VALUES_FIELD)
    return values if isinstance(values, Mapping) else {}


def sweep_of(job: Mapping[str, Any]) -> str | None:
    """The sweep that a job is of."""
    name = (job.get("custom_fields") or {}).get(NAME_FIELD)
    return name if isinstance(name, str) else None


def label(job: Mapping[str, Any]) -> str:
    """The swept values in one line, fields by their last part: ``learning_rate=1e-05 seed=1``."""
    return " ".join(f"{field.rpartition('.')[2]}={value}" for field, value in values_of(job).items())
