"""The process that serves a model: one of ours in an engine's interpreter, or vLLM."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from nemo_models import engine
from nemo_models.errors import ModelsError
from nemo_models.local_models import LocalModel

KEY_VARIABLE = "NEMO_GYM_SERVICE_API_KEY"
"""Where a served model takes the key from that clients must send; a command line can be read by everybody."""
_SERVER = "nemo_engines.answering.server"
_VLLM_KEY = "VLLM_API_KEY"
_STOPPING = 10.0
"""Seconds in which a server that was asked to end may do so."""
_READY = 1800.0
"""Seconds within which vLLM must answer: it compiles kernels for a new model."""


@dataclass(frozen=True, slots=True)
class ServeRequest:
    """What is served, and where."""

    model: LocalModel
    name: str
    """What clients call it."""
    base_name: str | None = None
    """What they call its base model, where that is to answer too."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 is any free one."""
    key: str | None = None
    device: str | None = None
    """``cpu`` or ``cuda``; what the machine has unless given."""
    threads: int | None = None
    """CPU threads; all cores but one unless given."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that answers."""

    url: str
    """With its ``/v1``."""
    names: Sequence[str]
    process: subprocess.Popen[str]


@contextmanager
def served(request: ServeRequest, *, quiet: bool) -> Iterator[ServedModel]:
    """Serve a model in an engine's interpreter until the block ends; raises `ModelsError` where it cannot.

    ``quiet`` keeps what the process says on stderr to the reason why it did not start.
    """
    found = engine.find()
    argv = found.argv(_SERVER, *_arguments(request))
    extra = {KEY_VARIABLE: request.key} if request.key else {}
    variables = {name: value for name, value in found.variables().items() if name != KEY_VARIABLE}
    variables.pop("OMP_NUM_THREADS", None)  # of trainings; the server counts the cores itself
    with _process(argv, {**variables, **extra}, quiet=quiet) as (process, said):
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise ModelsError(said.why(process))
        document = json.loads(line)
        yield ServedModel(document["url"], document["models"], process)


def _arguments(request: ServeRequest) -> Iterator[str]:
    model = request.model
    yield from (str(model.folder), "--name", request.name, "--until-stdin-ends")
    yield from ("--host", request.host, "--port", str(request.port))
    if model.base is not None:
        yield from ("--base", str(model.base.folder))
    if request.base_name is not None:
        yield from ("--base-name", request.base_name)
    if request.device is not None:
        yield from ("--device", request.device)
    if request.threads is not None:
        yield from ("--threads", str(request.threads))


def vllm_program() -> str | None:
    """The program of vLLM, where it is installed on this machine's path."""
    return shutil.which("vllm")


@contextmanager
def served_by_vllm(request: ServeRequest, program: str, extra: Sequence[str] = ()) -> Iterator[ServedModel]:
    """Serve a model by vLLM until the block ends; ``extra`` are options of ``vllm serve``."""
    port = request.port or _free_port(request.host)
    argv = [program, *vllm_arguments(request, port), *extra]
    variables = {name: value for name, value in os.environ.items() if name not in (KEY_VARIABLE, _VLLM_KEY)}
    key = {_VLLM_KEY: request.key} if request.key else {}
    with _process(argv, {**variables, **key}, quiet=False, own_stdout=True) as (process, said):
        shown = f"[{request.host}]" if ":" in request.host else request.host
        address = f"http://{shown}:{port}"
        until = time.monotonic() + _READY
        while not _healthy(address):
            if process.poll() is not None:
                raise ModelsError(said.why(process))
            if time.monotonic() > until:
                raise ModelsError(f"vLLM has not answered at {address} within {_READY / 60:.0f} min")
            time.sleep(0.5)
        names = [request.name] + ([request.base_name] if request.base_name else [])
        yield ServedModel(f"{address}/v1", names, process)


def vllm_arguments(request: ServeRequest, port: int | str) -> list[str]:
    """The words behind ``vllm``: an adapter goes beside its base model, which has a name of its own."""
    model = request.model
    base = model.base if model.adapter else None
    served = request.name if base is None else request.base_name or f"{request.name}-base"
    words = ["serve", str((base or model).folder), "--host", request.host, "--port", str(port)]
    words += ["--served-model-name", served]
    if base is not None:
        rank = max(8, _rank(model.folder))
        words += ["--enable-lora", "--lora-modules", f"{request.name}={model.folder}"]
        words += ["--max-lora-rank", str(next(size for size in _VLLM_RANKS if size >= rank))]
    return words


_VLLM_RANKS = (8, 16, 32, 64, 128, 256, 320, 512, 1 << 30)
"""Ranks of adapters that vLLM takes; the last one it refuses itself."""


def _rank(adapter: Path) -> int:
    try:
        found: Mapping[str, Any] = json.loads((adapter / "adapter_config.json").read_bytes())
        ranks = [found.get("r"), *(found.get("rank_pattern") or {}).values()]
        return max(int(one) for one in ranks if one)
    except (OSError, ValueError, TypeError) as error:
        raise ModelsError(f"{adapter} does not say the rank of its adapter") from error


def _free_port(host: str) -> int:
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


def _healthy(address: str) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"{address}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


class _Said:
    """What a process says on stderr: kept until it answers, and passed on where that is wanted."""

    def __init__(self, stream: IO[str], *, quiet: bool) -> None:
        self._lines: list[str] = []
        self._quiet = quiet
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            if not self._quiet:
                sys.stderr.write(line)
                sys.stderr.flush()
            self._lines = [*self._lines[-50:], line]

    def why(self, process: subprocess.Popen[str]) -> str:
        """The sentence with which it ended."""
        status = process.wait()
        self._thread.join(timeout=5)
        found = engine.last_line("".join(self._lines))
        return found or f"the server of the model ended with {status} before it answered"


@contextmanager
def _process(
    argv: Sequence[str], variables: Mapping[str, str], *, quiet: bool, own_stdout: bool = False
) -> Iterator[tuple[subprocess.Popen[str], _Said]]:
    """A process group of its own, so that Ctrl-C is heard here alone; it ends with this process."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=sys.stderr if own_stdout else subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=dict(variables),
        start_new_session=True,
    )
    assert process.stderr is not None
    try:
        yield process, _Said(process.stderr, quiet=quiet)
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_STOPPING)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
