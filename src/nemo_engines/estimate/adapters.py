"""Low-rank adapters on a model without weights: of the sizes that the engines' libraries give them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nemo_engines.errors import BadSpecError
from nemo_engines.inputs import ADAPTER_CONFIG
from nemo_engines.sections import Lora


class AdaptedLinear(nn.Module):  # type: ignore[misc]  # no types where the library is not
    """A frozen linear layer, and beside it a product of two thin matrices (Hu et al. 2021, "LoRA")."""

    def __init__(self, frozen: nn.Linear, lora: Lora) -> None:
        super().__init__()
        self.frozen = frozen
        self.drop = nn.Dropout(lora.dropout) if lora.dropout else nn.Identity()
        self.down = nn.Linear(frozen.in_features, lora.rank, bias=False)
        self.up = nn.Linear(lora.rank, frozen.out_features, bias=False)
        self.scale = lora.alpha / lora.rank
        self.active = True

    @property
    def weight(self) -> torch.Tensor:
        """That of the frozen layer, which models look at."""
        return self.frozen.weight

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """The layer's output and, while the adapter is on, its own."""
        found: torch.Tensor = self.frozen(values)
        if not self.active:
            return found
        own = self.up(self.down(self.drop(values.to(self.down.weight.dtype)))) * self.scale
        return found + own.to(found.dtype)


def lora_of(folder: Path) -> Lora:
    """The shape of an adapter that is there, of its configuration; `BadSpecError` for what is none."""
    try:
        found = json.loads((folder / ADAPTER_CONFIG).read_bytes())
        modules = found["target_modules"]
        return Lora(
            rank=int(found["r"]),
            alpha=float(found["lora_alpha"]),
            dropout=float(found.get("lora_dropout") or 0.0),
            target_modules=tuple(modules) if isinstance(modules, list) else None,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadSpecError(f"{folder / ADAPTER_CONFIG}: it does not describe an adapter") from error


def add(model: Any, lora: Lora) -> None:
    """Freeze a model and put adapters on it where the spec says, or on all linear layers but the output's."""
    model.requires_grad_(False)
    output = model.get_output_embeddings()
    for name, module in list(model.named_modules()):
        if lora.modules_to_save and name.rpartition(".")[2] in lora.modules_to_save:
            module.requires_grad_(True)
        if isinstance(module, nn.Linear) and module is not output and _chosen(name, lora):
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, AdaptedLinear(module, lora))
    # the embeddings' output carries gradients where layers are computed again in the backward pass
    model.enable_input_require_grads()


def _chosen(name: str, lora: Lora) -> bool:
    def among(wanted: tuple[str, ...] | None) -> bool:
        return any(name == one or name.endswith(f".{one}") for one in wanted or ())

    return (lora.target_modules is None or among(lora.target_modules)) and not among(lora.exclude_modules)


@contextlib.contextmanager
def off(model: nn.Module) -> Iterator[None]:
    """Compute without adapters, as for a reference."""
    found = [module for module in model.modules() if isinstance(module, AdaptedLinear)]
    for module in found:
        module.active = False
    try:
        yield
    finally:
        for module in found:
            module.active = True


def frozen_weights(model: nn.Module) -> Iterator[torch.Tensor]:
    """The weights below adapters."""
    for module in model.modules():
        if isinstance(module, AdaptedLinear):
            yield module.frozen.weight
