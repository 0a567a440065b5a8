"""Pages as their readers follow them: blocks in order, commands typed into a shell, files saved as shown."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(sys.executable).parent
COMMANDS = ("sh", "bash", "console")
LANGUAGES = (*COMMANDS, "yaml", "python", "json", "toml")
"""What a reader does something with; a block without a language shows an output or a folder."""

_TIDY = "trap 'kill $(jobs -p) 2>/dev/null || :' EXIT"
_BLOCK = re.compile(r"^```(?P<language>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a page."""

    page: str
    language: str
    text: str

    @property
    def begins(self) -> str:
        """Its first line, by which tables name it."""
        return self.text.partition("\n")[0]

    @property
    def script(self) -> str:
        """Its commands; what a console shows below them is left out."""
        if self.language != "console":
            return self.text
        return "".join(f"{line[2:]}\n" for line in self.text.splitlines() if line.startswith("$ "))


def blocks(page: str) -> list[Block]:
    """The blocks of a page, named relative to the project's folder, that have a language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = (Block(page, match["language"], match["text"]) for match in _BLOCK.finditer(text))
    return [block for block in found if block.language in LANGUAGES]


def pages() -> list[str]:
    """Every page that has such blocks."""
    names = ["CONTRIBUTING.md", "README.md", "bench/README.md"]
    names += [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/**/*.md"))]
    return [name for name in names if blocks(name)]


@dataclass
class Page:
    """A page, and a folder in which it is followed from its first block to its last."""

    name: str
    folder: Path
    passed_over: Callable[[Block], bool]
    """Whether a block is one that is not run here."""
    environ: dict[str, str] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)
    """What a reader puts in the place of a name or an address of the page."""
    rest: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    said: str = ""
    """What the last commands printed."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        home = self.folder / "home"
        home.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "NHX_"))}
        self.environ = {
            **kept,
            "HOME": str(home),
            "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
            "NEMO_LEASES_DIR": str(home / "leases"),
        }
        self.left = [block for block in blocks(self.name) if not self.passed_over(block)]

    def next(self, *languages: str) -> Block:
        """Take the next block, which must be in one of these languages."""
        assert self.left, f"{self.name} has no block left"
        block = self.left.pop(0)
        assert block.language in languages, f"{self.name}: {block.begins!r} is not {languages}"
        return block

    def filled(self, text: str) -> str:
        """A text with what a reader puts in."""
        for shown, real in self.replaced.items():
            text = text.replace(shown, real)
        return text

    def run(self, *, each: Callable[[str], None] | None = None, status: int = 0) -> str:
        """Type the commands of the next block; returns what they print.

        With ``each``, every command is typed by itself, after ``each`` has been told it: for blocks that
        show what one may do, and not one thing after the other. ``status`` is that of the last command.
        """
        script = self.filled(self.next(*COMMANDS).script)
        if each is None:
            return self.type(script, status=status)
        for line in script.replace("\\\n", " ").splitlines():
            each(line)
            self.type(self.filled(line), status=status)
        return self.said

    def type(self, script: str, *, status: int = 0) -> str:
        """Type commands into a shell that ends at the first failure."""
        with self._shell(script) as shell:
            self.said = shell.communicate(timeout=300)[0]
            assert shell.returncode == status, f"{self.name}:\n{script}\n{shell.returncode}:\n{self.said}"
        return self.said

    def serve(self, until: str, *, seconds: float = 60) -> None:
        """Type the next block, whose last command stays until it is interrupted; it must say ``until``.

        Interrupted, it must end well within some seconds.
        """
        script = self.filled(self.next(*COMMANDS).script)
        with self._shell(script) as shell:
            watchdog = threading.Timer(120, os.killpg, (shell.pid, signal.SIGKILL))
            watchdog.start()
            try:
                assert shell.stdout is not None
                lines: list[str] = []
                while until not in (line := shell.stdout.readline()):
                    lines.append(line)
                    assert line, f"{self.name}: {until!r} was not said:\n{''.join(lines)}"
            finally:
                watchdog.cancel()
            os.killpg(shell.pid, signal.SIGINT)
            rest = shell.communicate(timeout=seconds)[0]
            assert shell.returncode == 0, f"{self.name}:\n{script}\n{shell.returncode}:\n{rest}"

    @contextlib.contextmanager
    def _shell(self, script: str) -> Iterator[subprocess.Popen[str]]:
        """A shell in a session of its own, which at its end ends what it left in the background.

        Nothing of it outlives a failure.
        """
        with subprocess.Popen(
            ["bash", "-e", "-c", f"{_TIDY}\n{script}"],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as shell:
            try:
                yield shell
            except BaseException:
                if shell.returncode is None:  # not reaped: the number is still the shell's
                    os.killpg(shell.pid, signal.SIGKILL)
                raise

    def save(self, path: str, *languages: str, more: str = "") -> Path:
        """Save the next block as a file, with ``more`` behind it."""
        return self.write(path, self.filled(self.next(*(languages or ("yaml",))).text) + more)

    def write(self, path: str, text: str) -> Path:
        """Write a file of the folder."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    def yaml(self) -> Any:
        """What the next block says, as YAML."""
        return yaml.safe_load(self.filled(self.next("yaml").text))

    def start(self, argv: list[str], says: str) -> str:
        """Start a program that stays until the page is done; returns its first line with ``says``."""
        log = (self.folder / f"started-{len(list(self.folder.glob('started-*')))}").open("w+")
        process = subprocess.Popen(
            argv, cwd=self.folder, env=self.environ, stdout=log, stderr=subprocess.STDOUT, text=True
        )
        self.rest.callback(log.close)
        self.rest.callback(process.wait, 60)
        self.rest.callback(process.terminate)
        end = time.monotonic() + 120
        while True:
            text = Path(log.name).read_text()
            found = [line for line in text.splitlines() if says in line]
            if found:
                return found[0]
            assert process.poll() is None, text
            assert time.monotonic() < end, text
            time.sleep(0.05)


def merged(base: Mapping[str, Any], fragment: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with a part of it changed, as somebody does who follows a page."""
    both = dict(base)
    for key, value in fragment.items():
        inner = both.get(key)
        both[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return both
