"""References to environment variables in configs, and keeping the values behind them out of sight.

A value says where it comes from by a prefix: ``host:VAR`` is read on the submitting machine, ``runtime:VAR``
in the job, ``lit:TEXT`` is TEXT. Anything else is a literal, colons and all. A resolved value is never parsed
again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn

from nemo_runs.errors import SecretReferenceError

__all__ = [
    "VARIABLE",
    "Reference",
    "SecretReferenceError",
    "SecretText",
    "host_references",
    "looks_secret",
    "parse_reference",
    "redact",
    "resolve_host",
]

VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
"""Pattern of an environment variable's name, for `re.fullmatch`."""

_HIDDEN = "***"
_SHORTEST_REDACTED = 4
_SECRET_WORDS = frozenset({"token", "key", "secret", "password", "apikey", "passwd"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a value comes from."""

    kind: Literal["lit", "host", "runtime"]
    text: str
    """The literal itself, or the variable's name."""


class SecretText:
    """A value that shows as ``***`` wherever it is printed, formatted or logged; `reveal` gives it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return _HIDDEN

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(_HIDDEN, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretText) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __copy__(self) -> SecretText:
        return self

    def __deepcopy__(self, memo: object) -> SecretText:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret value is not written anywhere; reveal() it where it is needed")


def host_references(values: object, where: str = "") -> Iterator[tuple[str, str]]:
    """All ``host:VAR`` texts in nested values, with their dotted paths; a longer text is none."""
    if isinstance(values, str):
        if re.fullmatch(f"host:{VARIABLE}", values):
            yield where, values
    elif isinstance(values, Mapping):
        for key, value in values.items():
            yield from host_references(value, f"{where}.{key}" if where else str(key))
    elif isinstance(values, list | tuple):
        for number, value in enumerate(values):
            yield from host_references(value, f"{where}.{number}")


def parse_reference(value: str, *, where: str) -> Reference:
    """Read one value of an ``env`` mapping; ``where`` is the dotted path that a message begins with.

    Raises `SecretReferenceError` when ``host:`` or ``runtime:`` is not followed by a variable's name.
    """
    prefix, colon, rest = value.partition(":")
    if not colon:
        return Reference("lit", value)
    if prefix == "lit":
        return Reference("lit", rest)
    if prefix not in {"host", "runtime"}:
        return Reference("lit", value)
    if not re.fullmatch(VARIABLE, rest):
        found = f"{_shortened(rest)!r} is not such a name" if rest else "no name follows"
        raise SecretReferenceError(
            f"{where}: {prefix}: takes a variable's name (letters, digits, _), but {found}; "
            f"for a value that begins like this write lit:{prefix}:…"
        )
    return Reference("host" if prefix == "host" else "runtime", rest)


def resolve_host(ref: Reference, environ: Mapping[str, str], *, where: str) -> SecretText:
    """The value of a ``host:`` reference; empty is fine, unset raises `SecretReferenceError`."""
    if ref.kind != "host":
        raise ValueError(f"{where}: a {ref.kind} reference has no value on this machine")
    value = environ.get(ref.text)
    if value is None:
        raise SecretReferenceError(
            f"{where}: the environment variable {ref.text} is not set; export it first"
        )
    return SecretText(value)


def looks_secret(key: str) -> bool:
    """Whether a config key names a secret by one of its words, as ``api_key`` or ``HF_TOKEN`` do.

    ``max_output_tokens`` and ``keyboard`` do not.
    """
    return any(word.lower() in _SECRET_WORDS for word in _WORD.findall(key))


def redact(text: str, values: Iterable[str]) -> str:
    """Replace each of ``values`` in ``text`` by ``***``; those shorter than four characters hide nothing."""
    hidden = sorted({value for value in values if len(value) >= _SHORTEST_REDACTED}, key=len, reverse=True)
    if not hidden:
        return text
    return re.sub("|".join(map(re.escape, hidden)), _HIDDEN, text)


def _shortened(name: str) -> str:
    """A bad name, cut when it is so long that it may be the secret itself, written in the wrong place."""
    return name if len(name) <= 20 else f"{name[:4]}…"
