"""How long a training will take: by how fast earlier ones were, or else a wide range."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nemo_engines.estimate.sizes import TrainingSizes
from nemo_engines.flops import flops_per_token
from nemo_engines.spec import EngineSpec

_UNMEASURED: Final[Mapping[str, tuple[float, float]]] = {"cpu": (2e9, 2e11), "cuda": (1e13, 6e14)}
"""Operations a second of one process that nobody has measured: from the slowest to the fastest device of its
kind that trains (one old core to many new ones; a GPU of 2018 at 20 % to one of 2025 at 40 % of its peak)."""
_SPREAD: Final = 1.5
"""By how much a measured speed may be wrong for another length of rows or another model."""


def training_seconds(
    spec: EngineSpec,
    sizes: TrainingSizes,
    *,
    device: str,
    parameters: int,
    trained: int,
    measured: Sequence[float] = (),
) -> dict[str, Any]:
    """``shortest`` and ``longest`` in seconds, and ``measured_on``: how many trainings that is known from.

    ``measured``: operations a second that earlier trainings reached with this engine on such a device. The
    time to load the libraries and to save is not in it.
    """
    tokens = sizes.mean_tokens * sizes.rows_per_step * sizes.steps
    needed = tokens * flops_per_token(spec, parameters, trained)
    processes = spec.devices.count * spec.devices.nodes
    if measured:
        middle = statistics.median(measured)
        slowest, fastest = min(*measured, middle / _SPREAD), max(*measured, middle * _SPREAD)
    else:
        slowest, fastest = _UNMEASURED[device]
    return {
        "shortest": needed / (fastest * processes),
        "longest": needed / (slowest * processes),
        "measured_on": len(measured),
    }
