"""Failing on purpose, so that reruns and warnings can be tried out on a real training."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time

from nemo_trainer.contract import JobContext
from nemo_trainer.example_options import ExampleOptions

_HANG = 86_400.0


class FaultInjection:
    """The fault that is injected into the example before a certain step, in the first so many starts of the
    job.
    """

    def __init__(self, options: ExampleOptions, context: JobContext) -> None:
        self._how = options.fail_how
        self._at = options.fail_at
        self._times = options.fail_times
        self._record = context.trainer_path / "failures"

    def before(self, step: int) -> None:
        """Strike, if it is the step; `corrupt` does it for a diverging loss."""
        if step != self._at or self._how == "nan" or not self._is_due():
            return
        sys.stdout.write(f"failing before step {step}, as asked\n")
        sys.stdout.flush()
        if self._how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._how == "hang":
            time.sleep(_HANG)
        if self._how == "disk":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._record))
        if self._how == "oom":
            raise MemoryError("the example asked for more memory than there is")
        if self._how == "gpu-oom":
            raise RuntimeError(
                "CUDA out of memory. Tried to allocate 2.00 GiB (as asked; there is no GPU here)"
            )
        raise SystemExit(1)

    def corrupt(self, step: int, loss: float) -> float:
        """The loss, or what has become of it."""
        return float("nan") if step == self._at and self._how == "nan" and self._is_due() else loss

    def _is_due(self) -> bool:
        """Count the start; the count is a file's length."""
        with self._record.open("ab") as file:
            injected = file.tell()
            if injected < self._times:
                file.write(b"x")
        return injected < self._times
