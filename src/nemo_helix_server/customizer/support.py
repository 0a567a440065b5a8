"""Support or refuse: no field of an input spec is ever ignored.

A backend's support table has a `Rule` for every field of which not every value is supported. A value that
somebody set and that is not supported is refused, with the field's dotted name and the reason. A default that
is not supported becomes what is done instead, and the stored spec shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from nemo_helix_plugin.body_problems import in_lines
from nemo_helix_server.customizer import paths
from nemo_helix_server.errors import InvalidError

On = Literal["any", "cpu", "one node", "untrusted"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What can be done of one field."""

    path: str
    """Dotted; a rule about a block is about all that is in it."""
    allowed: tuple[Any, ...]
    """Values that are done; the first is the value when nobody set the field."""
    reason: str
    """Why no other value is; goes after "because"."""
    on: On = "any"
    """Where it holds: everywhere, on machines without GPUs, where a step gets one node, or for callers who
    may not run code."""

    def allows(self, value: Any) -> bool:
        """Whether a value can be done."""
        return any(
            value == known and isinstance(value, bool) == isinstance(known, bool) for known in self.allowed
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportTable:
    """Every field of one kind of job: what becomes of it, and which of its values are refused."""

    kind: str
    """The kind of job: the backend's name, or the value of ``training.type``."""
    title: str
    """Its heading in the reference."""
    supported: Mapping[str, str]
    """Dotted field → where it goes: a field of the engine spec, or something else of the job."""
    rules: tuple[Rule, ...]


class SpecRefusedError(InvalidError):
    """Everything that is not right with a spec, at once."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(in_lines(problems))
        self.problems = tuple(problems)


def refusals(model: BaseModel, rules: Iterable[Rule]) -> list[str]:
    """A sentence for each field that somebody set and that cannot be done; of a block none for its fields."""
    by_path: dict[str, list[Rule]] = {}
    for rule in rules:
        by_path.setdefault(rule.path, []).append(rule)
    found: dict[str, str] = {}
    for path, value in paths.given(model):
        if any(path.startswith(f"{block}.") for block in found):
            continue
        for rule in by_path.get(path, ()):
            if not rule.allows(value):
                found.setdefault(path, refusal(rule, value))
    return list(found.values())


def refusal(rule: Rule, value: Any) -> str:
    """The sentence about a field."""
    shown = "" if isinstance(value, BaseModel | Mapping | list) else f" {_shown(value)}"
    alone = rule.allowed == (None,)
    others = " or ".join(_shown(known) for known in rule.allowed if known is not None)
    remedy = "leave it out" if alone or not others else f"leave it out, or give {others}"
    return f"{rule.path}{shown} is not supported, because {rule.reason}; {remedy}"


def resolve(spec: dict[str, Any], rules: Iterable[Rule]) -> None:
    """Put what is done in the place of every value that is not; nobody has set those."""
    for rule in rules:
        if paths.is_there(spec, rule.path) and not rule.allows(paths.look(spec, rule.path)):
            paths.put(spec, rule.path, rule.allowed[0])


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str) else str(value)
