"""Run every command of a tutorial of the Jobs service, and write what they print into the page.

A block that names a file (```` ```yaml job.yaml ````) becomes that file. The commands of ```` ```console ````
blocks run in order, on a pseudo terminal, in an empty home. A comment ``<!-- until NAME STATUS STEP -->``
waits, as a reader would, until the job has got so far. The page shows port 8080, the user ``you`` and that
home, in which the project is in ``baton``; ids, times and numbers are of one run, and only they, and curves
drawn of them, may differ when the page is checked. What a Python program of the page prints is shown whole.

    python scripts/write_tutorial.py [--check] [PAGE]
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import getpass
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tutorial" / "pause-resume-rerun.md"
COLUMNS = 100
DEADLINE = 120.0
SHOWN_HOME = "/home/you"
SHOWN_PORT = "8080"
SERVICE = "nemo services run"

_PIECES = re.compile(
    r"^<!-- until (?P<until>\S+ \S+ \d+) -->$"
    r"|^```(?P<language>\w+)(?: (?P<file>\S+))?\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A command and what it printed, as the page has them."""

    command: str
    output: str


def shown(page: str) -> list[Shown]:
    """Every command of the page with its output."""
    bodies = [match["body"] for match in _PIECES.finditer(page) if match["language"] == "console"]
    return [one for body in bodies for one in split(body)]


