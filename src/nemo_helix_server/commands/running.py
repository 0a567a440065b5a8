"""Running the service: its data directory, its socket, its server, and an end that leaves jobs alone."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from nemo_helix_server import app, executor_kinds, settings
from nemo_helix_server.auth import step_tokens
from nemo_helix_server.commands import connections, copied_data, holder, listening
from nemo_helix_server.customizer.backends import registry
from nemo_helix_server.engines.environments import cache_folder
from nemo_helix_server.errors import ServerError
from nemo_helix_server.isolation import Isolation, judge
from nemo_helix_server.pages import entering
from nemo_helix_server.pages.sessions import PageSessions
from nemo_helix_server.service.token_store import TokenStore
from nemo_helix_server.settings import Settings
from nemo_helix_server.storage import filesystem_kind
from nemo_helix_server.store.store import JobStore
from nemo_runs.addresses import is_loopback
from nemo_runs.clock import SystemClock, wire
from nemo_runs.counts import counted
from nemo_runs.durations import duration_in_words

_GRACE_SECONDS = 1
"""How long requests that are under way may take when the service stops."""
_SWITCH_SECONDS = 0.001
"""How long one thread may keep the others waiting: requests wait for the controller's passes otherwise."""
_LOG = logging.getLogger(__name__)


class OpenToOthersError(ServerError):
    """The service would listen where others reach it, without anybody having to say who they are."""


def run(
    settings_file: Path | None, overrides: Mapping[str, Any], *, as_json: bool, take_over: bool = False
) -> int:
    """Run the service until it is asked to stop; returns the exit status.

    ``take_over``: the data directory may be a copy, whose original no service uses any more.
    """
    given = settings.load(settings_file, overrides=overrides)
    _set_up_logging(given.log_level)
    data_dir = holder.prepare(given.data_dir)
    given = given.model_copy(update={"data_dir": data_dir})
    _warn_of_network(given)
    _warn_of_packages()
    lock = holder.lock(data_dir)
    clock = SystemClock()
    store = JobStore(given.store_url(), clock)
    try:
        store.migrate()
        copied_data.require_original(data_dir, store, take_over=take_over)
        token_store = TokenStore(store, clock)
        required = needs_tokens(given, any_token=token_store.any_usable())
        step_tokens.load_key(data_dir)
        hidden = (settings_file,) if settings_file else ()
        isolation = Isolation(given, cache_folder(os.environ), token_store.confined, hidden)
        boundary = judge(isolation, tokens_required=required)
        if required:
            _LOG.log(logging.INFO if boundary.holds else logging.WARNING, "%s", boundary.sentence)
        compose = functools.partial(
            app.compose,
            given,
            store,
            clock,
            tokens_required=required,
            isolation=isolation if boundary.isolated else None,
            boundary=boundary,
        )
        listener = listening.listen(given.host, given.port)
        with contextlib.closing(listener):
            return _serve(given, compose, clock, listener, as_json=as_json)
    finally:
        store.close()
        os.close(lock)


def _warn_of_packages() -> None:
    """Log at the start what packages offer that cannot be used; else only a request for it finds out."""
    for problem in dict.fromkeys([*executor_kinds.clashes(), *registry.unusable()]):
        _LOG.warning("%s", problem)


def needs_tokens(given: Settings, *, any_token: bool) -> bool:
    """Whether requests need a token; raises `OpenToOthersError` where none is there, or none is asked for."""
    local = is_loopback(given.host)
    required = given.auth.required if given.auth.required is not None else not local
    if not required and not local:
        raise OpenToOthersError(
            f"auth.required is false, but others reach the service at {given.host}; that is for loopback only"
        )
    if required and not any_token:
        raise OpenToOthersError(
            f"the service at {given.host} would ask for access tokens, and there is none; "
            "`nemo services token create --role admin` makes the first one"
        )
    return required


def _serve(
    given: Settings,
    compose: Callable[..., app.AssembledService],
    clock: SystemClock,
    listener: socket.socket,
    *,
    as_json: bool,
) -> int:
    base_url = listening.url_of(listener, given.host)
    service = compose(base_url=given.public_url or base_url, listening_at=base_url)
    holder.write(given.data_dir, base_url, wire(clock.now()))
    server = _Server(
        uvicorn.Config(
            service.application,
            log_config=None,
            access_log=False,
            lifespan="on",
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            timeout_keep_alive=75,
            http=connections.protocol(connections.raise_file_limit()),
            backlog=2048,
            ws="none",
        ),
        ready=lambda: _announce(base_url, given, service.page_sessions, as_json=as_json),
        stopping=service.end_streams,
    )
    sys.setswitchinterval(_SWITCH_SECONDS)
    with _stopped_by_signals(server):
        asyncio.run(server.serve(sockets=[listener]))
    holder.remove(given.data_dir)
    if not server.started:
        return 1
    _report_running(service.under_way())
    service.close()
    return 0


class _Server(uvicorn.Server):
    """A server that says when it is ready, and ends its streams before it waits for its connections."""

    def __init__(self, config: uvicorn.Config, *, ready: Any, stopping: Any) -> None:
        super().__init__(config)
        self._ready, self._stopping = ready, stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        self._stopping()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Left to `_stopped_by_signals`: uvicorn would end the process by the same signal again."""
        yield


@contextlib.contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        server.handle_exit(number, frame)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _announce(base_url: str, given: Settings, sessions: PageSessions, *, as_json: bool) -> None:
    data_dir = given.data_dir
    print(f"nemo services: {base_url}, data in {data_dir}", file=sys.stderr, flush=True)
    if sys.stderr.isatty():  # the address signs in whoever has it: never into a file or a journal
        address = entering.address(base_url, given.pages, sessions.code(entering.owner()))
        print(
            f"pages: {address} (once, within {duration_in_words(sessions.code_seconds)}; "
            "`nemo services open` makes another)",
            file=sys.stderr,
            flush=True,
        )
    if as_json:  # last: when a program reads it, everything else was said
        print(json.dumps({"url": base_url, "data_dir": str(data_dir), "pid": os.getpid()}), flush=True)


def _report_running(number: int) -> None:
    text = "nemo services: stopped"
    if number:
        jobs = counted(number, "job runs on and is", "jobs run on and are")
        text += f"; {jobs} taken over when the service starts again (`nemo services drain` pauses first)"
    print(text, file=sys.stderr, flush=True)


def _warn_of_network(given: Settings) -> None:
    if given.store_url().startswith("sqlite") and filesystem_kind.is_network(given.data_dir):
        _LOG.warning(
            "%s is on a network file system (%s), where the locks of SQLite may not hold: "
            "give --data-dir a folder of this machine, or database_url a PostgreSQL server",
            given.data_dir,
            filesystem_kind.kind(given.data_dir),
        )


def _set_up_logging(level: str) -> None:
    logging.basicConfig(
        stream=sys.stderr, level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    for noisy in ("uvicorn", "uvicorn.error", "sse_starlette", "alembic", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
