"""How fast a training is and how much memory it has taken, as its progress shows them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_STEPS: Final = 20
"""So many of the newest steps are averaged."""
_STATUS: Final = Path("/proc/self/status")


class Speed:
    """The speed of the newest steps. Time for saving, validating or being stopped is not in it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steps: deque[tuple[float, float | None]] = deque(maxlen=_STEPS)
        self._begun: float | None = None
        self._tokens: float | None = None

    def begins(self) -> None:
        """Say that a step begins now: what came before it counts for none."""
        self._begun = self._clock()

    def finished(self, tokens: float | None = None) -> None:
        """Say that a step is done; ``tokens`` is how many were learned from so far, where that is known.

        GRPO says it once a generation: a step that says nothing after one that did has none of its own.
        """
        now, new = self._clock(), None
        if self._tokens is not None:
            new = 0.0 if tokens is None else tokens - self._tokens
        self._tokens = self._tokens if tokens is None else tokens
        if self._begun is not None:
            self._steps.append((now - self._begun, new))
        self._begun = now

    def fields(self, *, left: int, flops_per_token: float | None = None) -> dict[str, float]:
        """Fields of the progress: ``step_seconds``, ``seconds_left`` for ``left`` steps, and where tokens are
        counted ``tokens_per_second`` and ``flops_per_second``; nothing before the second step."""
        if len(self._steps) < 2:  # the first one also warms up
            return {}
        taken = list(self._steps)[-(_STEPS - 1) :] if len(self._steps) == _STEPS else list(self._steps)[1:]
        seconds = sum(duration for duration, _ in taken)
        found = {"step_seconds": seconds / len(taken), "seconds_left": seconds / len(taken) * max(0, left)}
        counts = [tokens for _, tokens in taken if tokens is not None]
        if seconds and len(counts) == len(taken) and sum(counts) > 0:
            found["tokens_per_second"] = sum(counts) / seconds
            if flops_per_token is not None:
                found["flops_per_second"] = found["tokens_per_second"] * flops_per_token
        return found


def memory_fields(torch: Any, device: str) -> dict[str, int]:
    """The most memory that this process has had, in bytes: on its GPU, or on a CPU altogether."""
    if device == "cuda":
        return {
            "memory_bytes": int(torch.cuda.max_memory_allocated()),
            "memory_limit_bytes": int(
                torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
            ),
        }
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    peaks = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")]
    return {"memory_bytes": peaks[0]} if peaks else {}
