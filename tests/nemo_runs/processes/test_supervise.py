"""The supervisor as a program: real commands, real signals, real time limits (short ones)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nemo_runs.errors import DiskFullError, RunsError
from nemo_runs.processes.supervise import Exit, patiently, read_exit, shim_command
from nemo_runs.processes.supervised import Signals
from nemo_runs.processes.trees import Liveness, ProcessIdentity, liveness, marked

pytestmark = pytest.mark.services

MARKER = "NEMO_RUNS_SUPERVISED"


def waiting(script: str) -> str:
    """The script, then a wait that ends at a signal."""
    return f"{script} while :; do read -r -t 0.1 _ <> <(:); done"


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


class Supervised:
    """A supervisor program and the files around it."""

    def __init__(self, folder: Path, command: list[str], options: dict[str, float]) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        arguments = [f"--cwd={folder}", f"--output={folder}/out", f"--marker={MARKER}={self.mark}"]
        arguments += [f"--{name}-file={folder}/{name}" for name in ("exit", "identity", "drain")]
        arguments += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        self.process = subprocess.Popen(shim_command(sys.executable, *arguments, "--", *command))

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def drain(self) -> str | None:
        path = self.folder / "drain"
        return path.read_text() if path.exists() else None

    def says(self, word: str) -> None:
        """Wait until the command has printed a word."""
        until(lambda: (self.folder / "out").exists() and word in self.out.split())

    def end(self) -> Exit:
        """Wait for the supervisor; whatever it promised must hold: a record, and nothing left."""
        status = self.process.wait(timeout=60)
        found = read_exit(self.folder / "exit")
        assert found is not None
        assert status == (0 if found.state == "COMPLETED" else found.exit_status or 1)
        assert marked(MARKER, self.mark) == []
        assert 0 <= found.ended_at - found.started_at < 60
        return found

    def commands_identity(self) -> ProcessIdentity:
        path = self.folder / "identity"
        until(lambda: path.exists() and "command" in json.loads(path.read_bytes()))
        return ProcessIdentity.from_json(json.loads(path.read_bytes())["command"])


Run = Callable[..., Supervised]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Start a bash script under supervision; options are those of the program, in seconds."""
    started: list[Supervised] = []

    def start(script: str, folder: Path = tmp_path, **options: float) -> Supervised:
        supervised = Supervised(folder, ["bash", "-c", script], options)
        started.append(supervised)
        return supervised

    yield start
    for supervised in started:
        supervised.process.kill()
        supervised.process.wait()
        for pid in marked(MARKER, supervised.mark):
            os.kill(pid, signal.SIGKILL)


def outcome(end: Exit) -> tuple[str, int, int]:
    return end.state, end.exit_status, end.signal


def test_a_command_that_succeeds_is_completed(run: Run) -> None:
    supervised = run("echo out; echo err >&2; read -r line || echo no input")
    assert outcome(supervised.end()) == ("COMPLETED", 0, 0)
    assert supervised.out == "out\nerr\nno input\n"
    assert supervised.drain is None


@pytest.mark.parametrize(
    ("script", "status", "number", "reason"),
    [
        ("exit 3", 3, 0, "exited with status 3"),
        ("exit 75", 75, 0, "exited with status 75"),
        ("kill -9 $$", 137, 9, "was killed by SIGKILL"),
        ("kill -SEGV $$", 139, 11, "was killed by SIGSEGV"),
    ],
)
def test_a_command_that_fails_is_recorded_with_how(
    run: Run, script: str, status: int, number: int, reason: str
) -> None:
    end = run(f"ulimit -c 0; {script}").end()
    assert outcome(end) == ("FAILED", status, number)
    assert end.reason == reason


@pytest.mark.parametrize("command", [["/nowhere/program"], ["./plain-file"], ["x\u00e9"]])
def test_a_command_that_cannot_be_started_has_failed(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "plain-file").write_text("")
    end = Supervised(tmp_path, command, {}).end()
    assert outcome(end) == ("FAILED", 127, 0)
    assert end.reason.startswith("could not be started: ")
    assert command[0] in end.reason


