"""One run of one command, from its claim to the record of its end; the process that does this is the shim.

It outlives the service, holds the run's leases by its identity, keeps the log, the memory limit and the time
limit, and ends with the command everything that the command started. Only the shim writes ``exit.json``; a
shim that is gone without it was killed. Standard library and `nemo_runs` only.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_helix_server.executors import memory
from nemo_helix_server.executors.landlock import Sight, confine
from nemo_helix_server.logs import writer
from nemo_helix_server.storage import run_files
from nemo_runs import boot_clock, durations, sizes
from nemo_runs.errors import RunsError
from nemo_runs.leases.machine_leases import Pool
from nemo_runs.processes import process_table, trees
from nemo_runs.processes.supervise import patiently
from nemo_runs.processes.supervised import Ended, Signals

MARKER = "NEMO_JOB_TASK"
"""The variable by which processes of a run are found wherever they went."""

STACKS_SIGNAL = signal.SIGUSR2
"""The signal on which trainings write their stacks, see `nemo_trainer.contract.names`."""
_PR_SET_PDEATHSIG = 1
_LONGEST_WAIT = 5.0
_MEMORY_LOOK = 0.25
_OUTPUT_PATIENCE = 5.0
_STACKS_SECONDS = 2.0
"""How long processes get to write their stacks before they are ended."""
_NOT_STARTED = 127
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class ShimOrder:
    """The shim's input; it comes through a socket and is written nowhere."""

    token: str
    folder: Path
    argv: list[str]
    environment: dict[str, str]
    secrets: dict[str, str]
    working_directory: str
    memory_bytes: int | None
    time_limit_seconds: float | None
    grace_seconds: float
    log_bytes: int
    fifo: str | None
    leases: str | None
    sight: Sight | None

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> ShimOrder:
        """Make it of what came through the socket."""
        sight = Sight.from_json(value["sight"]) if value["sight"] else None
        return cls(**{**value, "folder": Path(value["folder"]), "sight": sight})


def run(order: ShimOrder, claimed: Callable[[bool], None]) -> None:
    """Claim the run and, when it was free, run its command to the end; tell whether it was free.

    The caller is a process of its own, without threads, whose signals are blocked until here.
    """
    with contextlib.suppress(PermissionError):  # a batch job's program leads its own group already
        os.setsid()
    trees.become_subreaper()
    with Signals() as signals:
        span = boot_clock.Span()
        mine = run_files.make_claim(order.folder, run_files.RunClaim(trees.identify(), span.began))
        claimed(mine)
        if not mine:
            return
        try:
            _take_over_leases(order)
        except (RunsError, OSError) as error:
            end = run_files.ExitRecord(
                _NOT_STARTED, 0, span.began, span.now(), False, False, False, str(error), never_started=True
            )
        else:
            end = _run(order, signals, span)
            _release_leases(order)
        patiently(lambda: run_files.write_end(order.folder, end))
        run_files.wake(order.fifo)


def _take_over_leases(order: ShimOrder) -> None:
    """From here on the leases are held by this process, and by whatever is left of its run."""
    if order.leases is not None:
        marker = (MARKER, order.token)
        Pool(Path(order.leases), (), 0).hand_over(order.token, trees.identify(), marker=marker)


def _release_leases(order: ShimOrder) -> None:
    if order.leases is not None:
        with contextlib.suppress(RunsError, OSError):  # they are free anyhow once this process has ended
            Pool(Path(order.leases), (), 0).release(order.token)


def _run(order: ShimOrder, signals: Signals, span: boot_clock.Span) -> run_files.ExitRecord:
    kills_before = memory.kills()
    try:
        log = writer.Log(order.folder / run_files.OUTPUT, limit=order.log_bytes)
        command = _start(order)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = f"could not be started: {_explained(error)}"
        return run_files.ExitRecord(_NOT_STARTED, 0, span.began, span.now(), False, False, False, reason)
    pump = _pump(order, log, command)
    watch = _Watch(order, signals, command)
    try:
        patiently(lambda: run_files.write_started(order.folder, watch.identity, span.now()), signals)
        run_files.wake(order.fifo)
        watch.until_end()
    finally:
        watch.end_tree()
        ended = watch.reap()
        pump.finish(_OUTPUT_PATIENCE)
    killed = ended.signal == signal.SIGKILL and kills_before is not None and memory.kills() != kills_before
    return run_files.ExitRecord(
        exit_status=ended.shell_status,
        signal=ended.signal,
        started_at=span.began,
        ended_at=span.now(),
        out_of_memory=watch.over_memory or killed,
        timed_out=watch.timed_out,
        stopped=watch.stopped,
        reason=watch.reason or ended.sentence,
    )


