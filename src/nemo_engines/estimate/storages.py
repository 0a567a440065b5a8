"""Counting the memory of tensors while a program runs, by what they are for."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class StorageTracker(TorchDispatchMode):  # type: ignore[misc]  # no types where the library is not
    """Adds up the bytes of all storages that are alive, and keeps the parts of the largest sum.

    A storage that an operation makes counts as ``part`` until it is said to be something else. Tensors may be
    fake: then nothing is computed and nothing is allocated, and the count is that of a real run.
    """

    def __init__(self) -> None:
        super().__init__()
        self.part = "activations"
        self.peak: dict[str, int] = {}
        self._alive: dict[int, tuple[str, int]] = {}
        self._sums: dict[str, int] = {}

    def count(self, tensor: torch.Tensor, part: str) -> None:
        """Count a tensor's storage as ``part``, whatever it was before."""
        storage = tensor.untyped_storage()
        key, size = _key(tensor), storage.nbytes()
        if key in self._alive:
            before, size = self._alive[key]
            self._sums[before] -= size
        else:
            weakref.finalize(storage, self._forget, key)
        self._alive[key] = (part, size)
        self._sums[part] = self._sums.get(part, 0) + size
        if sum(self._sums.values()) > sum(self.peak.values()):
            self.peak = dict(self._sums)

    def _forget(self, key: int) -> None:
        part, size = self._alive.pop(key)
        self._sums[part] -= size

    def __torch_dispatch__(  # type: ignore[no-untyped-def]
        self,
        func: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ):
        """Run an operation, and count what it made."""
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and _key(tensor) not in self._alive:
                self.count(tensor, self.part)
        return result


def _key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 - what a storage is known by
