"""The head of a batch script: ``#SBATCH`` lines whose values were checked.

Such a line cannot be quoted as a shell line can: sbatch takes it apart by rules of its own, and what follows
a blank or a line break would become another option or a command. So a value that is not plainly one word is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nemo_runs.durations import parse_duration, slurm_time
from nemo_runs.errors import DurationError
from nemo_runs.patterns import pattern
from nemo_slurm.errors import UnusableValueError

OptionValue = str | int | bool | None
"""A text or number; True for an option without a value; None and False leave the option out."""

_KEY = pattern(r"[a-z][a-z0-9-]*")
_WORD = pattern(r"[A-Za-z0-9_./:,=+@%*&|~()\[\]-]+")
_NAMES = pattern(r"[A-Za-z0-9_.-]+(?:,[A-Za-z0-9_.-]+)*")
_COUNT = pattern(r"[1-9][0-9]*")
_RANGE = pattern(r"[1-9][0-9]*(?:-[1-9][0-9]*)?")

_STRICTER = {
    "account": (_NAMES, "a name"),
    "partition": (_NAMES, "a name, or several separated by commas"),
    "qos": (_NAMES, "a name"),
    "reservation": (_NAMES, "a name"),
    "nodes": (_RANGE, "a number, or a range such as 2-4"),
    "ntasks": (_COUNT, "a number from 1"),
    "ntasks-per-node": (_COUNT, "a number from 1"),
    "cpus-per-task": (_COUNT, "a number from 1"),
}
_TIMES = frozenset({"time", "time-min"})
_REFUSED = {
    "array": "one job has one number here",
    "clusters": "ask on the cluster that is meant",
    "comment": "it holds the token by which a job is found",
    "help": "it submits nothing",
    "parsable": "it is given already",
    "test-only": "it submits nothing",
    "usage": "it submits nothing",
    "version": "it submits nothing",
    "wait": "submitting would wait for the job's end",
    "wrap": "there is a script already",
}


def options(values: Mapping[str, OptionValue], *, where: str) -> list[str]:
    """Options as words (``--key=value``) in their order. Raises `UnusableValueError` naming ``where.key``."""
    return [_option(key, value, f"{where}.{key}") for key, value in values.items() if _is_given(value)]


def is_path(text: str) -> bool:
    """Whether a path can be that of a job's output: one word in which sbatch replaces nothing."""
    return _WORD.fullmatch(text) is not None and "%" not in text


def merged(*parts: tuple[str, Mapping[str, OptionValue]]) -> dict[str, OptionValue]:
    """Join options of several places, each (where, options). One option with two values is refused."""
    found: dict[str, OptionValue] = {}
    origin: dict[str, str] = {}
    for where, values in parts:
        for key, value in values.items():
            if key in found and found[key] != value:
                raise UnusableValueError(
                    f"{where}.{key}: {value!r}, but {origin[key]} says {found[key]!r}; one job has one value"
                )
            found[key] = value
            origin.setdefault(key, f"{where}.{key}")
    return found


def dependency(kind: str, ids: Sequence[str]) -> str:
    """A value for ``--dependency``, of kinds that an end other than success satisfies or that need no end.

    ``afterok`` is refused: a job that ends at its time limit would never release what waits for it.
    """
    if kind not in {"afternotok", "afterany", "after"}:
        raise UnusableValueError(
            f"{kind!r}: a continuation waits with afternotok or afterany, never with {kind}"
        )
    if not ids or not all(_COUNT.fullmatch(number) for number in ids):
        raise UnusableValueError(f"{list(ids)!r}: a dependency needs numbers of jobs")
    return ":".join([kind, *ids])


def _is_given(value: OptionValue) -> bool:
    return value is not None and value is not False


def _option(key: str, value: OptionValue, where: str) -> str:
    if not _KEY.fullmatch(key):
        raise UnusableValueError(
            f"{where}: {key!r} is not an option of sbatch; write its long name without dashes"
        )
    if key in _REFUSED:
        raise UnusableValueError(f"{where}: --{key} cannot be used here: {_REFUSED[key]}")
    if value is True:
        return f"--{key}"
    if key in _TIMES:
        return f"--{key}={_time(value, where)}"
    text = str(value)
    pattern, meant = _STRICTER.get(key, (_WORD, "one word without blanks, quotes or line breaks"))
    if not pattern.fullmatch(text):
        raise UnusableValueError(
            f"{where}: {text!r} cannot be written on an #SBATCH line; it must be {meant}"
        )
    return f"--{key}={text}"


def _time(value: OptionValue, where: str) -> str:
    if value == "UNLIMITED":
        return "UNLIMITED"
    try:
        return slurm_time(parse_duration(value, where=where))
    except DurationError as error:
        raise UnusableValueError(str(error)) from error
