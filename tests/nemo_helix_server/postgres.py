"""A PostgreSQL of the tests' own: a fresh cluster in a temporary folder, reached through a socket there."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER = "baton"
_VERSIONS = Path("/usr/lib/postgresql")
_TIMEOUT = 60.0


def programs() -> Path | None:
    """The folder with ``initdb`` and ``postgres``; None where PostgreSQL is not installed."""
    folders = [path / "bin" for path in sorted(_VERSIONS.glob("*"), reverse=True)]
    on_path = shutil.which("initdb")
    if on_path:
        folders.append(Path(on_path).resolve().parent)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def _unprivileged() -> int | None:
    """PostgreSQL refuses to run as root: the user to run it as; None for the user who runs the tests."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    return None


@contextmanager
def cluster() -> Iterator[str]:
    """The address of a running server; it is stopped and deleted at the end."""
    folder = programs()
    assert folder is not None
    home = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path must be short
    user = _unprivileged()
    try:
        if user is not None:
            os.chown(home, user, -1)
        data = home / "data"
        initdb = [folder / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        subprocess.run(initdb, user=user, cwd=home, check=True, capture_output=True, timeout=120)
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "unix_socket_directories=" + str(home)]
        command = [folder / "postgres", "-D", data, "-p", "5432", *options]
        with (
            (home / "log").open("wb") as log,
            subprocess.Popen(
                command, user=user, cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            ) as server,
        ):
            try:
                _wait_until_ready(folder, home, server)
                yield f"postgresql+psycopg://{USER}@/postgres?host={home}"
            finally:
                server.send_signal(signal.SIGINT)  # SIGTERM would wait for connections
                try:
                    server.wait(timeout=_TIMEOUT)
                except subprocess.TimeoutExpired:
                    server.kill()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _wait_until_ready(folder: Path, home: Path, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _TIMEOUT
    ready = [folder / "pg_isready", "-q", "-h", home, "-p", "5432"]
    while subprocess.run(ready, check=False, timeout=_TIMEOUT).returncode != 0:
        assert server.poll() is None, (home / "log").read_text()
        assert time.monotonic() < end, "PostgreSQL did not start in time"
        time.sleep(0.05)
