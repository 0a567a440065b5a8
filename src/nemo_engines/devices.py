"""Device and precision by what the machine has, found without importing a library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from nemo_engines.errors import BadSpecError, EngineUnavailableError
from nemo_engines.running import World
from nemo_engines.spec import EngineSpec

Precision = Literal["bf16", "fp16", "fp32"]

_DEVICES = Path("/dev")


def has_gpu(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether an NVIDIA device is there and not hidden."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        return False
    return (_DEVICES / "nvidiactl").exists() or Path("/proc/driver/nvidia/version").exists()


def chosen_device(spec: EngineSpec, environ: Mapping[str, str] = os.environ) -> Literal["cpu", "cuda"]:
    """The kind of device to train on; `EngineUnavailableError` when the one that was asked for is not
    here."""
    found: Literal["cpu", "cuda"] = "cuda" if has_gpu(environ) else "cpu"
    if spec.devices.kind == "cuda" and found == "cpu":
        raise EngineUnavailableError("devices.kind is 'cuda', but no NVIDIA GPU can be seen here")
    return "cpu" if spec.devices.kind == "cpu" else found


def chosen_precision(spec: EngineSpec, device: str) -> Precision:
    """What the spec says, else bf16 on a GPU and fp32 on a CPU; `BadSpecError` for what a CPU cannot do."""
    if spec.precision is None:
        return "bf16" if device == "cuda" else "fp32"
    if spec.precision == "fp16" and device == "cpu":
        raise BadSpecError("precision 'fp16' needs a GPU; on a CPU 'fp32' and 'bf16' can be used")
    return spec.precision


def check_device(spec: EngineSpec, device: str) -> None:
    """`BadSpecError` for what was asked for and cannot be done on this kind of device."""
    if device == "cuda":
        return
    if spec.load_in_4bit or spec.load_in_8bit:
        raise BadSpecError("load_in_4bit and load_in_8bit need a GPU")
    if spec.optimizer.name in ("adamw_8bit", "paged_adamw_8bit"):
        raise BadSpecError(f"optimizer.name '{spec.optimizer.name}' needs a GPU; on a CPU use 'adamw_torch'")
    if spec.attn_implementation == "flash_attention_2":
        raise BadSpecError("attn_implementation 'flash_attention_2' needs a GPU; on a CPU use 'sdpa'")


def world_of(environ: Mapping[str, str]) -> World | None:
    """This process's place among those of the training, ``None`` outside of a launcher."""
    if "RANK" not in environ or "WORLD_SIZE" not in environ:
        return None
    return World(int(environ["RANK"]), int(environ.get("LOCAL_RANK", "0")), int(environ["WORLD_SIZE"]))
