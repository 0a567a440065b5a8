"""Filters as text: ``name~"llama" AND (status:"error" OR status:"paused") -source:customization``.

field:value      equal              field~value      contains, three characters or more
field>value      and >= < <=        field IN [a, b]  and NOT IN [a, b]
field:null       is not set         -term            not
( … )            a group            AND, OR          a space is AND, which binds closer
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from nemo_helix_server.errors import MalformedRequestError
from nemo_helix_server.jobs.filtering.tree import Not, Operator, Scalar, Tree, all_of, any_of, compare

_SHORTEST_PART = 3
_DEEPEST = 30
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>"(?:[^"\\]|\\.)*")
      | (?P<sign><=|>=|[:~<>()\[\],])
      | (?P<word>[^\s:~<>()\[\],"]+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_OPERATORS = {
    ":": Operator.EQUAL,
    "~": Operator.LIKE,
    ">": Operator.GREATER,
    ">=": Operator.GREATER_OR_EQUAL,
    "<": Operator.LESS,
    "<=": Operator.LESS_OR_EQUAL,
}


class _Token(NamedTuple):
    text: str
    quoted: bool


def tree(text: str) -> Tree:
    """The tree of a filter written as text; raises `MalformedRequestError` saying where it cannot be read."""
    reading = _Reading(list(_tokens(text)))
    result = reading.alternatives(0)
    if reading.peek() is not None:
        raise MalformedRequestError(f"the filter cannot be read from '{reading.take().text[:100]}' on")
    return result


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    stripped = text.rstrip()
    while position < len(stripped):
        found = _TOKEN.match(stripped, position)
        if found is None:
            raise MalformedRequestError(
                f"the filter cannot be read from '{stripped[position : position + 100]}' on"
            )
        position = found.end()
        quoted = found["quoted"]
        if quoted is not None:
            yield _Token(re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL), quoted=True)
        else:
            yield _Token(found["sign"] or found["word"], quoted=False)


class _Reading:
    """Reads tokens from left to right."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    def peek(self) -> str | None:
        """The next token, unless it is quoted; None at the end."""
        if self._next == len(self._tokens):
            return None
        token = self._tokens[self._next]
        return '"' if token.quoted else token.text

    def take(self) -> _Token:
        """The next token."""
        if self._next == len(self._tokens):
            raise MalformedRequestError("the filter ends where a value or a field is missing")
        self._next += 1
        return self._tokens[self._next - 1]

    def expect(self, sign: str) -> None:
        """Take a sign that has to come."""
        found = self.take()
        if found.quoted or found.text != sign:
            raise MalformedRequestError(f"the filter has '{found.text[:100]}' where '{sign}' is missing")

    def alternatives(self, depth: int) -> Tree:
        """Terms joined by OR."""
        if depth > _DEEPEST:
            raise MalformedRequestError(f"the filter is nested deeper than {_DEEPEST}")
        parts = [self.conjunction(depth)]
        while self.peek() == "OR":
            self.take()
            parts.append(self.conjunction(depth))
        return any_of(parts)

    def conjunction(self, depth: int) -> Tree:
        """Terms joined by AND or a space."""
        parts = [self.term(depth)]
        while self.peek() not in {None, ")", "OR"}:
            if self.peek() == "AND":
                self.take()
            parts.append(self.term(depth))
        return all_of(parts)

    def term(self, depth: int) -> Tree:
        """A comparison or a group, perhaps negated."""
        token = self.take()
        if token.quoted:
            raise MalformedRequestError(
                f'the filter has the value "{token.text[:100]}" where a field is missing'
            )
        if depth > _DEEPEST:
            raise MalformedRequestError(f"the filter is nested deeper than {_DEEPEST}")
        if token.text in {"NOT", "-"}:
            return Not(self.term(depth + 1))
        if token.text.startswith("-"):
            return Not(self.comparison(token.text[1:]))
        if token.text == "(":
            inner = self.alternatives(depth + 1)
            self.expect(")")
            return inner
        return self.comparison(token.text)

    def comparison(self, field: str) -> Tree:
        """What follows a field."""
        sign = self.take()
        if sign.text == "NOT" and not sign.quoted:
            self.expect("IN")
            return compare(field, Operator.NOT_IN, self.values())
        if sign.text == "IN" and not sign.quoted:
            return compare(field, Operator.IN, self.values())
        operator = None if sign.quoted else _OPERATORS.get(sign.text)
        if operator is None:
            raise MalformedRequestError(
                f"the filter has '{sign.text[:100]}' after '{field[:100]}'; write : ~ > >= < <= IN or NOT IN"
            )
        value = self.value()
        if operator is Operator.LIKE and len(str(value)) < _SHORTEST_PART:
            raise MalformedRequestError(f"'{field[:100]}~' takes {_SHORTEST_PART} characters or more")
        return compare(field, operator, value)

    def values(self) -> list[Scalar]:
        """A list in brackets."""
        self.expect("[")
        found = [self.value()]
        while self.peek() == ",":
            self.take()
            found.append(self.value())
        self.expect("]")
        return found

    def value(self) -> Scalar:
        """A value: quoted, or a run of words and signs that a time or a version may consist of."""
        token = self.take()
        if token.quoted:
            return token.text
        if token.text in _OPERATORS or token.text in {"(", ")", "[", "]", ","}:
            raise MalformedRequestError(
                f"the filter has '{token.text}' where a value is missing; quote it if it is one"
            )
        text = token.text
        while self.peek() == ":":  # a time without quotes
            self.take()
            text = f"{text}:{self.take().text}"
        return None if text == "null" else text
