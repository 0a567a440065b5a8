"""Facts and inputs for compiling: one small valid input of each kind, and a value other than the default for
every field."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from nemo_helix_server.customizer.backends import registry
from nemo_helix_server.customizer.backends.base import Backend
from nemo_helix_server.customizer.facts import CompileFacts, EngineFacts, InputSource, TrainingMachine

REWARDS = {"benchmark": {"prompt": {"user": "{question}"}, "verifier": {"type": "match", "mode": "numeric"}}}
KINDS = ("automodel", "unsloth", "dpo", "grpo")
MINIMAL: dict[str, dict[str, Any]] = {
    "automodel": {"model": "lab/base", "dataset": {"training": "lab/sums"}},
    "unsloth": {"model": {"name": "lab/base"}, "dataset": {"path": "lab/sums"}},
    "dpo": {"model": "lab/base", "dataset": "lab/pairs", "training": {"type": "dpo"}},
    "grpo": {
        "model": "lab/base",
        "dataset": "lab/sums",
        "environment": "lab/arithmetic",
        "training": {"type": "grpo"},
    },
}


def backend_of(kind: str) -> Any:
    return "rl" if kind in {"dpo", "grpo"} else kind


def backend(kind: str) -> Backend:
    return registry.find(backend_of(kind))


def source(name: str, *files: str) -> InputSource:
    return InputSource("fileset", f"/filesets/{name}", name, files or ("train.jsonl",))


def facts(kind: str = "automodel", *, device: Any = "cpu", gpus: int = 1, **changes: Any) -> CompileFacts:
    engine = {"automodel": "automodel", "unsloth": "unsloth"}.get(kind, "trl")
    given: dict[str, Any] = {
        "machine": TrainingMachine(device, gpus if device == "cuda" else 0),
        "engine": EngineFacts(engine, f"/engines/{engine}/bin/python", {"PYTHONPATH": "/sources"}, "digest"),
        "model": source("lab/base", "config.json"),
        "dataset": source("lab/sums"),
        "environment": source("lab/arithmetic", "manifest.yaml") if kind == "grpo" else None,
        "rewards": REWARDS if kind == "grpo" else None,
        "job_name": f"{backend_of(kind)}-a1b2c3d4e5f6",
        "digits": "a1b2c3d4e5f6",
        "files_root": "/filesets",
    }
    return CompileFacts(**{**given, **changes})


def parsed(kind: str, spec: dict[str, Any]) -> BaseModel:
    return backend(kind).description.input_type().model_validate(spec)


def with_value(kind: str, path: str, value: Any) -> dict[str, Any]:
    """The minimal input with one field set."""
    spec = copy.deepcopy(MINIMAL[kind])
    *parents, last = path.split(".")
    inner = spec
    for part in parents:
        inner = inner.setdefault(part, {})
    inner[last] = value
    return spec


def leaves(model: type[BaseModel], kind: str, where: str = "") -> Iterator[str]:
    """The dotted path of every field of a model that holds no model itself."""
    for name, field in model.model_fields.items():
        path = f"{where}.{name}" if where else name
        inner = [one for one in _models(field.annotation) if kind not in {"dpo", "grpo"} or _fits(one, kind)]
        if inner:
            for one in inner:
                yield from leaves(one, kind, path)
        else:
            yield path


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [one for part in getattr(annotation, "__args__", ()) for one in _models(part)]


def _fits(model: type[BaseModel], kind: str) -> bool:
    known = model.model_fields.get("type")
    return known is None or kind in getattr(known.annotation, "__args__", ())
