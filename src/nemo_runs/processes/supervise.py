"""One command under supervision: own session, time limit, draining, cancelling, and a record of its end.

The supervisor outlives the command and whatever it started, and writes ``exit.json`` last: a supervisor that
is gone without it was killed. `main` is the same as a program of the standard library alone, see
`shim_command`.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from nemo_runs import boot_clock, durations
from nemo_runs.durable.files import replace_file
from nemo_runs.errors import DiskFullError, RunsError
from nemo_runs.processes import trees
from nemo_runs.processes.command_watch import CommandWatch
from nemo_runs.processes.supervised import Command, Ended, Signals

__all__ = ["Exit", "TimeLimits", "main", "patiently", "read_exit", "shim_command", "supervise"]

Result = TypeVar("Result")

State = Literal["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"]

_STATES: tuple[State, ...] = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED")
_NOT_STARTED = 127
_OWED_WAIT = 0.2
_LAST_SECOND = 253_402_300_799
"""Of the year 9999."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 15.0


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long a command may take; all in seconds."""

    time_limit: float | None
    """From its start; `None` = no limit."""
    drain_lead: float
    """How long before the time limit it is asked to drain."""
    grace: float
    """How long it may take to end after SIGTERM."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended."""

    state: State
    exit_status: int
    """As a shell says it: 128 + signal when a signal ended it, 127 when it could not be started."""
    signal: int
    """The signal that ended it, else 0."""
    started_at: float
    """UTC seconds since the epoch."""
    ended_at: float
    """The same plus the time that has passed, whatever was done to the date meanwhile."""
    reason: str
    """A short sentence for people."""


def read_exit(path: Path) -> Exit | None:
    """Read an ``exit.json``; `None` when there is none, `RunsError` when it holds something else."""
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
        end = Exit(
            state=_STATES[_STATES.index(value["state"])],
            exit_status=int(value["exit_status"]),
            signal=int(value["signal"]),
            started_at=float(value["started_at"]),
            ended_at=float(value["ended_at"]),
            reason=str(value["reason"]),
        )
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RunsError(f"{path}: not the record of an end: {error}") from error
    if not (0 <= end.started_at <= _LAST_SECOND and 0 <= end.ended_at <= _LAST_SECOND):
        raise RunsError(f"{path}: not the record of an end: its times cannot be right")
    return end


def supervise(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    output: Path,
    exit_file: Path,
    identity_file: Path,
    drain_file: Path,
    limits: TimeLimits,
    marker: tuple[str, str],
    on_start: Callable[[], None] | None = None,
    adopted: bool = False,
) -> Exit:
    """Run a command to its end, and everything that it started to theirs; call it in the main thread.

    ``env`` plus ``marker`` is its environment, standard output and error go to the end of ``output``.
    ``drain_lead`` before the time limit ``walltime`` is written to ``drain_file`` and SIGUSR1 sent to the
    command alone, as soon as it has a handler for it (the file is the truth, the signal a nudge); SIGUSR1
    to this process does the same with ``signal``. At the time limit the command gets SIGTERM, after ``grace``
    the whole tree SIGKILL: TIMEOUT. SIGTERM or SIGINT to this process writes ``cancel`` and ends the tree
    likewise: CANCELLED. What of its tree outlives a command that ended by itself is ended too.

    ``identity_file`` holds this process (see `nemo_runs.processes.trees.ProcessIdentity`), and the command
    under the key ``command``. With ``adopted`` every child of this process counts as the command's (and is
    reaped): right when it has no other. Raises what ``on_start`` raises, after the tree was ended.
    """
    trees.become_subreaper()
    with Signals() as signals:
        span = boot_clock.Span()
        patiently(lambda: _write_identity(identity_file, None), signals)
        try:
            command = Command.start(
                argv, cwd=cwd, env={**env, marker[0]: marker[1]}, output=output, adopted=adopted
            )
        except (OSError, ValueError) as error:
            reason = f"could not be started: {error}"
            end = Exit("FAILED", _NOT_STARTED, 0, span.began, span.now(), reason)
        else:
            watch = CommandWatch(command, signals, limits.time_limit)
            draining = _Draining(watch, limits, drain_file)
            end = _finish(watch, draining, marker, identity_file, on_start, span, limits.grace)
        patiently(lambda: replace_file(exit_file, json.dumps(asdict(end)).encode() + b"\n"), signals)
    return end


