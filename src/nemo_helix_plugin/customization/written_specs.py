"""A spec as somebody wrote it, in common names or in those of any backend, and the backend's spec made of it.

Pure: nobody is asked, and no file is read. What is wrong is said in the names that were written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nemo_helix_plugin.body_problems import body_problems
from nemo_helix_plugin.customization import backends, common_fields
from nemo_helix_plugin.customization.common_fields import Path
from nemo_runs import suggestions

_ABOUT = frozenset({"method", "backend"})
"""Keys of a spec file that say what it is for."""


class WrittenField(NamedTuple):
    """One field as it was written."""

    path: Path
    value: Any
    label: str
    """How messages name it: ``learning_rate (line 3)``, or the option that gave it."""


@dataclass(frozen=True, slots=True)
class WrittenSpec:
    """Fields by what they mean; later layers win over earlier ones."""

    fields: dict[str, WrittenField] = field(default_factory=dict)
    """By common name, or by dotted path where a field has none."""
    problems: list[str] = field(default_factory=list)

    def add(self, value: Mapping[str, Any], label: Callable[[Path], str]) -> None:
        """A layer: an object as it was written; ``label`` is given the path of a field."""
        new: dict[str, WrittenField] = {}
        for path, leaf in _leaves(value):
            if len(path) == 1 and path[0] in _ABOUT:
                continue
            name = canonical(path)
            if name in new:
                self.problems.append(f"{label(path)} says the same as {new[name].label}; give one of the two")
            new[name] = WrittenField(path, leaf, label(path))
        self.fields.update(new)

    def put(self, name: str, value: Any, label: str) -> None:
        """One field by its common name, as an option gives it."""
        self.fields[name] = WrittenField((name,), value, label)

    def value(self, name: str) -> Any:
        """The value of a common field; `None` where nobody wrote it."""
        found = self.fields.get(name)
        return found.value if found else None

    def replaced(self, values: Mapping[str, Any]) -> WrittenSpec:
        """The same with other values of some common fields."""
        changed = dict(self.fields)
        for name, value in values.items():
            before = changed.get(name) or WrittenField((name,), None, name)
            changed[name] = before._replace(value=value)
        return WrittenSpec(changed, list(self.problems))


class CompiledSpec(NamedTuple):
    """A backend's spec, and what each of its fields is called where it was written."""

    backend: str
    spec: dict[str, Any]
    labels: Mapping[Path, str]
    problems: tuple[str, ...]

    def label(self, path: Sequence[str]) -> str:
        """What messages call a field of the backend's spec."""
        for length in range(len(path), 0, -1):
            known = self.labels.get(tuple(path[:length]))
            if known is not None:
                return ".".join([known, *path[length:]])
        dotted = ".".join(path)
        return common_fields.aliases().get(dotted, dotted)

    def renamed(self, text: str) -> str:
        """A message of the service with its names of fields as they were written."""
        for path, label in sorted(self.labels.items(), key=lambda one: -len(one[0])):
            dotted = ".".join(path)
            # one word is a field only where a message begins with it
            end = r"(?![\w]|\.\w)" if len(path) > 1 else "(?=: )"
            text = re.sub(rf"(?<![\w./]){re.escape(dotted)}{end}", label.replace("\\", r"\\"), text)
        return text


def canonical(path: Path) -> str:
    """The common name of what a path means in any backend's spec, or the dotted path itself."""
    dotted = ".".join(path)
    return dotted if dotted in common_fields.BY_NAME else common_fields.aliases().get(dotted, dotted)


def candidates(method: str, written: WrittenSpec) -> tuple[str, ...]:
    """The backends that have a place for every field that was written; all of the method's where none has."""
    able = common_fields.METHODS[method]
    found = tuple(backend for backend in able if not _without_place(backend, written))
    return found or able


def _without_place(backend: str, written: WrittenSpec) -> list[str]:
    return [
        name
        for name in written.fields
        if name in common_fields.BY_NAME and common_fields.place(name, backend) is None
    ] + [
        name
        for name, one in written.fields.items()
        if name not in common_fields.BY_NAME
        and len(one.path) > 1
        and _known_top(one.path[0])
        and one.path[0] not in backends.find(backend).input_type().model_fields
    ]


def _known_top(name: str) -> bool:
    return any(name in backends.find(one).input_type().model_fields for one in backends.BUILT_IN)


