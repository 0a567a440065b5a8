"""Serve one GGUF model over the OpenAI-compatible HTTP API of llama.cpp, inside this process.

The package ``xllamacpp`` brings llama.cpp and its server as one prebuilt library. This module starts it with
the model's own chat template, says where it listens, and ends it quickly when it is asked to.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from nemo_gym import errors

if TYPE_CHECKING:
    from nemo_gym.serving.scorer import Scorer

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_SPARE_HTTP_THREADS = 64
"""A kept-alive connection holds one HTTP thread: without spare ones health checks would wait for clients."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What is served, and how."""

    model: Path
    model_name: str
    host: str
    port: int
    """0 lets the system choose one."""
    api_key: str | None = None
    context: int = 2048
    """Tokens that one request may use, its answer included."""
    parallel: int = 4
    """Requests that are computed at the same time; more wait their turn."""
    threads: int | None = None
    """CPU threads; ``None`` takes all cores that this process may use but one.

    The threads wait for each other without sleeping: one that has to share its core, with the client on the
    same machine, say, holds up all of them (measured on two cores under load: 0.4 answers a second, not 5).
    """
    verbose: bool = False
    likelihoods: bool = False
    """Answer requests for the log-probability of each token of a prompt too; the model is loaded twice then,
    from the same pages of its file."""


def serve(options: ServeOptions, announce: Callable[[str], None]) -> NoReturn:
    """Serve until SIGTERM or SIGINT; the process ends then, with status 0, or by the signal while it loads.

    ``announce`` gets the address, ``http://HOST:PORT``, once the model answers there.
    Raises `ConfigError` when the library is missing or the model cannot be loaded.
    """
    # The library holds the interpreter while it loads: only the system's own action ends the process then.
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    behind = replace(options, host="127.0.0.1", port=0) if options.likelihoods else options
    server = _start(behind)
    address = str(server.listening_address)
    if options.likelihoods:
        _serve_before(address, options, announce)
    _leave_at_signals()
    announce(address)
    while True:
        signal.pause()


def _serve_before(behind: str, options: ServeOptions, announce: Callable[[str], None]) -> NoReturn:
    """Serve what llama.cpp's server has not, and pass on to it all that it has."""
    from nemo_gym.serving.scorer import Scorer

    scorer = Scorer(options.model, context=options.context, threads=options.threads or _default_threads())
    _leave_at_signals()
    asyncio.run(_answer(scorer, behind, options, announce))
    raise AssertionError("a server answers until a signal ends the process")


async def _answer(
    scorer: Scorer, behind: str, options: ServeOptions, announce: Callable[[str], None]
) -> None:
    from aiohttp import web

    from nemo_gym.serving.front import Front

    front = Front(scorer, behind, model_name=options.model_name, api_key=options.api_key)
    runner = web.AppRunner(front.application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, options.host, options.port)
    try:
        await site.start()
    except OSError as error:
        where = f"{options.host}:{options.port}"
        raise errors.ConfigError(f"cannot listen on {where}: {error.strerror or error}") from error
    port = runner.addresses[0][1]
    announce(f"http://{options.host}:{port}")
    await asyncio.Event().wait()


def _leave_at_signals() -> None:
    """From now on end at a stop signal, whichever thread gets it and whatever the main thread waits for.

    Python runs handlers in the main thread only, between two of its own steps. Of a signal that another
    thread got, or that came just before the main thread began to wait, it would hear after that wait: never.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    threading.Thread(target=_leave_when_signalled, args=(reader,), name="stop signals", daemon=True).start()
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _STOP_SIGNALS:
        signal.signal(number, _leave)


def _leave_when_signalled(reader: int) -> None:
    """Read the numbers of signals that came until one is a stop signal."""
    while os.read(reader, 1)[0] not in _STOP_SIGNALS:
        pass
    os._exit(errors.EXIT_DONE)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    """End at once: the library's own way waits for requests in flight, and nothing here needs to be saved."""
    os._exit(errors.EXIT_DONE)


def _start(options: ServeOptions) -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        message = (
            f"xllamacpp, which serves models, cannot be imported ({error}); pip install 'nemo-baton[serve]'"
        )
        raise errors.ConfigError(message) from error
    try:
        return xllamacpp.Server(_parameters(xllamacpp, options))
    except RuntimeError as error:
        where = f"{options.model} on {options.host}:{options.port}"
        message = f"llama.cpp could not serve {where}; the lines above say why"
        raise errors.ConfigError(message) from error


def _parameters(xllamacpp: Any, options: ServeOptions) -> Any:
    threads = options.threads or _default_threads()
    settings = {
        "hostnames": [options.host],
        "port": options.port,
        "model_alias": {options.model_name},
        "api_keys": [options.api_key] if options.api_key else [],
        "use_jinja": True,  # the chat template of the model itself
        "n_ctx": options.context * options.parallel,  # the library divides it among the parallel requests
        "n_parallel": options.parallel,
        "n_threads_http": options.parallel + _SPARE_HTTP_THREADS,
        "fit_params": False,  # what was asked for, or an error: never a silently smaller context
        "cache_ram_mib": 0,  # no store of old prompts beside the context
        "warmup": False,
        "offline": True,
        "ui": False,
        "endpoint_slots": False,  # would show other clients' prompts
        "cors_origins": "",
        "verbosity": 3 if options.verbose else 1,
    }
    parameters = xllamacpp.CommonParams()
    for name, value in settings.items():
        setattr(parameters, name, value)
    parameters.model.path = str(options.model)
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    return parameters


def _default_threads() -> int:
    return max(1, _cores() - 1)


def _cores() -> int:
    """Cores that this process may use; all of the machine's where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