def split(body: str) -> Iterator[Shown]:
    """The commands of one block."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield Shown(command, output)


def write(page: str) -> str:
    """The page with what its commands print now."""
    with (
        tempfile.TemporaryDirectory(prefix="tutorial-") as folder,
        contextlib.closing(Session(Path(folder).resolve())) as session,
    ):
        return _PIECES.sub(lambda match: _piece(match, session), page)


def _piece(match: re.Match[str], session: Session) -> str:
    if match["until"]:
        name, status, step = match["until"].split()
        session.until(name, status, int(step))
    elif match["file"]:
        (session.home / match["file"]).write_text(
            match["body"].replace(SHOWN_HOME, str(session.home)), encoding="utf-8"
        )
    elif match["language"] == "console":
        commands = map(session.known, (one.command for one in split(match["body"])))
        texts = [f"$ {command}\n{session.run(command)}" for command in commands]
        return f"```console\n{''.join(texts)}```"
    return match[0]


class Session:
    """A home of its own, a service in it, and a terminal."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "baton").symlink_to(ROOT)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])
        self._service: Terminal | None = None
        self._ids: dict[str, str] = {}

    def run(self, command: str) -> str:
        """What a command prints, as the page shows it."""
        terminal = Terminal(command.replace(SHOWN_PORT, self.port), self.home, self._environment())
        if command == SERVICE:
            self._service = terminal
            return self._cleaned(terminal.first_line())
        output = self._cleaned(terminal.to_the_end(), whole=command.startswith("python "))
        for found in re.finditer(r"\b(ckpt-\d+-)[0-9a-f]{10}\b", output):
            self._ids[found[1]] = found[0]
        return output

    def known(self, command: str) -> str:
        """A command with the checkpoints of this session in place of those of the page."""
        for name, checkpoint in self._ids.items():
            command = re.sub(rf"{name}[0-9a-f]{{10}}\b", checkpoint, command)
        return command

    def until(self, name: str, status: str, step: int) -> None:
        """Wait until a job has a status and has come to a step; 0: any."""
        end = time.monotonic() + DEADLINE
        while True:
            found = self._job(name)
            done = found["status_details"].get("step") or 0
            if found["status"] == status and done >= step:
                return
            if time.monotonic() > end:
                raise TimeoutError(f"{name} is {found['status']} at step {done}, not {status} at {step}")
            time.sleep(0.1)

    def close(self) -> None:
        """End the service."""
        if self._service is not None:
            self._service.stop()

    def _job(self, name: str) -> dict[str, Any]:
        path = f"/apis/jobs/v2/workspaces/default/jobs/{name}"
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            job: dict[str, Any] = json.load(answer)
        return job

    def _environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "NO_COLOR": "1",
            "NHX_PORT": self.port,
            "NEMO_LEASES_DIR": str(self.home / ".leases"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _cleaned(self, raw: str, *, whole: bool = False) -> str:
        text = re.sub(r"\x1b\[[0-9;]*m", "", raw).replace("\r\n", "\n")
        text = "".join(f"{line.rpartition(_CLEARED)[2].rstrip()}\n" for line in text.split("\n")).rstrip("\n")
        text = text.replace(str(self.home), SHOWN_HOME).replace(self.port, SHOWN_PORT)
        text = text.replace(str(ROOT), f"{SHOWN_HOME}/baton").replace(f"({getpass.getuser()})", "(you)")
        return f"{text if whole else shortened(text)}\n" if text else ""


_CLEARED = "\r\x1b[K"


class Terminal:
    """One command, whose output goes to a terminal."""

    def __init__(self, command: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._reader: threading.Thread | None = None
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec {command}" if command == SERVICE else command],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=environment,
        )
        os.close(theirs)

    def first_line(self) -> str:
        """Its first line; it runs on, and what else it says is read away, or it would have to wait."""
        text = b""
        while b"\n" not in text and (more := self._read()):
            text += more
        self._reader = threading.Thread(target=self._read_away)
        self._reader.start()
        return text.partition(b"\n")[0].decode()

    def to_the_end(self) -> str:
        """All that it prints."""
        text = b""
        while more := self._read():
            text += more
        self._end()
        return text.decode()

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._process.send_signal(signal.SIGTERM)
        if self._reader is not None:
            self._reader.join(DEADLINE)
        self._end()

    def _read_away(self) -> None:
        while self._read():
            pass

    def _read(self) -> bytes:
        try:
            return os.read(self._ours, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # what a terminal says whose other side is closed
                raise
            return b""

    def _end(self) -> None:
        self._process.wait(timeout=DEADLINE)
        os.close(self._ours)


def shortened(text: str) -> str:
    """Of more than three lines in a row that say the same but for numbers, the first and the last."""
    kept: list[list[str]] = []
    for line in text.split("\n"):
        if kept and masked(kept[-1][0]) == masked(line):
            kept[-1].append(line)
        else:
            kept.append([line])
    return "\n".join(line for run in kept for line in (run if len(run) <= 3 else [run[0], "...", run[-1]]))


_UNITS = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
_DURATION = rf"\d+ (?:{'|'.join(_UNITS)})(?: \d+ (?:{'|'.join(_UNITS)}))*"


def _rounded(duration: str) -> str:
    """A duration to its nearest whole unit, which seconds more or less do not change: 6 d 23 h is 7d."""
    counts = re.findall(r"(\d+) (\w+)", duration)
    seconds = sum(int(count) * _UNITS[unit] for count, unit in counts)
    unit = next(unit for unit, size in _UNITS.items() if seconds >= 0.9 * size or unit == "s")
    return f"{round(seconds / _UNITS[unit])}{unit}"


_MASKS: Sequence[tuple[str, str | Callable[[re.Match[str]], str]]] = (
    (r"(?m)^\.\.\.$\n?", ""),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z)?", "TIME"),
    (r"\b(platform-job(-\w+)*|ckpt-\d+|task)-[0-9A-Za-z]{10,}\b", r"\1-ID"),
    (rf"\b(now|{_DURATION} ago)\b", "AGO"),
    (r"[━─]+", "BAR"),
    (r"(?m)^ *│.*$", "CURVE"),
    (rf"\b{_DURATION}(?= left\b)", lambda match: _rounded(match[0])),
    (r"(?<!continuing from step )\b\d+(\.\d+)?(e-\d+)?\b", "N"),
    (r'"/\S+/nemo_trainer/', '"…/nemo_trainer/'),
    (r"[ \t]+", " "),
)


def masked(text: str) -> str:
    """A text without what differs between two runs that did the same."""
    for pattern, to in _MASKS:
        text = re.sub(pattern, to, text)
    return text


def comparable(output: str) -> list[str]:
    """The lines of an output, masked, each that is repeated once."""
    lines = [line.strip() for line in masked(output).split("\n")]
    return [line for i, line in enumerate(lines) if i == 0 or line != lines[i - 1]]


def differences(page: str, again: str) -> list[str]:
    """What a page says of its commands, and what they say now, where that is not the same."""
    return [
        f"$ {before.command}\n--- the page\n{before.output}--- now\n{now.output}"
        for before, now in zip(shown(page), shown(again), strict=True)
        if comparable(before.output) != comparable(now.output)
    ]


def main() -> int:
    """Write the page anew; with ``--check`` say what it does not say as it is."""
    given = [word for word in sys.argv[1:] if word != "--check"]
    path = Path(given[0]) if given else PAGE
    page = path.read_text(encoding="utf-8")
    again = write(page)
    if "--check" not in sys.argv:
        path.write_text(again, encoding="utf-8")
        return 0
    found = differences(page, again)
    sys.stdout.write("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