def compiled(method: str, backend: str, written: WrittenSpec) -> CompiledSpec:
    """The backend's spec, with everything that is wrong with what was written."""
    problems = list(written.problems)
    spec = common_fields.beginning(method, backend)
    labels: dict[Path, str] = {}
    whole = _with_defaults(method, backend, written)
    micro = whole.value("micro_batch_size")
    for name, one in whole.fields.items():
        refusal = _unknown(method, backend, name, one)
        if refusal:
            problems.append(f"{one.label}: {refusal}")
            continue
        path = (common_fields.place(name, backend) if name in common_fields.BY_NAME else None) or one.path
        try:
            if name == "data" and not isinstance(one.value, str | None):
                _put_mixture(spec, path, one.value)
            else:
                _put(spec, path, common_fields.value_for(backend, name, one.value, micro))
        except ValueError as error:
            problems.append(f"{one.label}: {error}")
        labels[path] = one.label
    found = CompiledSpec(backend, spec, labels, ())
    for problem in body_problems(backends.find(backend).input_type(), spec):
        text, label = found.renamed(problem.text), found.label(problem.path)
        said = f"{label}: {text}" if problem.path else text
        if not (problem.path and any(known.startswith(f"{label}: ") for known in problems)):
            problems.append(said)
    return found._replace(problems=tuple(problems))


def _with_defaults(method: str, backend: str, written: WrittenSpec) -> WrittenSpec:
    finetuning = written.value("finetuning") or common_fields.DEFAULTS[method]["finetuning"]
    found = WrittenSpec(problems=written.problems)
    for name, value in common_fields.defaults(method, backend, written.fields, finetuning).items():
        found.put(name, value, name)
    found.fields.update(written.fields)
    return found


def _unknown(method: str, backend: str, name: str, one: WrittenField) -> str | None:
    """Why a field cannot be for this job; `None` where it can."""
    known = common_fields.BY_NAME.get(name)
    if known is not None:
        if method not in known.methods:
            return f"it is not for {method}; {' and '.join(known.methods)} {_have(known.methods)} it"
        if backend not in known.places:
            return f"the backend {backend} has no such field; {' and '.join(known.places)} has it"
        return None
    if one.path[0] in backends.find(backend).input_type().model_fields:
        return None
    theirs = common_fields.ELSEWHERE.get(one.path[-1])
    if theirs is not None:
        return f"there is no such field{suggestions.did_you_mean(theirs)}"
    names = [field.name for field in common_fields.fields_of(method)]
    tops = backends.find(backend).input_type().model_fields
    return f"there is no such field{suggestions.suggestion(one.path[0], [*names, *tops])}"


def _have(methods: Sequence[str]) -> str:
    return "has" if len(methods) == 1 else "have"


def chosen(method: str, written: WrittenSpec, installed: Iterable[str] | None, asked: str | None) -> str:
    """The backend for a method: the one asked for, or the first of those that fit that is installed.

    ``installed`` are the backends whose engine is there; `None`: that is not known. Raises `ValueError` in
    one sentence where the one asked for cannot do the method.
    """
    able = common_fields.METHODS[method]
    if asked is not None:
        if asked not in able:
            raise ValueError(f"the backend {asked} does not do {method}; {' and '.join(able)} can")
        return asked
    fitting = candidates(method, written)
    there = set(installed or ())
    return next((backend for backend in fitting if backend in there), fitting[0])


def _leaves(value: Mapping[str, Any], where: Path = ()) -> Iterator[tuple[Path, Any]]:
    for key, inner in value.items():
        path = (*where, str(key))
        if isinstance(inner, Mapping) and inner:
            yield from _leaves(inner, path)
        else:
            yield path, inner


def _put_mixture(spec: dict[str, Any], path: Path, value: Any) -> None:
    (first, weight), *others = common_fields.weighted_sources(value)
    _put(spec, path, first)
    if weight != 1:
        _put(spec, ("rows", "weight"), weight)
    if others:
        _put(spec, ("rows", "beside"), dict(others))


def _put(spec: dict[str, Any], path: Path, value: Any) -> None:
    inner = spec
    for part in path[:-1]:
        below = inner.setdefault(part, {})
        if not isinstance(below, dict):
            raise ValueError(f"{part} holds no object to put it in")  # noqa: TRY004 - what was typed is wrong
        inner = below
    inner[path[-1]] = value
