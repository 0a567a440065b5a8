"""A real MLflow server, started once, and a door before it that can be shut, stuck or lossy."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from tests.engines import engine_python, shared_cache

TIMEOUT = 180


@pytest.fixture(scope="session")
def trackers_python():
    """The interpreter with the trackers' libraries."""
    return engine_python("trackers")


@pytest.fixture(scope="session")
def mlflow_address(trackers_python, tmp_path_factory):
    """The address of an MLflow server on SQLite."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [trackers_python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port]
    argv += ["--workers", 1, "--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    argv += ["--artifacts-destination", folder / "artifacts"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            list(map(str, argv)), stdout=log, stderr=log, cwd=folder, env=environ, start_new_session=True
        )
    address = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + TIMEOUT
    while not answers(f"{address}/health"):
        assert server.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.1)
    yield address
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def answers(address):
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            return response.status == 200
    except (OSError, urllib.error.URLError):
        return False


class Gate:
    """Passes connections on to a server, unless it is shut, stuck (takes them and says nothing), or lossy
    (passes the request on and loses the answer)."""

    def __init__(self, address):
        self._target = ("127.0.0.1", int(address.rpartition(":")[2]))
        self._listener = None
        self.lossy = self.stuck = False
        self.lost = 0
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"

    def open(self):
        listener = self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def shut(self):
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self._listener.close()
            self._listener = None

    def _accept(self, listener):
        held = []
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                for client in held:
                    client.close()
                return
            if self.stuck:
                held.append(client)
                continue
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client):
        server = socket.create_connection(self._target)
        back = threading.Thread(target=self._answer, args=(server, client), daemon=True)
        back.start()
        pump(client, server)
        back.join()
        client.close()
        server.close()

    def _answer(self, server, client):
        while block := receive(server):
            if self.lossy:
                self.lost += 1
                for end in (client, server):
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
                return
            with contextlib.suppress(OSError):
                client.sendall(block)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_WR)


def receive(end):
    try:
        return end.recv(1 << 16)
    except OSError:
        return b""


def pump(source, target):
    while block := receive(source):
        try:
            target.sendall(block)
        except OSError:
            return
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def gate(mlflow_address):
    gate = Gate(mlflow_address)
    gate.open()
    yield gate
    gate.shut()


@pytest.fixture
def tracker_environ(trackers_python, tmp_path_factory):
    """What a service needs to publish here: the installed libraries, W&B in files."""
    return {
        "NHX_ENGINES_TRACKERS_PYTHON": str(trackers_python),
        "XDG_CACHE_HOME": shared_cache(tmp_path_factory.mktemp("cache")),
        "WANDB_MODE": "offline",
        "NHX_TRACKERS_INTERVAL_SECONDS": "0.2",
    }
