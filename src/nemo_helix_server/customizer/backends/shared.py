"""What the backends have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nemo_helix_server.customizer.facts import CompileFacts
from nemo_helix_server.customizer.support import Rule
from nemo_helix_server.errors import InvalidError

MODEL, ADAPTER, DATASET, VALIDATION, ENVIRONMENT, EVALUATION, BENCHMARK, OUTPUT = (
    "model",
    "adapter",
    "dataset",
    "validation_dataset",
    "environment",
    "evaluation",
    "evaluation_benchmark",
    "output_model",
)
"""Folders in the job's storage, which every step has as its working directory."""

EVERY_SECONDS = 900
"""A checkpoint at least so often, so that a failure never costs more."""

_NO_VALIDATION = "there are no rows to validate with"


def in_force(rules: Iterable[Rule], facts: CompileFacts) -> Iterator[Rule]:
    """The rules of a table that hold on this machine for this caller."""
    for rule in rules:
        holds = {**facts.machine.situations(), "untrusted": not facts.trusted}
        if holds[rule.on]:
            yield rule


def intervals(path: str, value: float | None, *, validates: bool) -> Iterator[Rule]:
    """When to validate: a number of steps, or once an epoch."""
    if not validates:
        yield Rule(path, (None,), _NO_VALIDATION)
    elif value is not None:
        whole = (value,) if value > 1 and value == int(value) else ()
        reason = "validation comes once an epoch (1) or every so many whole steps (2, 3, …)"
        yield Rule(path, (None, 1.0, *whole), reason)


def eval_steps(value: float | None) -> int | None:
    """The same as the engine has it; `None` is once an epoch."""
    return int(value) if value is not None and value > 1 else None


def devices(path: str, facts: CompileFacts) -> Iterator[Rule]:
    """As many GPUs as the machine has; without any, the number is that of processes on its processors."""
    if facts.machine.device == "cuda" and facts.machine.gpus is not None:
        count = max(1, facts.machine.gpus)
        plural = "" if count == 1 else "s"
        yield Rule(path, tuple(range(1, count + 1)), f"the machine has {count} GPU{plural}")


def layout(parallelism: Mapping[str, Any]) -> dict[str, int]:
    """The devices as the engine has them: processes on each node, and nodes where there are several."""
    nodes = int(parallelism["num_nodes"])
    several = {"nodes": nodes} if nodes > 1 else {}
    return {"count": int(parallelism["num_gpus_per_node"]), **several}


def processes(parallelism: Mapping[str, Any]) -> int:
    """All processes of a training, each with one device."""
    return int(parallelism["num_gpus_per_node"]) * int(parallelism["num_nodes"])


def without_lora(path: str) -> Rule:
    """All weights are trained."""
    return Rule(path, (None,), "all weights are trained, not adapters")


def checkpoints(facts: CompileFacts, steps: int | None = None, keep: int = 2) -> dict[str, Any]:
    """When checkpoints are saved besides those of pauses and of the end, and how many are kept."""
    given: Mapping[str, Any] = facts.options.get("checkpoints") or {}
    if given.get("interval") == "auto":
        return _chosen_while_training(given, facts, steps, keep)
    if given.get("max_overhead") is not None:
        raise InvalidError(
            "checkpoints.max_overhead is for checkpoints.interval=auto; leave it out, or give both"
        )
    return {
        "steps": given.get("steps") or steps,
        "seconds": given.get("seconds") or EVERY_SECONDS,
        "keep": max(2, given.get("keep") or keep),
    }


def _chosen_while_training(
    given: Mapping[str, Any], facts: CompileFacts, steps: int | None, keep: int
) -> dict[str, Any]:
    fixed = [f"checkpoints.{name}" for name in ("seconds", "steps") if given.get(name)]
    if steps is not None:
        fixed.append("schedule.save_steps")
    if fixed:
        raise InvalidError(
            f"{fixed[0]} and checkpoints.interval=auto both say how often to save; leave one of them out"
        )
    return {
        "interval": "auto",
        "max_overhead": given.get("max_overhead") or facts.checkpoint_max_overhead,
        "keep": max(2, given.get("keep") or keep),
    }


def engine_base(spec: Mapping[str, Any], facts: CompileFacts, method: str) -> dict[str, Any]:
    """What every engine spec has."""
    return {
        "schema": 1,
        "engine": facts.engine.name,
        "method": method,
        "backend": spec["backend"],
        "model": MODEL,
        "dataset": DATASET,
        "validation": validation_place(spec, facts),
        "output": OUTPUT,
    }


def validation_place(spec: Mapping[str, Any], facts: CompileFacts) -> str | None:
    """Where the rows to validate with will be."""
    if facts.validation is not None or split_share(spec):
        return VALIDATION
    return f"{DATASET}/{facts.validation_file}" if facts.validation_file else None


def split_share(spec: Mapping[str, Any]) -> float:
    """The share of the rows that the download step puts aside for validation."""
    schedule = spec.get("schedule")
    return float(schedule.get("validation_split") or 0.0) if isinstance(schedule, Mapping) else 0.0


def lora(given: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The named fields of a block of LoRA; the engine has the same names."""
    return {name: given[name] for name in names if given.get(name) is not None}
