"""A model of the Jobs service's registry, or a folder with one, as something that can be served here.

The program `nemo` of the same installation finds it and fetches its files; nothing of it is imported.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_gym.errors import ConfigError
from nemo_gym.serving.access import KEY_VARIABLE

_STOPPING = 30.0
"""Seconds in which a server that was asked to end may do so."""


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """A model whose files are on this machine."""

    name: str
    """What it is called when it is served."""
    folder: Path
    digest: str
    """``sha256:…`` of its files, those of the base model of an adapter included."""
    adapter: bool
    base: Path | None = None
    """The folder of an adapter's base model."""

    def serve(self, port: int | str) -> list[str]:
        """The words of the command that serves it."""
        words = [str(nemo_program()), "models", "serve", str(self.folder), "--model-name", self.name]
        words += ["--base", str(self.base)] if self.base is not None else []
        return [*words, "--port", str(port)]

    @property
    def command(self) -> str:
        """The same as shell text in which ``{port}`` stands for the port, as submit files have it."""
        return f"{shlex.join(self.serve(0)[:-1])} {{port}}"


def nemo_program() -> Path:
    """The program `nemo` beside this interpreter, or the one on PATH; `ConfigError` when there is none."""
    beside = Path(sys.executable).with_name("nemo")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("nemo")
    if found is None:
        raise ConfigError("the program `nemo`, which knows the models of the service, is not installed here")
    return Path(found)


def find(name: str) -> RegisteredModel:
    """The model of that name, or of that folder, its files fetched; `ConfigError` says why there is none."""
    done = _nemo(["models", "fetch", name, "--json"])
    if done.returncode != 0:
        raise ConfigError(_sentence(done.stderr) or f"`nemo models fetch` ended with {done.returncode}")
    try:
        return _read(json.loads(done.stdout))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError("`nemo models fetch` has not said where the model is") from error


def _nemo(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run `nemo`; what it reports is passed on as it comes, except its last line where that is an error."""
    argv, last = [str(nemo_program()), *arguments], ""
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in filter(str.strip, process.stderr):
            sys.stderr.write(last)
            sys.stderr.flush()
            last = line
        out = process.stdout.read()  # one document, which fits into a pipe
    if process.returncode == 0:
        sys.stderr.write(last)
    return subprocess.CompletedProcess(argv, process.returncode, out, last)


def _sentence(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1].removeprefix("nemo: ").rstrip(".") if lines else ""


def _read(found: Mapping[str, Any]) -> RegisteredModel:
    base = found["base"] if found["kind"] == "adapter" else None
    return RegisteredModel(
        name=str(found["name"]),
        folder=Path(found["folder"]),
        digest=str(found["digest"]),
        adapter=found["kind"] == "adapter",
        base=Path(base["folder"]) if base else None,
    )


@dataclass(frozen=True, slots=True)
class ServedAddress:
    """Where a model answers."""

    url: str
    """With its ``/v1``."""
    key_variable: str
    """The variable of this process that holds the key."""


@contextmanager
def served(model: RegisteredModel) -> Iterator[ServedAddress]:
    """Serve a model until the block ends; `ConfigError` where that fails.

    Signals of the terminal are for this process alone; the server ends with it, however it ends.
    """
    key = secrets.token_urlsafe(24)
    process = subprocess.Popen(
        [*model.serve(0), "--until-stdin-ends"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, KEY_VARIABLE: key},
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise ConfigError(f"the model {model.name} could not be served; the lines above say why")
        os.environ[KEY_VARIABLE] = key
        yield ServedAddress(address, KEY_VARIABLE)
    finally:
        os.environ.pop(KEY_VARIABLE, None)
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """End the server with the processes that it has started."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOPPING)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
