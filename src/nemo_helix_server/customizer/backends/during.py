"""What is looked at while a training runs, for every backend: early stopping, best checkpoint, ``eval``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_helix_plugin.customization.types.during import BestCheckpoint, CheckpointEvaluation, EarlyStopping
from nemo_helix_server.customizer.backends import shared
from nemo_helix_server.customizer.facts import CompileFacts
from nemo_helix_server.customizer.support import Rule
from nemo_helix_server.errors import InvalidError

SUPPORTED: Mapping[str, str] = {
    "early_stopping.metric": "early_stopping.metric",
    "early_stopping.direction": "early_stopping.best_is",
    "early_stopping.patience": "early_stopping.patience",
    "early_stopping.min_change": "early_stopping.min_change",
    "best_checkpoint.metric": "save.best_metric",
    "best_checkpoint.direction": "save.best_is",
    "best_checkpoint.publish": "save.output",
    "eval.benchmark": "evaluation.name, evaluation.metric, evaluation.folder",
    "eval.every": "evaluation.every",
    "eval.limit": "the download step's rows of the benchmark",
    "eval.device": "evaluation.device",
    "eval.prompts": "evaluation.prompts",
    "eval.batch_size": "evaluation.batch_size",
    "eval.max_new_tokens": "evaluation.max_new_tokens",
}
"""Where the fields go, see `SupportTable.supported`."""
_BLOCKS = ("early_stopping", "best_checkpoint")


def rules(given: Any, facts: CompileFacts, *, validates: bool) -> Iterator[Rule]:
    """What holds for the fields; raises `InvalidError` for a metric of no evaluation."""
    asked: CheckpointEvaluation | None = given.eval
    score = asked.metric if asked is not None else None
    if facts.machine.device == "cpu":
        yield Rule("eval.device", ("same", "cpu"), "the training has no GPU")
    if facts.evaluation is not None and facts.evaluation.kind != "benchmark" and not facts.trusted:
        reason = "a benchmark of one's own may run code, and that needs a token of the role admin"
        yield Rule("eval.benchmark", (None,), reason)
    if not validates and score is None:
        for block in _BLOCKS:
            yield Rule(block, (None,), "there are no rows to validate with")
    stopping: EarlyStopping | None = given.early_stopping
    best: BestCheckpoint | None = given.best_checkpoint
    for block, found in zip(_BLOCKS, (stopping, best), strict=True):
        metric = None if found is None else found.metric
        if metric is None or metric == score or (metric.startswith("val_") and validates):
            continue
        known = " or ".join(
            [*(["one that is validated, as 'val_loss'"] if validates else []), *_named(score)]
        )
        raise InvalidError(
            f"{block}.metric {metric!r} is of no evaluation of this training; name {known or 'none'}"
        )


def _named(score: str | None) -> list[str]:
    return [] if score is None else [f"{score!r}, the score of eval.benchmark"]


def resolve(spec: dict[str, Any], facts: CompileFacts, usual: str) -> None:
    """Fill in what is left open; ``usual`` is the metric of what is validated."""
    asked = spec["eval"] and CheckpointEvaluation.model_validate(spec["eval"])
    if asked and asked.metric and not (facts.validates or shared.split_share(spec)):
        usual = asked.metric
    stopping, best = spec["early_stopping"], spec["best_checkpoint"]
    if stopping is not None:
        stopping["metric"] = stopping["metric"] or usual
        stopping["direction"] = stopping["direction"] or direction_of(stopping["metric"])
    if best is not None:
        best["metric"] = best["metric"] or (stopping or {}).get("metric") or usual
        same = stopping is not None and stopping["metric"] == best["metric"]
        usual_direction = stopping["direction"] if same else direction_of(best["metric"])
        best["direction"] = best["direction"] or usual_direction


def direction_of(metric: str) -> str:
    """Which value of a metric is the best where nobody says it."""
    return "lowest" if "loss" in metric else "highest"


def engine_parts(spec: Mapping[str, Any], save: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of the engine spec; ``save`` holds what the backend itself says of saving."""
    stopping, best = spec["early_stopping"], spec["best_checkpoint"]
    chosen = {}
    if best is not None:
        chosen = {"best_metric": best["metric"], "best_is": best["direction"], "output": best["publish"]}
    found: dict[str, Any] = {"save": {**save, **chosen}}
    if stopping is not None:
        found["early_stopping"] = {
            "metric": stopping["metric"],
            "best_is": stopping["direction"],
            "patience": stopping["patience"],
            "min_change": stopping["min_change"],
        }
    if spec["eval"] is not None:
        asked = CheckpointEvaluation.model_validate(spec["eval"])
        taken = asked.model_dump(include={"every", "device", "prompts", "batch_size", "max_new_tokens"})
        folder = None if asked.benchmark is None else shared.EVALUATION
        found["evaluation"] = {**taken, "name": asked.name, "metric": asked.metric, "folder": folder}
    return found


def publishes(given: Any, path: str) -> Iterator[Rule]:
    """A backend's own field for the weights to publish may not say another thing."""
    best: BestCheckpoint | None = given.best_checkpoint
    if best is not None:
        yield Rule(path, (best.publish,), f"best_checkpoint.publish is {best.publish}")
