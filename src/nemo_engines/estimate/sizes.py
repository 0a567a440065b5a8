"""Rows, batches and steps of a training, from its spec and the lengths of its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nemo_engines.spec import EngineSpec


@dataclass(frozen=True, slots=True)
class TrainingSizes:
    """How much is trained, and in which pieces."""

    rows: int
    """Rows of which something is learned."""
    mean_tokens: float
    """Of a row, after it is cut; of a pair both answers together, each with its prompt."""
    longest_tokens: int
    """Of the longest sequence, after it is cut; with the answer to be written, for GRPO."""
    sequences: int
    """That one device works on at once: the rows of a micro-batch, of pairs twice as many."""
    micro_batches: int
    """Of one optimizer step, on each device."""
    rows_per_step: int
    """Of one optimizer step, on all devices."""
    steps: int
    """Optimizer steps of the whole training."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def training_sizes(spec: EngineSpec, lengths: Sequence[int], tokens: Sequence[int]) -> TrainingSizes:
    """The sizes; ``lengths`` are those of the longest sequence of each row, ``tokens`` all that it has.

    The number of steps is that of transformers' ``Trainer`` (``set_initial_training_values``): batches of an
    epoch rounded up, in groups of ``gradient_accumulation`` rounded up.
    """
    batch, processes = spec.batch, spec.devices.count * spec.devices.nodes
    rows = len(lengths)
    answer = spec.grpo.max_new_tokens if spec.method == "grpo" else 0
    pieces = rows
    if batch.packing:
        pieces = math.ceil(sum(tokens) / spec.max_seq_length)
    batches = math.ceil(pieces / (batch.per_device * processes))
    if spec.method == "grpo":
        batches = _generated_batches(spec, rows, processes)
    per_epoch = max(1, math.ceil(batches / batch.gradient_accumulation))
    longest = spec.max_seq_length if batch.packing else max(lengths, default=0)
    return TrainingSizes(
        rows=rows,
        mean_tokens=sum(tokens) / rows + answer if rows else 0.0,
        longest_tokens=longest + answer,
        sequences=batch.per_device * (2 if spec.method == "dpo" else 1),
        micro_batches=batch.gradient_accumulation,
        rows_per_step=batch.per_device * batch.gradient_accumulation * processes,
        steps=spec.schedule.max_steps or math.ceil(spec.schedule.epochs * per_epoch),
    )


def _generated_batches(spec: EngineSpec, rows: int, processes: int) -> int:
    """Micro-batches of an epoch of GRPO: each prompt is answered several times, each answer learned from."""
    feeds = spec.grpo.steps_per_generation or spec.batch.gradient_accumulation
    prompts = max(1, spec.batch.per_device * feeds * processes // spec.grpo.num_generations)
    return (rows // prompts) * feeds * spec.grpo.num_iterations