def test_everything_works_in_an_oddly_named_folder(run: Run, odd_folder: Path) -> None:
    supervised = run("echo here; touch made", folder=odd_folder)
    assert supervised.end().state == "COMPLETED"
    assert supervised.out == "here\n"
    assert (odd_folder / "made").exists()


def test_the_command_has_its_own_session_its_marker_and_default_signals(run: Run) -> None:
    script = (
        'read -r _ _ _ _ group session _ </proc/$$/stat; [[ "$group $session" == "$$ $$" ]] && echo leads\n'
        f'echo "${MARKER}"; grep -E "Sig(Blk|Ign|Cgt)" /proc/self/status | cut -f2 | tr "\\n" " "'
    )
    supervised = run(script)
    supervised.end()
    assert supervised.out.split()[:2] == ["leads", supervised.mark]
    assert supervised.out.split()[2] == "0" * 16


def test_identities_of_supervisor_and_command_are_recorded(run: Run) -> None:
    supervised = run("exec sleep 60")
    command = supervised.commands_identity()
    supervisor = ProcessIdentity.from_json(json.loads((supervised.folder / "identity").read_bytes()))
    assert supervisor.pid == supervised.process.pid
    assert liveness(supervisor) is Liveness.ALIVE
    assert liveness(command) is Liveness.ALIVE
    supervised.process.terminate()
    supervised.end()
    assert liveness(command) is Liveness.DEAD


def test_ahead_of_its_time_limit_a_command_is_told_to_drain(run: Run) -> None:
    script = waiting("trap 'cat drain; exit 75' USR1;")
    end = run(script, time_limit=20, drain_lead=19.5).end()
    assert outcome(end) == ("FAILED", 75, 0)


def test_who_asked_is_known_before_the_signal_comes(run: Run) -> None:
    script = waiting("trap 'cat drain; exit 75' USR1 TERM;")
    supervised = run(script, time_limit=20, drain_lead=19.8)
    supervised.end()
    assert supervised.out == "walltime\n"


def test_a_command_without_a_handler_is_not_killed_by_the_nudge(run: Run) -> None:
    script = waiting("sleep 0.6; trap 'echo nudged; exit 75' USR1; echo ready;")
    supervised = run(script, time_limit=20, drain_lead=20)
    until(lambda: supervised.drain == "walltime\n")
    end = supervised.end()
    assert outcome(end) == ("FAILED", 75, 0)
    assert supervised.out == "ready\nnudged\n"


def test_at_its_time_limit_a_command_is_ended(run: Run) -> None:
    supervised = run(waiting("trap 'echo bye; exit 4' TERM; echo up;"), time_limit=2)
    end = supervised.end()
    assert outcome(end) == ("TIMEOUT", 4, 0)
    assert supervised.out == "up\nbye\n"
    assert supervised.drain == "walltime\n"
    assert 2 <= end.ended_at - end.started_at < 30


def test_a_command_that_ignores_its_time_limit_is_killed_after_the_grace(run: Run) -> None:
    end = run("trap '' TERM USR1; sleep 60; sleep 60; sleep 60", time_limit=2, grace=0.4).end()
    assert outcome(end) == ("TIMEOUT", 137, 9)
    assert 2.4 <= end.ended_at - end.started_at < 30


def test_a_signal_to_the_supervisor_cancels_the_command(run: Run) -> None:
    supervised = run(waiting("trap 'cat drain; exit 75' TERM; echo up;"))
    supervised.says("up")
    supervised.process.terminate()
    end = supervised.end()
    assert outcome(end) == ("CANCELLED", 75, 0)
    assert supervised.out == "up\ncancel\n"


def test_cancelling_a_command_that_ignores_it_kills_the_tree(run: Run) -> None:
    supervised = run("trap '' TERM; echo up; (setsid sleep 60 &); sleep 60; sleep 60", grace=0.3)
    supervised.says("up")
    for _ in range(3):
        supervised.process.terminate()
    assert outcome(supervised.end()) == ("CANCELLED", 137, 9)


