"""What a supervisor works with: a command in its own session, and the signals that reach the supervisor."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from nemo_runs.processes import process_table, trees

_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD)


@dataclass(frozen=True, slots=True)
class Ended:
    """What the kernel said about the end of a process."""

    exit_status: int
    signal: int
    """The signal that ended it, else 0."""

    @property
    def shell_status(self) -> int:
        """128 + signal, or the exit status."""
        return 128 + self.signal if self.signal else self.exit_status

    @property
    def sentence(self) -> str:
        """The same in words."""
        if not self.signal:
            return f"exited with status {self.exit_status}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(self.signal).name}"
        return f"was killed by signal {self.signal}"


class Signals:
    """Notes the signals of the calling process while it is entered, and ends waits when one comes."""

    def __init__(self) -> None:
        self.cancelled = False
        """SIGTERM or SIGINT came."""
        self.nudged = False
        """SIGUSR1 came since this was last reset."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._note) for number in _HANDLED}
        # the starter of a supervisor may block them until here, so that none comes before its handler
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._reader.close()
        self._writer.close()

    def wait(self, seconds: float) -> None:
        """Wait until a signal comes, at most so long."""
        if select.select([self._reader], [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                while self._reader.recv(4096):
                    pass

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number in {signal.SIGTERM, signal.SIGINT}:
            self.cancelled = True
        elif number == signal.SIGUSR1:
            self.nudged = True


class Command:
    """A started command, leader of its own session; reaped last, so that its number stays its own."""

    def __init__(self, process: subprocess.Popen[bytes], *, adopted: bool) -> None:
        """With ``adopted`` every child of this process counts as the command's, and is reaped."""
        self._adopted = adopted
        self._process = process
        self.identity = trees.identify(process.pid)

    @classmethod
    def start(
        cls, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: Path, adopted: bool
    ) -> Self:
        """Start one whose standard output and error go to the end of a file."""
        descriptor = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            process = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        return cls(process, adopted=adopted)

    def ended(self) -> bool:
        """Whether the command itself has ended; orphans that were adopted meanwhile are reaped."""
        for _ in self._reaped_orphans():
            pass
        found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return found is not None

    def terminate(self) -> None:
        """Send SIGTERM to the command alone."""
        if not self.ended():
            os.kill(self._process.pid, signal.SIGTERM)

    def signal_group(self, number: int) -> None:
        """Signal the command with what it started in its own process group, as Ctrl-C in a terminal does."""
        if not self.ended():
            os.killpg(self._process.pid, number)

    def nudge(self) -> bool:
        """Send SIGUSR1 to the command alone if it has a handler for it; else it would die of it."""
        if self.ended() or not process_table.catches(self._process.pid, signal.SIGUSR1):
            return False
        os.kill(self._process.pid, signal.SIGUSR1)
        return True

    def end_tree(self, *, grace: float, marker: tuple[str, str]) -> None:
        """End the command and all it started: `nemo_runs.processes.trees.end_tree`; ``grace`` in seconds."""
        trees.end_tree(self.identity, grace=grace, marker=marker, adopted=self._adopted)

    def reap(self) -> Ended:
        """Collect the command's end; one that even SIGKILL did not end counts as killed."""
        found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG)
        if found is None:
            self._process.returncode = -signal.SIGKILL
            return Ended(0, signal.SIGKILL)
        exited = found.si_code == os.CLD_EXITED
        ended = Ended(found.si_status, 0) if exited else Ended(0, found.si_status)
        self._process.returncode = found.si_status if exited else -found.si_status
        for _ in self._reaped_orphans():
            pass
        return ended

    def _reaped_orphans(self) -> Iterator[int]:
        """Reap adopted children of the command: all of ours, or those of its process group."""
        kind, number = (os.P_ALL, 0) if self._adopted else (os.P_PGID, self._process.pid)
        with contextlib.suppress(ChildProcessError):
            while found := os.waitid(kind, number, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if found.si_pid == self._process.pid:
                    return
                os.waitpid(found.si_pid, 0)
                yield found.si_pid
