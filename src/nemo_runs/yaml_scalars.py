"""What a plain scalar of YAML is, for every file that people write: the core schema of YAML 1.2, nearly.

Libraries still read YAML 1.1, in which ``1e-4`` is text, ``no`` a truth value, ``2026-01-02`` a date and
``010`` is eight. Here only ``true`` and ``false`` are truth values, ``1e-4`` is a number, and dates, times,
``007`` and ``1_000`` are text. PyYAML's loaders are given these rules; this module does not import it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

BOOL = "tag:yaml.org,2002:bool"
INT = "tag:yaml.org,2002:int"
FLOAT = "tag:yaml.org,2002:float"
_MAP, _MERGE = "tag:yaml.org,2002:map", "tag:yaml.org,2002:merge"
_REPLACED = {BOOL, INT, FLOAT, "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}

RULES = (
    (INT, re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|0|[1-9][0-9]*)$"), "-+0123456789"),
    (
        FLOAT,
        re.compile(
            r"[-+]?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+"
            r"|\.[0-9]+(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))$|\.(?:nan|NaN|NAN)$"
        ),
        "-+0123456789.",
    ),
    (BOOL, re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"),
)
"""Tag, pattern, and the characters that a scalar of that kind begins with."""


def give_rules(loader: Any) -> None:
    """Let a loader class of PyYAML resolve plain scalars by `RULES`; its parent goes on as it was."""
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in rules if tag not in _REPLACED]
        for first, rules in loader.yaml_implicit_resolvers.items()
    }
    for tag, pattern, first in RULES:
        loader.add_implicit_resolver(tag, pattern, list(first))
    loader.add_constructor(FLOAT, lambda _loader, node: number(node.value))


def refuse_repeated_keys(loader: Any, error: Callable[..., Exception]) -> None:
    """Let a loader class of PyYAML refuse a key that a mapping has twice; the last would win without a word.

    ``error`` is ``yaml.MarkedYAMLError``, which is raised with the line of the second one.
    """
    construct = loader.yaml_constructors[_MAP]

    def construct_checked(self: Any, node: Any) -> Any:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key.value, str) or key.tag == _MERGE:
                continue
            if (key.tag, key.value) in seen:
                problem = f"the key {key.value} is here a second time; leave one of them out"
                raise error(problem=problem, problem_mark=key.start_mark)
            seen.add((key.tag, key.value))
        return construct(self, node)

    loader.add_constructor(_MAP, construct_checked)


def number(text: str) -> float:
    """The float of a text as YAML writes it, ``.inf`` and ``.nan`` too."""
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