def test_a_cancellation_while_draining_is_what_is_remembered(run: Run) -> None:
    script = waiting("trap 'echo drains' USR1; trap 'exit 75' TERM; echo up;")
    supervised = run(script, time_limit=30, drain_lead=29.9)
    supervised.says("drains")
    assert supervised.drain == "walltime\n"
    supervised.process.terminate()
    assert supervised.end().state == "CANCELLED"
    assert supervised.drain == "cancel\n"


def test_a_nudge_of_the_supervisor_is_handed_on(run: Run) -> None:
    supervised = run(waiting("trap 'cat drain; exit 75' USR1; echo up;"))
    supervised.says("up")
    supervised.process.send_signal(signal.SIGUSR1)
    assert outcome(supervised.end()) == ("FAILED", 75, 0)
    assert supervised.out == "up\nsignal\n"


@pytest.mark.parametrize(
    "escape",
    [
        "sleep 60 &",
        "setsid sleep 60 &",
        "(setsid sleep 60 &)",
        "env -i setsid sleep 60 &",
        "(env -i setsid sleep 60 &)",
        "(env -i setsid bash -c 'trap \"\" TERM HUP; sleep 60; sleep 60' &)",
    ],
)
def test_whatever_outlives_the_command_is_ended(run: Run, escape: str) -> None:
    mine = f"60.{uuid.uuid4().int % 10**12}"
    supervised = run(f"{escape}\necho up; read -r _ <pipe; exit 5".replace("60", mine), grace=0.3)
    os.mkfifo(supervised.folder / "pipe")
    supervised.says("up")
    until(lambda: any(_program(path) == b"sleep" for path in _running(mine)))
    (supervised.folder / "pipe").write_text("\n")
    assert outcome(supervised.end()) == ("FAILED", 5, 0)
    assert _running(mine) == []


def _running(argument: str) -> list[Path]:
    """Programs with an argument that nobody else gives."""
    return [path for path in Path("/proc").glob("[0-9]*") if argument.encode() in _arguments(path)]


def _arguments(path: Path) -> list[bytes]:
    try:
        return (path / "cmdline").read_bytes().split(b"\0")[1:]
    except OSError:
        return []