def _explained(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _start(order: ShimOrder) -> subprocess.Popen[bytes]:
    environment = {**order.environment, **order.secrets, MARKER: order.token}
    shim = os.getpid()
    limit = order.memory_bytes

    def before_the_command() -> None:
        # with its shim gone nobody would end it or say how it ended
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != shim:
            os._exit(_NOT_STARTED)
        if limit is not None:
            outermost = memory.outermost(limit)
            resource.setrlimit(resource.RLIMIT_DATA, (outermost, outermost))
        if order.sight is not None:
            confine(order.sight)

    return subprocess.Popen(
        order.argv,
        cwd=order.working_directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=before_the_command,  # noqa: PLW1509 - there are no threads yet
    )


def _pump(order: ShimOrder, log: writer.Log, command: subprocess.Popen[bytes]) -> writer.Pump:
    assert command.stdout is not None
    assert command.stderr is not None
    streams = {command.stdout.fileno(): "out", command.stderr.fileno(): "err"}
    pump = writer.Pump(log, writer.Redactor(order.secrets.values()), streams)
    pump.start()
    return pump


class _Watch:
    """Waits for the command's end and does what is due meanwhile."""

    def __init__(self, order: ShimOrder, signals: Signals, command: subprocess.Popen[bytes]) -> None:
        self.identity = trees.identify(command.pid)
        self.stopped = self.timed_out = self.over_memory = False
        self.reason = ""
        self._order = order
        self._signals = signals
        self._command = command
        self._started = time.monotonic()
        self._kill_at: float | None = None
        self._stacks = False

    def until_end(self) -> None:
        """Return when the command has ended, or when its grace is over."""
        while not self._ended():
            now = time.monotonic()
            self._act(now)
            if self._kill_at is not None and now >= self._kill_at:
                return
            self._signals.wait(self._pause(now))

    def end_tree(self) -> None:
        """End what is left of the command and of everything it started."""
        if self._ended() and self._is_only_child():
            return
        left = self._order.grace_seconds
        if self._kill_at is not None:
            left = max(0.0, self._kill_at - time.monotonic())
        trees.end_tree(self.identity, grace=left, marker=(MARKER, self._order.token), adopted=True)

    def reap(self) -> Ended:
        """Collect the command's end; one that even SIGKILL did not end counts as killed."""
        found = os.waitid(os.P_PID, self._command.pid, os.WEXITED | os.WNOHANG)
        if found is None:
            self._command.returncode = -signal.SIGKILL
            return Ended(0, signal.SIGKILL)
        exited = found.si_code == os.CLD_EXITED
        self._command.returncode = found.si_status if exited else -found.si_status
        return Ended(found.si_status, 0) if exited else Ended(0, found.si_status)

    def _act(self, now: float) -> None:
        limit = self._order.time_limit_seconds
        if self._signals.cancelled:
            self._signals.cancelled = False
            asked = run_files.read_stop(self._order.folder)
            self.stopped = True
            if asked is not None and asked.stacks and (self._stacks or self._log_stacks()):
                self._stacks, self.reason = True, self.reason or "was stopped"
                self._kill_at = self._kill_at or now + _STACKS_SECONDS
            else:
                grace = self._order.grace_seconds if asked is None else asked.grace_seconds
                self._stop(now, grace, "was stopped")
        if limit is not None and self._kill_at is None and now >= self._started + limit:
            self.timed_out = True
            text = durations.duration_in_words(limit)
            self._stop(now, self._order.grace_seconds, f"reached its time limit of {text}")
        self._look_at_memory(now)

    def _log_stacks(self) -> bool:
        """Have every process that can write its stacks to standard error; whether there is one.

        The signal ends a process that does not handle it, so only those that do get it.
        """
        asked = False
        for pid in {self._command.pid, *trees.descendants(os.getpid())}:
            if process_table.catches(pid, STACKS_SIGNAL):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, STACKS_SIGNAL)
                    asked = True
        return asked

    def _look_at_memory(self, now: float) -> None:
        limit = self._order.memory_bytes
        if limit is None or self.over_memory or (used := memory.used_below(os.getpid())) <= limit:
            return
        self.over_memory = True
        shown = functools.partial(sizes.size_in_words, binary=True)
        self.reason = f"had {shown(used)} in memory, its limit is {shown(limit)}"
        self._kill_at = now

    def _stop(self, now: float, grace: float, reason: str) -> None:
        self.reason = self.reason or reason
        if self._kill_at is None and grace > 0 and not self._ended():
            os.kill(self._command.pid, signal.SIGTERM)
        self._kill_at = min(self._kill_at or float("inf"), now + grace)

    def _pause(self, now: float) -> float:
        due = [_LONGEST_WAIT]
        if self._order.memory_bytes is not None:
            due.append(_MEMORY_LOOK)
        if self._kill_at is not None:
            due.append(self._kill_at - now)
        elif self._order.time_limit_seconds is not None:
            due.append(self._started + self._order.time_limit_seconds - now)
        return max(0.0, min(due))

    def _ended(self) -> bool:
        """Whether the command itself has ended; orphans that came to this process are reaped."""
        with contextlib.suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if found.si_pid == self._command.pid:
                    return True
                os.waitpid(found.si_pid, 0)
        return False

    def _is_only_child(self) -> bool:
        """Whether the command left nothing behind: orphans of a subreaper's tree are its children."""
        try:
            tasks = os.listdir("/proc/self/task")
            lists = [Path("/proc/self/task", task, "children").read_bytes() for task in tasks]
        except OSError:
            return False
        return b" ".join(lists).split() == [str(self._command.pid).encode()]
