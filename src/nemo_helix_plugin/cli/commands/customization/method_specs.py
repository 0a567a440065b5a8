"""The spec of a method's command: read from file and options, its backend chosen, its references found."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from nemo_helix_plugin.body_problems import in_lines
from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.commands.customization import specs
from nemo_helix_plugin.cli.commands.customization.placing import SourcePlaces
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.customization import common_fields, sweeps, written_specs
from nemo_helix_plugin.customization.common_fields import BY_NAME
from nemo_helix_plugin.customization.written_specs import CompiledSpec, WrittenSpec

_SOURCES: Mapping[str, str] = {
    "model": "model",
    "data": "dataset",
    "validation": "dataset",
    "environment": "environment",
}
"""The fields that name things, and what kind of thing it is."""
_UPLOADS: Mapping[str, str] = {"model": "model", "dataset": "data", "environment": "environment"}


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """What somebody asked for, and which backend will do it."""

    method: str
    backend: str
    written: WrittenSpec
    beside: Path
    """The folder of the spec file, in which its relative paths are looked up."""

    def checked(self, written: WrittenSpec | None = None) -> CompiledSpec:
        """The backend's spec; `click.UsageError` names all that is wrong with what was written."""
        found = written_specs.compiled(self.method, self.backend, written or self.written)
        if found.problems:
            raise click.UsageError(f"{in_lines(found.problems)}.")
        return found

    def placed(self, call: CommandContext, given: Mapping[str, Any]) -> CompiledSpec:
        """The spec with references that the service can follow; what has to be sent is sent."""
        self.checked()
        places = SourcePlaces(call, self.beside)
        found: dict[str, Any] = {}
        uploaded = {_UPLOADS[what] for what in _UPLOADS if given.get(f"upload_{what}")}
        for name, what in _SOURCES.items():
            source = self.written.value(name)
            if source is None:
                continue
            if name in uploaded and not source.startswith("hf://"):
                found[name] = places.sent(what, Path(source).expanduser())
            elif isinstance(source, str):
                found[name] = places.reference(what, source)
            else:
                weighted = common_fields.weighted_sources(source)
                found[name] = [
                    {"data": places.reference(what, one), "weight": weight} for one, weight in weighted
                ]
        self.written.fields.update(self.written.replaced(found).fields)
        return self.checked()

    def swept(self, words: tuple[str, ...], name: str) -> list[sweeps.SweepJob]:
        """The jobs of a sweep over fields in the names that were written, each with its backend's spec."""
        try:
            axes = [sweeps.axis(word, lambda text: specs.scalar(text, "--sweep")) for word in words]
            jobs = sweeps.jobs_of({}, axes, name)
        except ValueError as error:
            raise click.UsageError(f"--sweep {error}.") from None
        return [self._of_sweep(job, number, len(jobs)) for number, job in enumerate(jobs, start=1)]

    def _of_sweep(self, job: sweeps.SweepJob, number: int, of: int) -> sweeps.SweepJob:
        written = WrittenSpec(dict(self.written.fields), list(self.written.problems))
        written.add(job.spec, lambda path: f"--sweep {'.'.join(path)}")
        output = written.value("output")
        if output is not None and not any(
            written_specs.canonical((*one.split("."),)) == "output" for one in job.values
        ):
            written = written.replaced({"output": f"{output}-{number:0{len(str(of))}}"})
        return dataclasses.replace(job, spec=self.checked(written).spec)


def read(call: CommandContext, method: str, given: dict[str, Any]) -> MethodSpec:
    """The spec that a command's options give; `click.UsageError` for what cannot be read."""
    written, beside, about = WrittenSpec(), Path(), {}
    if given["file"] is not None:
        value, text = specs.read_object(given["file"], "--spec")
        about = {key: value[key] for key in ("method", "backend") if key in value}
        written.add(value, lambda path: f"{'.'.join(path)}{specs.line_of(text, path)}")
        beside = Path() if given["file"] == "-" else Path(given["file"]).parent
    if about.get("method", method) != method:
        raise click.UsageError(
            f"{given['file']} is a spec for {about['method']}: give it to `nemo customization "
            f"{about['method']}`, or leave 'method' out of it."
        )
    _add_words(written, given["words"])
    for field in common_fields.fields_of(method):
        _add_option(written, field.name, given[field.name])
    for what, name in _UPLOADS.items():
        _add_upload(written, name, what, given.get(f"upload_{what}"))
    _read_template(written, beside)
    asked = given["backend"] or about.get("backend")
    try:
        installed = (
            None if asked or len(common_fields.METHODS[method]) == 1 else _installed(call, method, written)
        )
        backend = written_specs.chosen(method, written, installed, asked)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    return MethodSpec(method, backend, written, beside)


def _add_words(written: WrittenSpec, words: tuple[str, ...]) -> None:
    for word in words:
        path, equals, text = word.partition("=")
        parts = tuple(path.split("."))
        if not equals or not all(parts):
            raise click.UsageError(f"--set {word}: write field=value, as in learning_rate=1e-4.")
        value = specs.scalar(text, f"--set {word}")
        name = written_specs.canonical(parts)
        written.fields[name] = written_specs.WrittenField(parts, value, f"--set {path}")


def _add_option(written: WrittenSpec, name: str, value: Any) -> None:
    if value is None or value == ():
        return
    if BY_NAME[name].kind == "words":
        value = [word.strip() for word in str(value).split(",")]
    if name == "data":
        value = [_weighted(word) for word in value]
        value = value[0] if len(value) == 1 and isinstance(value[0], str) else value
    written.put(name, value, BY_NAME[name].option)


def _weighted(word: str) -> Any:
    """``SRC=WEIGHT`` as an object; a path that has such a name is that path."""
    source, equals, weight = word.rpartition("=")
    if not equals or not source or Path(word).expanduser().exists():
        return word
    try:
        return {"data": source, "weight": float(weight)}
    except ValueError:
        return word


def _read_template(written: WrittenSpec, beside: Path) -> None:
    """A chat template is named by its file, or written out."""
    value = written.value("chat_template")
    if not isinstance(value, str) or "{" in value:
        return
    found = next((path for path in (beside / value, Path(value).expanduser()) if path.is_file()), None)
    label = written.fields["chat_template"].label
    if found is None:
        raise click.UsageError(f"{label} {value}: there is no such file.")
    try:
        text = found.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise click.UsageError(f"{label} {value}: this file cannot be read as text in UTF-8.") from None
    written.fields.update(written.replaced({"chat_template": text}).fields)


def _add_upload(written: WrittenSpec, name: str, what: str, source: str | None) -> None:
    if source is None:
        return
    if name in written.fields:
        raise click.UsageError(
            f"--upload-{what}: {written.fields[name].label} names one already; give one of the two."
        )
    written.put(name, source, f"--upload-{what}")


def _installed(call: CommandContext, method: str, written: WrittenSpec) -> list[str] | None:
    """The backends whose engine the service has; the service is asked where that matters."""
    if len(written_specs.candidates(method, written)) == 1 or call.output_format == "code":
        return None
    found = record_of(call.ask(Operation("customization.health", {})))
    pairs = zip(found["contributors"], found["engines"], strict=False)
    return [backend for backend, engine in pairs if engine["installed"]]
