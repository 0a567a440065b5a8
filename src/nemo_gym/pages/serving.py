"""The server of `gym view`, and its pages as files."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from urllib.parse import quote

import uvicorn

from nemo_gym.errors import ConfigError, DataError
from nemo_gym.pages.bundling import write_files
from nemo_gym.pages.index.known_runs import KnownRun
from nemo_gym.pages.index.observer import EvaluationIndex
from nemo_gym.pages.run_observer import show_evaluations
from nemo_gym.pages.viewing import ViewAccess, view_application
from nemo_gym.reports import to_stderr
from nemo_gym.rollouts.output.manifest import load_manifest
from nemo_pages.runs.table import RunTable
from nemo_runs.addresses import is_loopback

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_ENDS = (signal.SIGINT, signal.SIGTERM)


def serve(
    folders: Sequence[Path], *, host: str, port: int, root_path: str, announce: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or Ctrl-C; the address is announced once connections are taken."""
    if root_path and not root_path.startswith("/"):
        raise ConfigError(
            f"--root-path {root_path}: a path begins with a slash, such as /user/ann/proxy/8123"
        )
    listener = _listener(host, port)
    bound = listener.getsockname()[1]
    table = RunTable()
    index = EvaluationIndex(folders, records=not folders)
    show_evaluations(index, table)
    access = ViewAccess(
        key=secrets.token_urlsafe(24),
        cookie=f"gym-view-{bound}",
        hosts=LOOPBACK_NAMES if is_loopback(host) and not root_path else (),
    )
    app = view_application(table, index, access=access, root_path=root_path, ended=lambda: server.should_exit)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=3)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{bound}{root_path.rstrip('/')}/?key={access.key}"
    server = _Server(config, lambda: announce(address))
    index.start()
    try:
        server.run(sockets=[listener])
    finally:
        index.close()
        listener.close()


def write(folders: Sequence[Path], target: Path) -> None:
    """Look once, and write all pages into a folder that does not exist."""
    table = RunTable()
    index = EvaluationIndex(folders, records=not folders, at_once=True)
    show_evaluations(index, table)
    index.observe()
    write_files(view_application(table, index), target, list(_unpublished(index.runs())))
    for problem in index.problems:
        to_stderr(problem)


def _unpublished(runs: Sequence[KnownRun]) -> Iterator[str]:
    """Quoted addresses of rollouts whose questions must stay unpublished, or of which that is not known."""
    for run in runs:
        for benchmark in run.benchmarks:
            manifest = None
            with contextlib.suppress(DataError, OSError):
                manifest = load_manifest(benchmark.paths.manifest) if benchmark.paths is not None else None
            if manifest is None or manifest.unpublished is not None:
                yield quote(f"/evaluations/{run.run_id}/{benchmark.name}/rollouts")


class _Server(uvicorn.Server):
    """Ends by a signal, and the process with it as after any other end."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        """``started`` is called once a signal would end the server in order."""
        super().__init__(config)
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        await super().startup(sockets)
        self._started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """See `uvicorn.Server`, which would end the process by the same signal again."""

        def end(number: int, frame: FrameType | None) -> None:
            self.handle_exit(number, frame)

        before = {number: signal.signal(number, end) for number in _ENDS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _listener(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"cannot listen on {host}:{port}: {reason}; choose another --port or --host"
        ) from error