def patiently(
    write: Callable[[], Result], signals: Signals | None = None, *, seconds: float = math.inf
) -> Result:
    """Write something that must not get lost: while the disk is full, try again and again.

    Given up, with `DiskFullError`, after ``seconds``, and once ``signals`` say that the end of it all is
    wanted.
    """
    pause, give_up_at = _FIRST_PAUSE, time.monotonic() + seconds
    while True:
        try:
            return write()
        except DiskFullError as error:
            if (signals is not None and signals.cancelled) or time.monotonic() >= give_up_at:
                raise
            print(f"supervisor: {error}; trying again", file=sys.stderr, flush=True)
        if signals is None:
            time.sleep(pause)
        else:
            signals.wait(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _finish(
    watch: CommandWatch,
    draining: _Draining,
    marker: tuple[str, str],
    identity_file: Path,
    on_start: Callable[[], None] | None,
    span: boot_clock.Span,
    grace: float,
) -> Exit:
    command = watch.command
    try:
        _write_identity(identity_file, command.identity)
        if on_start:
            on_start()
        watch.until_end(draining)
    except BaseException:
        command.end_tree(grace=0, marker=marker)
        command.reap()
        raise
    command.end_tree(grace=watch.grace_left(grace), marker=marker)
    state, status, reason = draining.verdict(command.reap())
    return Exit(state, status.shell_status, status.signal, span.began, span.now(), reason)


class _Draining:
    """What is due while a command runs: it is asked to drain, and is ended when its time has come."""

    def __init__(self, watch: CommandWatch, limits: TimeLimits, drain_file: Path) -> None:
        self._watch = watch
        self._limits = limits
        self._drain_file = drain_file
        self._drain_at = watch.end_at - limits.drain_lead
        self._drained = False
        self._owed = False
        """Whether the command is to get SIGUSR1 once it has a handler."""
        self._stopped: tuple[State, str] | None = None

    def verdict(self, ended: Ended) -> tuple[State, Ended, str]:
        """What the end of the command means, given what was done to it."""
        if self._stopped:
            state, reason = self._stopped
            return state, ended, reason
        return ("FAILED" if ended.shell_status else "COMPLETED"), ended, ended.sentence

    def act(self, now: float) -> None:
        """See `nemo_runs.processes.command_watch.Duties`."""
        signals = self._watch.signals
        if self._stopped is None and signals.cancelled:
            self._ask_to_drain("cancel")
            self._stop(now, "CANCELLED", "cancelled by a signal to its supervisor")
        elif self._stopped is None and now >= self._watch.end_at:
            self._ask_to_drain("walltime")
            limit = durations.slurm_time(round(self._limits.time_limit or 0))
            self._stop(now, "TIMEOUT", f"reached its time limit of {limit}")
        elif not self._drained and now >= self._drain_at:
            self._drained = self._owed = True
            self._ask_to_drain("walltime")
        if signals.nudged:
            signals.nudged = False
            self._owed = True
            self._ask_to_drain("signal")
        if self._owed and self._watch.command.nudge():
            self._owed = False

    def due(self, now: float) -> Iterator[float]:
        """See `nemo_runs.processes.command_watch.Duties`."""
        if self._owed:
            yield _OWED_WAIT
        if not self._drained and self._stopped is None:
            yield self._drain_at - now

    def _stop(self, now: float, state: State, reason: str) -> None:
        self._stopped = (state, reason)
        self._owed = False
        self._watch.stop(now, self._limits.grace)

    def _ask_to_drain(self, who: str) -> None:
        """Write who asked first, or "cancel"; a full disk must not keep the signals from being sent."""
        if who != "cancel" and self._drain_file.exists():
            return
        try:
            replace_file(self._drain_file, f"{who}\n".encode())
        except (OSError, RunsError) as error:
            print(f"supervisor: the request to drain could not be written: {error}", file=sys.stderr)


def _write_identity(path: Path, command: trees.ProcessIdentity | None) -> None:
    value = trees.identify().to_json()
    if command:
        value["command"] = command.to_json()
    replace_file(path, json.dumps(value).encode() + b"\n")


def shim_command(python: str, *arguments: str) -> list[str]:
    """The argument list that runs `main` with ``arguments`` in any Python 3.11, without site packages."""
    start = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); "
        "from nemo_runs.processes.supervise import main; main()"
    )
    return [python, "-I", "-S", "-c", start, str(Path(__file__).parents[2]), *arguments]


def main() -> None:
    """Supervise the command behind ``--``; leave with its exit status. The environment is handed on."""
    from nemo_runs.processes import supervise_options  # noqa: PLC0415 - argparse is for the program alone

    options = supervise_options.parse(sys.argv[1:])
    limits = TimeLimits(options.time_limit, options.drain_lead, options.grace)
    end = supervise(
        options.command,
        cwd=options.cwd,
        env=os.environ,
        output=options.output,
        exit_file=options.exit_file,
        identity_file=options.identity_file,
        drain_file=options.drain_file,
        limits=limits,
        marker=options.marker,
        adopted=True,
    )
    sys.exit(0 if end.state == "COMPLETED" else end.exit_status or 1)
