"""Several data sets as one: each with a weight, in an order that depends on the seed and the rows alone.

The mixture is a list of rows before anything is trained. So a training that goes on has the same rows in the
same order, as one with a single file has.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nemo_engines.data.rows import Dataset, Rows, Shape, read_for
from nemo_engines.errors import BadSpecError
from nemo_engines.spec import EngineSpec


class WeightedDataset(NamedTuple):
    """A data set, and how often its rows come."""

    data: Dataset
    weight: float
    """1: each row once an epoch; 2: twice; 0.5: half of the rows, always the same ones."""


class MixedRows(Rows):
    """Rows of several files."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.files: list[Path] = []
        """The file of each row."""

    def place(self, index: int) -> str:
        """File and line of a row."""
        return f"{self.files[index]}, line {self.lines[index]}"

    def label(self, index: int) -> str:
        """What lists of rows call one."""
        return f"{self.files[index].name}:{self.lines[index]}"


def read_weighted(spec: EngineSpec, shape: Shape | None = None) -> list[WeightedDataset]:
    """The training data of a spec, each data set for itself; the one that ``dataset`` names comes first."""
    found = [WeightedDataset(read_for(spec, Path(spec.dataset), "training", shape), spec.data.weight)]
    for source in spec.data.beside or ():
        found.append(WeightedDataset(read_for(spec, Path(source.dataset), "training", shape), source.weight))
    return found


def chosen(counts: Sequence[int], weights: Sequence[float], seed: int) -> list[tuple[int, int]]:
    """The rows of a mixture, each as the number of its data set and its own number there.

    The rows of a data set are in their order, whole passes first; which ones a part of a pass has depends on
    the seed, the data set's number and its rows alone.
    """
    found: list[tuple[int, int]] = []
    for number, (count, weight) in enumerate(zip(counts, weights, strict=True)):
        passes = int(weight)
        part = round((weight - passes) * count)
        rows = [*range(count)] * passes
        rows += sorted(random.Random(f"{seed} {number}").sample(range(count), part))
        if not rows:
            raise BadSpecError(
                f"the weight {weight:g} takes none of the {count} rows of data set {number + 1}: raise it"
            )
        found += [(number, row) for row in rows]
    return found


def mixed(sets: Sequence[WeightedDataset], seed: int) -> Dataset:
    """One data set of several; of a single one with weight 1 it is that one."""
    if len(sets) == 1 and sets[0].weight == 1:
        return sets[0].data
    first = sets[0].data
    rows = MixedRows(first.file)
    picked = chosen([len(one.data.rows) for one in sets], [one.weight for one in sets], seed)
    for number, index in picked:
        data = sets[number].data
        rows.append(data.rows[index])
        rows.lines.append(data.rows.lines[index])
        rows.files.append(data.file)
    unused: dict[str, int] = {}
    for one in sets:
        for key, count in one.data.unused.items():
            unused[key] = unused.get(key, 0) + count
    parts = "; ".join(f"{one.data.identity} x {one.weight:g}" for one in sets)
    order = hashlib.sha256(repr(picked).encode()).hexdigest()[:12]
    return Dataset(first.file, rows, f"{parts}; order {order}", unused)
