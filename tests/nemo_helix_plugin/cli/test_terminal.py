"""The program as a process: on a terminal of 80 and 120 columns, interrupted, piped."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

NEMO = Path(sys.executable).parent / "nemo"
PAUSED, ACTIVE, FAILED = "automodel-a1b2c3d4e5f6", "unsloth-0000000000aa", "rl-ffffffffffff"

LIST_80 = """\
name                    status     created at         note
unsloth-0000000000aa    active     2026-11-01T10:00Z  step 40 of 100 (40%)
automodel-a1b2c3d4e5f6  paused     2026-11-01T10:00Z  kept # d more, step 40
                                                      of 100 (40%)
rl-ffffffffffff         error      2026-11-01T10:00Z  CUDA ran out of memory
done-1                  completed  2026-11-01T10:00Z
"""
GET_80 = """\
■ automodel-a1b2c3d4e5f6  paused
  workspace  default
  source     customization
  progress   ━━━━━━━━━━────────────── step 40 of 100 (40%)
  storage    kept until 2099-01-01 00:00 UTC, # d left
  created    2026-11-01T10:00:00Z  # d ago
  updated    2026-11-01T11:30:00Z  # d ago
  steps
    ■ training  paused  step 40 of 100 (40%)
  next       nemo jobs resume automodel-a1b2c3d4e5f6 --workspace default
"""
FAILED_80 = """\
✗ rl-ffffffffffff  error
  workspace  default
  source     customization
  error      CUDA ran out of memory
  advice     halve the batch
  warning    the same failure is likely: CUDA ran out of memory
  created    2026-11-01T10:00:00Z  # d ago
  updated    2026-11-01T11:30:00Z  # d ago
  steps
    ✗ training  error
  next       nemo jobs rerun rl-ffffffffffff --workspace default
"""
CHECKPOINTS_80 = """\
id                  step    size  verified  created at         note
ckpt-40-0a1b2c3d4e    40  123 MB  yes       2026-11-01T10:00Z  pause, train_loss
                                                               0.5
ckpt-20-0a1b2c3d4e    20  123 MB  no        2026-11-01T10:00Z  model.bin has 3
                                                               bytes, not 5,
                                                               train_loss 0.5
ckpt-10-0a1b2c3d4e    10  123 MB  yes       2026-11-01T10:00Z  pinned, periodic,
                                                               train_loss 0.5
"""
CHECKPOINTS_120 = """\
id                  step    size  verified  created at            note
ckpt-40-0a1b2c3d4e    40  123 MB  yes       2026-11-01T10:00:00Z  pause, train_loss 0.5
ckpt-20-0a1b2c3d4e    20  123 MB  no        2026-11-01T10:00:00Z  model.bin has 3 bytes, not 5, train_loss 0.5
ckpt-10-0a1b2c3d4e    10  123 MB  yes       2026-11-01T10:00:00Z  pinned, periodic, train_loss 0.5
"""
CHECKPOINT_80 = """\
ckpt-20-0a1b2c3d4e  step 20
  job        done-1 in default
  saved      2026-11-01T10:00:00Z  # d ago, periodic
  size       123 MB
  verified   no: model.bin has 3 bytes, not 5
  metrics    train_loss 0.5
  pinned     no
"""
PROFILES_80 = """\
profile  backend     provider    settings
default  subprocess  subprocess  log_bytes 67108864, default_task_image
                                 registry/image
"""


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(self, columns, *words, kind="xterm-256color"):
        control, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        environ = {**os.environ, "TERM": kind, "PYTHONUTF8": "1"}
        for name in ("COLUMNS", "NO_COLOR"):
            environ.pop(name, None)
        self.program = subprocess.Popen(
            [str(NEMO), *words],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environ,
            start_new_session=True,
        )
        os.close(terminal)
        self._control = control
        self.seen = b""

    def until(self, text=None, seconds=60):
        """Read until the text was shown, or the program has ended; return everything so far."""
        deadline = time.monotonic() + seconds
        while text is None or text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            ready, _, _ = select.select([self._control], [], [], 0.2)
            if ready:
                try:
                    piece = os.read(self._control, 65536)
                except OSError:  # the other end is closed: the program has ended
                    break
                self.seen += piece
        return self.seen.decode()

    def close(self):
        self.program.wait(60)
        os.close(self._control)
        return self.program.returncode


def shown(columns, *words):
    """What a person sees at the end, without colours and spaces at line ends; numbers of days as #."""
    terminal = Terminal(columns, *words)
    text = terminal.until()
    assert terminal.close() == 0, text
    assert "\x1b[" in text  # in colour
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    plain = re.sub(r"\b\d+ d (?:\d+ h )?(more|left|ago)", r"# d \1", plain)
    return "".join(f"{line.rstrip()}\n" for line in plain.replace("\r", "").splitlines())


@pytest.mark.parametrize(
    ("columns", "words", "text"),
    [
        (80, ("jobs", "list"), LIST_80),
        (80, ("jobs", "get", PAUSED), GET_80),
        (80, ("jobs", "get", FAILED), FAILED_80),
        (80, ("jobs", "checkpoints", "list", "done-1"), CHECKPOINTS_80),
        (120, ("jobs", "checkpoints", "list", "done-1"), CHECKPOINTS_120),
        (80, ("jobs", "checkpoints", "get", "ckpt-20-0a1b2c3d4e", "--job", "done-1"), CHECKPOINT_80),
        (80, ("jobs", "list-execution-profiles"), PROFILES_80),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_a_person_sees(service, columns, words, text):
    assert shown(columns, *words) == text


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(service, columns):
    for words in (("jobs", "list"), ("jobs", "checkpoints", "list", "done-1"), ("jobs", "get", FAILED)):
        lines = shown(columns, *words).splitlines()
        wide = [line for line in lines if len(line) > columns and not line.startswith("  next")]
        assert wide == []


def test_a_watch_on_a_terminal_that_cannot_move_writes_whole_lines_only(service):
    terminal = Terminal(80, "jobs", "watch", ACTIVE, "--poll-interval", "0.5", kind="dumb")
    terminal.until(b"step 5 loss")
    os.killpg(terminal.program.pid, signal.SIGINT)
    text = terminal.until()
    assert terminal.close() == 130
    assert "\x1b" not in text
    assert "\r" not in text.replace("\r\n", "")


def test_a_watch_that_is_interrupted_says_that_the_job_still_runs(service):
    terminal = Terminal(80, "jobs", "watch", ACTIVE, "--poll-interval", "0.5")
    terminal.until(b"step 5 loss")
    os.killpg(terminal.program.pid, signal.SIGINT)
    text = terminal.until()
    assert terminal.close() == 130
    assert f"job '{ACTIVE}' still runs" in text
    assert "Traceback" not in text


def test_a_reader_that_leaves_is_no_error_worth_a_traceback(service):
    service.lines = [f"line {number} " + "x" * 200 for number in range(5000)]
    command = f"'{NEMO}' jobs get-logs done-1 --all-pages -f table | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.endswith("x" * 200 + "\n")
    assert done.stderr == ""
