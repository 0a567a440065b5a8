"""Small submit files for the tests of this folder."""

import copy
from pathlib import Path
from typing import Any

import yaml

from nemo_gym.orchestration.config.resolve import to_yaml

BASE: dict[str, Any] = {
    "services": {
        "policy": {"type": "command", "command": "serve --port {port}", "model_name": "tiny"},
    },
    "compute": {"here": {"type": "local"}},
    "driver": {
        "policy_model": "policy",
        "benchmarks": {"sums": {"run": {"config_paths": ["sums.yaml"]}}},
    },
    "job": {"output_path": "runs"},
}

SUMS = {
    "benchmark": {
        "name": "sums",
        "datasets": {"benchmark": {"jsonl_fpath": "rows.jsonl"}},
        "prompt": {"user": "{question}"},
        "verifier": {"type": "match"},
    }
}

VLLM = {"type": "vllm", "model": "org/model"}


def changed(changes: dict[str, Any], base: dict[str, Any] = BASE) -> dict[str, Any]:
    """The base with dotted paths set; a value of ``...`` removes the key."""
    config = copy.deepcopy(base)
    for path, value in changes.items():
        *parents, last = path.split("/")
        node = config
        for name in parents:
            node = node.setdefault(name, {})
        if value is ...:
            node.pop(last, None)
        else:
            node[last] = value
    return config


def write(folder: Path, changes: dict[str, Any] | None = None, *, name: str = "submit.yaml") -> Path:
    """A submit file in the folder, with a benchmark and its data beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sums.yaml").write_text(yaml.safe_dump(SUMS))
    (folder / "rows.jsonl").write_text('{"question": "1 + 1?", "expected_answer": "2"}\n')
    path = folder / name
    path.write_text(to_yaml(changed(changes or {})))
    return path
