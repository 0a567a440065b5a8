"""JSON schemas of a backend: what goes in, what is stored, and the options besides."""

from __future__ import annotations

import copy
from typing import Any

from nemo_helix_plugin.customization import backends
from nemo_helix_plugin.customization.requests import CustomizationOptions

_STORED: dict[str, dict[str, Any]] = {
    "engine": {"type": "string", "description": "The engine that trains."},
    "device": {"enum": ["cpu", "cuda"], "description": "What it trains on."},
    "checkpoints": {
        "type": "object",
        "description": "When checkpoints are saved besides those of pauses and of the end.",
        "properties": {
            "seconds": {"type": "number"},
            "steps": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "interval": {"const": "auto"},
            "max_overhead": {"type": "number"},
            "keep": {"type": "integer"},
        },
    },
}


def input_schema(backend: str) -> dict[str, Any]:
    """The JSON schema of a backend's input spec."""
    return backends.find(backend).input_type().model_json_schema()


def output_schema(backend: str) -> dict[str, Any]:
    """The JSON schema of the stored spec: the input with every default resolved, and what was decided.

    Fields that are not supported hold null.
    """
    schema = copy.deepcopy(input_schema(backend))
    schema["title"] = schema["title"].replace("Input", "Output")
    schema["description"] = "The spec as it is stored: every default resolved for the device and shown."
    output = {
        "type": "object",
        "description": "The trained model.",
        "properties": {
            "name": {"type": "string"},
            "fileset": {"type": "string"},
            "description": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["name", "fileset"],
    }
    backend_field = {"const": backend, "type": "string"}
    schema["properties"] = {"backend": backend_field, **_STORED, **schema["properties"], "output": output}
    schema["required"] = [*schema.get("required", []), "backend", "engine", "device", "output", "checkpoints"]
    return schema


def options_schema() -> dict[str, Any]:
    """The JSON schema of ``options``."""
    return CustomizationOptions.model_json_schema()
