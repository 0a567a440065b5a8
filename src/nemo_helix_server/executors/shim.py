"""One run of one command, from its claim to the record of its end; the process that does this is the shim.

It outlives the service, holds the run's leases by its identity, keeps the log, the memory limit and the time
limit, and ends with the command everything that the command started. Only the shim writes ``exit.json``; a
shim that is gone without it was killed. Standard library and `nemo_runs` only.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import math
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_helix_server.executors import memory
from nemo_helix_server.executors.landlock import FileAccess, confine
from nemo_helix_server.logs import writer
from nemo_helix_server.storage import run_files
from nemo_runs import boot_clock, durations, sizes
from nemo_runs.durable import disk
from nemo_runs.errors import DiskFullError, RunsError
from nemo_runs.leases.machine_leases import Pool
from nemo_runs.processes import process_table, trees
from nemo_runs.processes.command_watch import CommandWatch
from nemo_runs.processes.supervise import patiently
from nemo_runs.processes.supervised import Command, Signals

MARKER = "NEMO_JOB_TASK"
"""The variable by which processes of a run are found wherever they went."""

STACKS_SIGNAL = signal.SIGUSR2
"""The signal on which trainings write their stacks, see `nemo_trainer.contract.names`."""
_PR_SET_PDEATHSIG = 1
_MEMORY_LOOK = 0.25
_OUTPUT_TIMEOUT = 5.0
_STACKS_SECONDS = 2.0
"""How long processes get to write their stacks before they are ended."""
_SHORTEST = 0.01
"""Seconds that a command gets to be over at once: then its end is recorded, and not before that its start.

