"""What is looked at while a training runs, for every backend: early stopping and the best checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_helix_plugin.customization.types.during import BestCheckpoint, EarlyStopping
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
}
"""Where the fields go, see `SupportTable.supported`."""
_BLOCKS = ("early_stopping", "best_checkpoint")


def rules(given: Any, *, validates: bool) -> Iterator[Rule]:
    """What holds for the fields; raises `InvalidError` for a metric of no evaluation."""
    if not validates:
        for block in _BLOCKS:
            yield Rule(block, (None,), "there are no rows to validate with")
    stopping: EarlyStopping | None = given.early_stopping
    best: BestCheckpoint | None = given.best_checkpoint
    for block, found in zip(_BLOCKS, (stopping, best), strict=True):
        metric = None if found is None else found.metric
        if metric is not None and not metric.startswith("val_"):
            raise InvalidError(
                f"{block}.metric {metric!r} is of no evaluation; name one that is validated, as 'val_loss'"
            )


def resolve(spec: dict[str, Any], usual: str) -> None:
    """Fill in what is left open; ``usual`` is the metric of what is validated."""
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
    return found


def publishes(given: Any, path: str) -> Iterator[Rule]:
    """A backend's own field for the weights to publish may not say another thing."""
    best: BestCheckpoint | None = given.best_checkpoint
    if best is not None:
        yield Rule(path, (best.publish,), f"best_checkpoint.publish is {best.publish}")
