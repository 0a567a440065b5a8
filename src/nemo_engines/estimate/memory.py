"""The memory of a training's step, found by doing one with tensors that have sizes and no values.

The model is built of its configuration alone, on PyTorch's ``meta`` device, and its parameters become fake
tensors (``torch._subclasses.fake_tensor``), for which every operation works out sizes and types and computes
nothing. Then the optimizer makes its state, and one step runs: the engine's own loss, the backward pass and
the optimizer. `StorageTracker` adds up what is alive meanwhile. So no formula of an architecture is needed,
and what a library keeps for the backward pass, or copies on its way, is counted as it is.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoConfig, AutoModelForCausalLM

from nemo_engines.estimate import adapters, losses
from nemo_engines.estimate.sizes import TrainingSizes
from nemo_engines.estimate.storages import StorageTracker
from nemo_engines.spec import EngineSpec

PARTS: Final = ("weights", "gradients", "optimizer", "activations", "workspace")
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
_CONTEXT: Final = 500_000_000
"""Bytes of a CUDA context with the libraries' kernels and workspaces, which no tensor shows."""
_KEPT: Final = {"full": ("total", 0.06), "lora": ("activations", 0.87)}
"""What a process on a CPU has besides its tensors, as a share of a part of them: pages of the C library's
heap that cannot go back to the system, since small tensors that stay (those of adapters above all) lie
between large ones that have gone. Measured by ``bench/training_memory.py``."""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes on one device at the moment when they are most."""

    parts: dict[str, int]
    """By `PARTS`."""
    lower_bound: int
    """Weights, gradients and the optimizer's state, which exist together at each of its steps whatever the
    rows are: with less it cannot work."""
    parameters: int
    trained: int

    @property
    def total(self) -> int:
        """All parts together."""
        return sum(self.parts.values())


def estimated_memory(
    spec: EngineSpec, sizes: TrainingSizes, *, device: str, precision: str
) -> tuple[MemoryEstimate, Any]:
    """The estimate for one device, and the model without weights that it was made with."""
    fake, tracker = FakeTensorMode(), StorageTracker()
    model, reference = _models(spec, precision)
    for one in (model, reference):
        if one is not None:
            _make_fake(one, fake)
            for tensor in (*one.parameters(), *one.buffers()):
                tracker.count(tensor, "weights")
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.register_post_accumulate_grad_hook(lambda one: tracker.count(one.grad, "gradients"))
    with fake, _computing(precision):
        state = _run(spec, sizes, model, reference, trained, tracker)
    parts = {part: tracker.peak.get(part, 0) for part in PARTS}
    parts["weights"] -= _saved_by_quantizing(spec, model)
    kept_of, share = _KEPT[spec.finetuning]
    kept = int(share * parts.get(kept_of, sum(parts.values())))
    parts["workspace"] += _CONTEXT if device == "cuda" else kept
    gradients = sum(parameter.numel() * parameter.element_size() for parameter in trained)
    found = MemoryEstimate(
        parts=parts,
        lower_bound=parts["weights"] + gradients + state,
        parameters=sum(one.numel() for one in model.parameters()),
        trained=sum(one.numel() for one in trained),
    )
    return found, model


def _models(spec: EngineSpec, precision: str) -> tuple[Any, Any]:
    """The model with its adapters, and the reference that DPO and GRPO keep beside whole weights."""
    config = AutoConfig.from_pretrained(spec.model, trust_remote_code=spec.trust_remote_code)
    dtype = torch.float32 if spec.finetuning == "full" else _DTYPES[precision]
    options: dict[str, Any] = {"dtype": dtype, "trust_remote_code": spec.trust_remote_code}
    if spec.attn_implementation in ("eager", "sdpa"):
        options["attn_implementation"] = spec.attn_implementation
    penalized = spec.method == "dpo" or (spec.method == "grpo" and bool(spec.grpo.kl_penalty))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, **options)
        reference = None
        if spec.finetuning == "lora":
            adapters.add(model, adapters.lora_of(Path(spec.adapter)) if spec.adapter else spec.lora)
        elif penalized:
            reference = AutoModelForCausalLM.from_config(config, **options).requires_grad_(False)
    model.train()
    if spec.activation_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model, reference


def _make_fake(model: nn.Module, fake: FakeTensorMode) -> None:
    """Replace the tensors of a model on ``meta`` by fake ones of a CPU; tied ones stay tied."""
    made: dict[int, torch.Tensor] = {}

    def new(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in made:
            empty = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
            is_parameter = isinstance(tensor, nn.Parameter)
            made[id(tensor)] = nn.Parameter(empty, tensor.requires_grad) if is_parameter else empty
        return made[id(tensor)]

    with fake:
        for module in model.modules():
            for tensors in (module._parameters, module._buffers):  # noqa: SLF001 - nothing else replaces them
                found = {name: new(tensor) for name, tensor in tensors.items() if tensor is not None}
                tensors.update(found)


def _computing(precision: str) -> Any:
    """The autocast of a trainer, whose copies of weights and inputs take memory too."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast("cpu", _DTYPES[precision])


def _run(
    spec: EngineSpec,
    sizes: TrainingSizes,
    model: Any,
    reference: Any,
    trained: list[nn.Parameter],
    tracker: StorageTracker,
) -> int:
    """Make the optimizer's state, then do one step; gives back the bytes of the state."""
    optimizer = _optimizer(spec, trained)
    state = _make_state(optimizer, trained, tracker)
    ids = torch.ones(sizes.sequences, max(2, sizes.longest_tokens), dtype=torch.long)
    loss = losses.loss_of(spec)
    with tracker:
        for _ in range(min(2, sizes.micro_batches)):
            tracker.part = "activations"
            value = loss(model, ids)
            tracker.part = "workspace"
            if spec.method != "sft" and (reference is not None or spec.finetuning == "lora"):
                with torch.no_grad(), adapters.off(model):
                    loss(model if reference is None else reference, ids)
            value.backward()
            del value
        if spec.optimizer.max_grad_norm:
            torch.nn.utils.clip_grad_norm_(trained, spec.optimizer.max_grad_norm)
        optimizer.step()
    return state


def _optimizer(spec: EngineSpec, trained: list[nn.Parameter]) -> torch.optim.Optimizer:
    if spec.optimizer.name == "sgd":
        return torch.optim.SGD(trained, lr=1e-3)
    # that of 8 bits has the same tensors in a quarter of the bytes, see `_make_state`
    return torch.optim.AdamW(trained, lr=1e-3, fused=spec.optimizer.name == "adamw_torch_fused" or None)


def _make_state(
    optimizer: torch.optim.Optimizer, trained: list[nn.Parameter], tracker: StorageTracker
) -> int:
    for parameter in trained:
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    optimizer.zero_grad()
    found = 0
    for values in optimizer.state.values():
        for value in values.values():
            if isinstance(value, torch.Tensor):
                tracker.count(value, "optimizer")
                found += value.untyped_storage().nbytes()
    return found


def _saved_by_quantizing(spec: EngineSpec, model: nn.Module) -> int:
    """What frozen linear layers take less with 4 or 8 bits.

    With 4 bits a weight has half a byte and, for each 64 of them, a scale of 8 bits (Dettmers et al. 2023,
    "QLoRA", section 3: double quantization, 0.127 bits a parameter more); with 8 bits one byte.
    """
    if not (spec.load_in_4bit or spec.load_in_8bit):
        return 0
    each = 0.5 + 0.127 / 8 if spec.load_in_4bit else 1.0
    return int(
        sum(weight.numel() * (weight.element_size() - each) for weight in adapters.frozen_weights(model))
    )