What it has written meanwhile lies in its pipes.
"""
_NOT_STARTED = 127
_NO_PROGRAM = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ELOOP}
)
"""Errors of a name that is not one of a program, or of one that its user may not run."""
_LIBC = trees.c_library()


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
    file_access: FileAccess | None
    full_disk_seconds: float = math.inf
    """How long the end is tried to be recorded while the disk is full."""

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> ShimOrder:
        """Make it of what came through the socket."""
        given = {**value, "folder": Path(value["folder"])}
        access = given.pop("file_access")
        return cls(**given, file_access=FileAccess.from_json(access) if access else None)


def run(
    order: ShimOrder,
    claimed: Callable[[bool], None],
    ending: Callable[[run_files.ExitRecord], None] = lambda _end: None,
) -> None:
    """Claim the run and, when it was free, run its command to the end; return whether it was free.

    The caller is a process of its own, without threads, whose signals are blocked until here. ``ending`` is
    called before the end is recorded, for what must be on the disk by then; it raises nothing.
    """
    with contextlib.suppress(PermissionError):  # a batch job's program leads its own group already
        os.setsid()
    trees.become_subreaper()
    with Signals() as signals:
        span = boot_clock.Span()
        me = trees.identify()
        mine = run_files.make_claim(order.folder, run_files.RunClaim(me, span.began))
        if mine:
            with contextlib.suppress(RunsError, OSError):  # its end may find room all the same
                run_files.reserve(order.folder)
        claimed(mine)
        if not mine:
            return
        try:
            _take_over_leases(order, me)
        except (RunsError, OSError) as error:
            end = run_files.ExitRecord(
                _NOT_STARTED, 0, span.began, span.now(), False, False, False, str(error), never_started=True
            )
        else:
            end = _run(order, signals, span)
            _release_leases(order)
        ending(end)
        patiently(lambda: run_files.write_end(order.folder, end), seconds=order.full_disk_seconds)
        run_files.wake(order.fifo)


def _take_over_leases(order: ShimOrder, me: trees.ProcessIdentity) -> None:
    """From here on the leases are held by this process, and by whatever is left of its run."""
    if order.leases is not None:
        marker = (MARKER, order.token)
        Pool(Path(order.leases), (), 0).hand_over(order.token, me, marker=marker)


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
        return _not_begun(order, span, error)
    pump = _pump(order, log, command)
    watch = CommandWatch(Command(command, adopted=True), signals, order.time_limit_seconds)
    limits = _Limits(order, watch)
    try:
        signals.wait(_SHORTEST)
        if not watch.command.ended():
            pump.start()
            identity = watch.command.identity
            with contextlib.suppress(DiskFullError):  # it runs all the same, or was asked to end
                patiently(
                    lambda: run_files.write_started(order.folder, identity, span.now()),
                    signals,
                    seconds=order.full_disk_seconds,
                )
            run_files.wake(order.fifo)
            watch.until_end(limits)
    finally:
        _end_tree(order, watch)
        ended = watch.command.reap()
        pump.finish(_OUTPUT_TIMEOUT)
    killed = ended.signal == signal.SIGKILL and kills_before is not None and memory.kills() != kills_before
    return run_files.ExitRecord(
        exit_status=ended.shell_status,
        signal=ended.signal,
        started_at=span.began,
        ended_at=span.now(),
        out_of_memory=limits.over_memory or killed,
        timed_out=limits.timed_out,
        stopped=limits.stopped,
        reason=limits.reason or ended.sentence,
        disk_full=log.is_full and ended.shell_status != 0,
    )


def _not_begun(order: ShimOrder, span: boot_clock.Span, error: Exception) -> run_files.ExitRecord:
    """The end of a run whose command could not be run: by its own fault, or since something else is short."""
    failed = error if isinstance(error, OSError) else OSError()
    no_program = failed.filename == order.argv[0] and failed.errno in _NO_PROGRAM
    reason = f"{run_files.NO_PROGRAM if no_program else 'could not begin: '}{_explained(error)}"
    return run_files.ExitRecord(
        _NOT_STARTED, 0, span.began, span.now(), False, False, False, reason, disk_full=disk.is_full(failed)
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
        if order.file_access is not None:
            confine(order.file_access)

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
    return writer.Pump(log, writer.Redactor(order.secrets.values()), streams)


class _Limits:
    """What is due while the command of a run runs: a stop that is asked for, its time limit, its memory."""

    def __init__(self, order: ShimOrder, watch: CommandWatch) -> None:
        self.stopped = self.timed_out = self.over_memory = False
        self.reason = ""
        self._order = order
        self._watch = watch
        self._stacks = False

    def act(self, now: float) -> None:
        """See `nemo_runs.processes.command_watch.Duties`."""
        if self._watch.signals.cancelled:
            self._watch.signals.cancelled = False
            asked = run_files.read_stop(self._order.folder)
            self.stopped = True
            if asked is not None and asked.stacks and (self._stacks or self._log_stacks()):
                self._stacks, self.reason = True, self.reason or "was stopped"
                if not self._watch.is_stopping:
                    self._watch.kill_by(now + _STACKS_SECONDS)
            else:
                grace = self._order.grace_seconds if asked is None else asked.grace_seconds
                self._stop(now, grace, "was stopped")
        if not self._watch.is_stopping and now >= self._watch.end_at:
            self.timed_out = True
            text = durations.duration_in_words(self._order.time_limit_seconds or 0)
            self._stop(now, self._order.grace_seconds, f"reached its time limit of {text}")
        self._look_at_memory(now)

    def due(self, now: float) -> Iterator[float]:  # noqa: ARG002 - the protocol's
        """See `nemo_runs.processes.command_watch.Duties`."""
        if self._order.memory_bytes is not None:
            yield _MEMORY_LOOK

    def _log_stacks(self) -> bool:
        """Have every process that can write its stacks to standard error; whether there is one.

        The signal ends a process that does not handle it, so only those that do get it.
        """
        asked = False
        for pid in {self._watch.command.identity.pid, *trees.descendants(os.getpid())}:
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
        self._watch.kill_by(now)

    def _stop(self, now: float, grace: float, reason: str) -> None:
        self.reason = self.reason or reason
        if grace > 0:
            self._watch.stop(now, grace)
        else:
            self._watch.kill_by(now)


def _end_tree(order: ShimOrder, watch: CommandWatch) -> None:
    """End what is left of the command and of everything it started."""
    if watch.command.ended() and _is_only_child(watch.command):
        return
    watch.command.end_tree(grace=watch.grace_left(order.grace_seconds), marker=(MARKER, order.token))


def _is_only_child(command: Command) -> bool:
    """Whether the command left nothing behind: orphans of a subreaper's tree are its children."""
    try:
        tasks = os.listdir("/proc/self/task")
        lists = [Path("/proc/self/task", task, "children").read_bytes() for task in tasks]
    except OSError:
        return False
    return b" ".join(lists).split() == [str(command.identity.pid).encode()]