def _program(path: Path) -> bytes:
    try:
        return (path / "cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return b""


def _parent(path: Path) -> int:
    try:
        return int((path / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def test_orphans_are_reaped_while_the_command_runs(run: Run) -> None:
    supervised = run("for i in 1 2 3; do (setsid true &); done; sleep 0.3; echo up; exec sleep 60")
    supervised.says("up")
    own = supervised.process.pid
    until(lambda: len([path for path in Path("/proc").glob("[0-9]*") if _parent(path) == own]) == 1)
    supervised.process.terminate()
    supervised.end()


def test_a_killed_supervisor_leaves_no_record_but_its_command_can_be_found(run: Run) -> None:
    supervised = run("exec sleep 60")
    command = supervised.commands_identity()
    supervised.process.kill()
    supervised.process.wait()
    assert read_exit(supervised.folder / "exit") is None
    assert liveness(command) is Liveness.ALIVE
    assert marked(MARKER, supervised.mark) == [command.pid]


def test_a_blocked_signal_is_not_lost_while_the_supervisor_starts(tmp_path: Path) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        supervised = Supervised(tmp_path, ["sleep", "60"], {})
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    supervised.process.terminate()
    assert supervised.end().state == "CANCELLED"


def test_a_drain_file_that_cannot_be_written_does_not_keep_a_command_alive(run: Run, tmp_path: Path) -> None:
    (tmp_path / "drain").mkdir()
    (tmp_path / "drain" / "x").touch()
    supervised = run(waiting("trap 'exit 75' TERM; echo up;"))
    supervised.says("up")
    supervised.process.terminate()
    assert supervised.end().state == "CANCELLED"


# a program that calls `supervise` itself; a function, so that each can add its own lines around the call
IN_PROCESS = """
import os, pathlib, signal, subprocess, sys
from nemo_runs.processes import supervise
def run(*argv, **options):
    folder = pathlib.Path(sys.argv[1])
    names = {name: folder / name for name in ("output", "exit_file", "identity_file", "drain_file")}
    limits = supervise.TimeLimits(None, 0, 5)
    marker = ("NEMO_RUNS_SUPERVISED", sys.argv[2])
    return supervise.supervise(
        argv, cwd=folder, env=os.environ, **names, limits=limits, marker=marker, **options
    )
"""


def says(folder: Path, program: str) -> str:
    """Run a program that begins with the lines above and return what it prints; nothing of it may be left."""
    mark = uuid.uuid4().hex
    argv = [sys.executable, "-c", IN_PROCESS + program, str(folder), mark]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert marked(MARKER, mark) == []
    return done.stdout


def test_an_error_in_on_start_ends_the_command_and_is_raised(tmp_path: Path) -> None:
    program = (
        "def fail(): raise RuntimeError('not today')\n"
        "try: run('sleep', '60', on_start=fail)\n"
        "except RuntimeError as error: print(error)\n"
    )
    assert says(tmp_path, program) == "not today\n"


def test_other_children_of_the_caller_are_left_alone(tmp_path: Path) -> None:
    program = (
        "mine = subprocess.Popen(['sh', '-c', 'read -r _; exit 9'], stdin=-1, start_new_session=True)\n"
        "quick = subprocess.Popen(['sh', '-c', 'exit 8'])\n"
        "end = run('sh', '-c', 'sleep 60 & sleep 0.2')\n"
        "mine.communicate(b'x')\n"
        "print(end.state, mine.returncode, quick.wait())\n"
    )
    assert says(tmp_path, program) == "COMPLETED 9 8\n"


def test_signal_handlers_of_the_caller_are_given_back(tmp_path: Path) -> None:
    program = (
        "signal.signal(signal.SIGTERM, lambda *_: print('mine'))\n"
        "run('true')\n"
        "signal.raise_signal(signal.SIGTERM)\n"
        "print(signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL, signal.set_wakeup_fd(-1))\n"
    )
    assert says(tmp_path, program) == "mine\nTrue -1\n"


def test_a_record_is_read_back_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "exit.json"
    assert read_exit(path) is None
    value = {
        "state": "FAILED",
        "exit_status": 1,
        "signal": 0,
        "started_at": 1.5,
        "ended_at": 2,
        "reason": "x",
    }
    path.write_text(json.dumps({**value, "later": "field"}))
    assert read_exit(path) == Exit("FAILED", 1, 0, 1.5, 2.0, "x")
    for damaged in (
        "",
        "[]",
        "null",
        json.dumps({**value, "state": "DONE"}),
        json.dumps({"state": "FAILED"}),
    ):
        path.write_text(damaged)
        with pytest.raises(RunsError, match="not the record of an end"):
            read_exit(path)


def test_the_program_refuses_a_marker_that_marks_nothing(tmp_path: Path) -> None:
    argv = shim_command(sys.executable, f"--cwd={tmp_path}", "--marker=X=", "--", "true")
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--marker" in done.stderr


def test_a_record_is_written_once_the_disk_has_room_again():
    tries = []

    def write() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise DiskFullError("no room")
        return "written"

    assert patiently(write) == "written"
    assert len(tries) == 3


def test_a_record_that_does_not_fit_is_given_up_when_the_end_is_wanted():
    def write() -> None:
        raise DiskFullError("no room")

    with Signals() as signals:
        signals.cancelled = True
        with pytest.raises(DiskFullError):
            patiently(write, signals)


@pytest.mark.parametrize("number", ["Infinity", "NaN", "-1", "1e18", "[" * 5000])
def test_an_end_with_absurd_numbers_is_no_record_of_an_end(tmp_path, number):
    good = '{"state": "FAILED", "exit_status": 1, "signal": 0, "started_at": 1, "ended_at": %s, "reason": ""}'
    (tmp_path / "exit").write_text(good % number)
    with pytest.raises(RunsError, match="not the record of an end"):
        read_exit(tmp_path / "exit")
