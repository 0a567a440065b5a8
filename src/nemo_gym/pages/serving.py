"""The server of `gym view`."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records import index
from nemo_gym.pages.run_observer import RunObserver
from nemo_gym.pages.viewing import view_application
from nemo_gym.reports import to_stderr
from nemo_pages.runs.table import RunTable
from nemo_runs.addresses import is_loopback

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def serve(
    folders: Sequence[Path], *, host: str, port: int, root_path: str, announce: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or Ctrl-C; the address is announced once connections are taken."""
    if root_path and not root_path.startswith("/"):
        raise ConfigError(
            f"--root-path {root_path}: a path begins with a slash, such as /user/ann/proxy/8123"
        )
    listener = _listener(host, port)
    table = RunTable()
    observer = RunObserver(table, lambda: _records(folders))
    observer.start()
    bound = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    announce(f"http://{shown}:{bound}{root_path.rstrip('/')}/")
    hosts = LOOPBACK_NAMES if is_loopback(host) and not root_path else ()
    app = view_application(table, root_path=root_path, hosts=hosts)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        observer.close()
        listener.close()


def _records(folders: Sequence[Path]) -> list[SubmissionRecord]:
    if folders:
        return [index.find(str(folder), report=to_stderr) for folder in folders]
    return list(index.indexed(report=to_stderr))


def _listener(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"cannot listen on {host}:{port}: {reason}; choose another --port or --host"
        ) from error
