"""The recipe on a machine without a GPU. Nothing of this is touched where training runs on one.

The recipe names CUDA in a few places although nothing in it needs it: it asks for memory statistics and the
random state of GPUs, starts its processes with a GPU each, and names the device of the model. Here they get
the answers of a machine that has none, the processes meet through gloo, and the device is the CPU.
"""

from __future__ import annotations

import atexit
import datetime as dt
import os
from typing import Any

import torch
from nemo_automodel._transformers import auto_model
from nemo_automodel.components.distributed import init_utils
from nemo_automodel.recipes.llm import train_ft

_CPU = torch.device("cpu")


class _Torch:
    """The module ``torch``, in which every device is the CPU."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def device(*_: object) -> torch.device:
        """The one device there is."""
        return _CPU


def adapt() -> None:
    """Let the recipe run in this process on the CPU, whatever the machine has; to be called before it is
    set up."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    cuda: Any = torch.cuda
    cuda.current_device = lambda: _CPU
    cuda.synchronize = cuda.reset_peak_memory_stats = cuda.set_rng_state_all = _nothing
    cuda.max_memory_allocated = lambda *_: 0
    cuda.get_rng_state_all = list
    train_ft.torch = auto_model.torch = _Torch()
    train_ft.initialize_distributed = _meet


def _nothing(*_: object) -> None:
    """What there is to do without a GPU."""


def _meet(backend: str, timeout_minutes: int = 1) -> init_utils.DistInfo:
    """Join the other processes; the library's own waits for them with the number of a GPU."""
    rank, size = init_utils.get_rank_safe(), init_utils.get_world_size_safe()
    alone = {"store": torch.distributed.HashStore()} if size == 1 else {}
    timeout = dt.timedelta(minutes=timeout_minutes)
    torch.distributed.init_process_group(backend, world_size=size, rank=rank, timeout=timeout, **alone)
    atexit.register(init_utils.destroy_global_state)
    return init_utils.DistInfo(backend, rank, size, _CPU, rank == 0)
