import http.server
import os
import socket
import subprocess
import sys
import threading
from ipaddress import ip_address

import pytest
from tests.local_jobs import STAND_INS, until

from nemo_gym.services import ports
from nemo_gym.services.health import (
    Probe,
    ProbeResult,
    ServiceDiedError,
    Target,
    UnhealthyError,
    judge_models,
    wait_until_healthy,
)
from nemo_gym.services.probe import Address, RunningService, model_names

pytestmark = pytest.mark.slow


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
TARGET = Target("policy", 60.0, "/runs/logs/policy-local-1.log")
NOT_YET = Probe(ProbeResult.NOT_YET, "/health answers 503")
WRONG = Probe(ProbeResult.WRONG_MODEL, "/v1/models names 'other', not 'tiny'")


class Scripted:
    """A service that answers probes as listed, over and over the last one, and dies after so many looks."""

    def __init__(self, *answers, dies_after=None):
        self.answers, self.dies_after, self.looks, self.now = list(answers), dies_after, 0, 0.0

    def alive(self):
        self.looks += 1
        return self.dies_after is None or self.looks <= self.dies_after

    def probe(self):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def sleep(self, seconds):
        self.now += seconds

    def wait(self, target=TARGET):
        wait_until_healthy(target, self, clock=lambda: self.now, sleep=self.sleep)


def test_a_service_is_waited_for_until_it_is_healthy():
    service = Scripted(None, NOT_YET, WRONG, NOT_YET, Probe(ProbeResult.HEALTHY))
    service.wait()
    assert service.now < 5


def test_a_service_is_asked_often_at_first_and_seldom_later():
    quick, slow = (Scripted(*[NOT_YET] * probes, Probe(ProbeResult.HEALTHY)) for probes in (4, 60))
    quick.wait()
    slow.wait()
    assert quick.now < 0.8
    assert slow.now > 8


def test_a_service_that_ends_ends_the_wait_at_once():
    service = Scripted(NOT_YET, dies_after=3)
    with pytest.raises(
        ServiceDiedError, match="service 'policy' ended before it was healthy; see /runs/logs"
    ):
        service.wait()
    assert service.now < 1


def test_a_service_that_never_answers_is_given_up_with_what_was_seen_last():
    service = Scripted(NOT_YET)
    with pytest.raises(UnhealthyError, match="within 60 s: /health answers 503; see /runs/logs"):
        service.wait()
    assert 60 <= service.now < 61


def test_a_hanging_probe_does_not_keep_the_wait_beyond_its_time():
    service = Scripted(None)
    with pytest.raises(UnhealthyError, match="it has not answered yet"):
        service.wait()
    assert service.now < 61


def test_another_model_is_given_up_soon_and_both_names_are_told():
    service = Scripted(WRONG)
    with pytest.raises(UnhealthyError, match="names 'other', not 'tiny'"):
        service.wait(Target("policy", 3600.0, "log"))
    assert 10 <= service.now < 12


@pytest.mark.parametrize(
    ("expected", "names", "found"),
    [
        ("tiny", ["tiny"], ProbeResult.HEALTHY),
        ("tiny", ["other", "tiny"], ProbeResult.HEALTHY),
        ("tiny", [], ProbeResult.NOT_YET),
        ("tiny", ["tiny2"], ProbeResult.WRONG_MODEL),
        ("", ["whatever"], ProbeResult.HEALTHY),
    ],
)
def test_the_expected_model_must_be_named(expected, names, found):
    assert judge_models(expected, names).found is found


@pytest.mark.parametrize("body", [b"[]", b'{"data": 3}', b"<html>", b"[" * 99_999])
def test_an_answer_that_is_no_list_of_models_is_an_error(body):
    with pytest.raises(ValueError, match=r"."):
        model_names(body)


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 111 1 0 100 0 0 10 0
   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 222 1 0 100 0 0 10 0
   2: 0100007F:1F90 0100007F:C000 01 00000000:00000000 00:00000000 00000000  0  0 333 1 0 20 4 30 10 -1
   3: 0200007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 444 1 0 100 0 0 10 0
"""


@pytest.mark.skipif(sys.byteorder != "little", reason="the table above is of a little-endian machine")
def test_a_connection_reaches_the_socket_of_its_own_address_first():
    table = ports.parse_table(TABLE)
    loopback = ip_address("127.0.0.1")
    assert [listener.inode for listener in table] == [111, 222, 444]
    assert [listener.inode for listener in ports.answering(loopback, 8080, table)] == [111]
    assert [listener.inode for listener in ports.answering(loopback, 8080, table[1:])] == [222]
    assert ports.answering(loopback, 8081, table) == []


def test_chosen_ports_differ_and_can_be_bound():
    chosen = ports.choose_ports({f"service {number}": 0 for number in range(20)})
    assert len(set(chosen.values())) == 20
    for port in list(chosen.values())[:3]:
        socket.create_server(("127.0.0.1", port)).close()


def test_a_fixed_port_is_kept_when_it_is_free_and_its_holder_named_when_it_is_not():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ports.PortTakenError, match=rf"port {port} .*'a' is taken by process {os.getpid()} "
        ):
            ports.choose_ports({"a": port, "b": 0})
    assert ports.choose_ports({"a": port})["a"] == port


@pytest.fixture
def stranger():
    """A server of somebody else that names the expected model."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b'{"data": [{"id": "tiny"}]}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.002})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def probed(service):
    return until(service.probe)


def address(port, **changes):
    values = {"host": "127.0.0.1", "port": port, "health_port": port, "path": "/health", "model": "tiny"}
    return Address(**(values | changes))


def test_a_strangers_server_on_the_port_is_not_the_service(stranger):
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    try:
        service = RunningService(process.pid, ("NOBODY_HAS", "this"), address(stranger))
        assert service.alive()
        probe = probed(service)
    finally:
        process.kill()
        process.wait()
    assert probe.found is ProbeResult.NOT_YET
    assert f"port {stranger} is held by process {os.getpid()} " in probe.detail
    assert not service.alive()


def test_a_service_is_found_in_the_tree_of_its_first_process_or_by_its_marker(tmp_path):
    port = ports.choose_ports({"a": 0})["a"]
    program = [sys.executable, "-S", str(STAND_INS / "serve.py"), str(port), "tiny", "key"]
    environ = {**os.environ, "A_MARKER": str(tmp_path), "NEMO_GYM_SERVICE_API_KEY": "k"}
    with (tmp_path / "log").open("wb") as log:
        shell = subprocess.Popen(
            ["bash", "-c", '"$@" & wait', "shell", *program], env=environ, stdout=log, start_new_session=True
        )
    try:
        nobody, marked = ("NOBODY_HAS", "this"), ("A_MARKER", str(tmp_path))
        by_tree = RunningService(shell.pid, nobody, address(port, api_key="k"))
        until(lambda: probed(by_tree).found is ProbeResult.HEALTHY)
        by_marker = RunningService(os.getppid(), marked, address(port, api_key="k"))
        assert probed(by_marker).found is ProbeResult.HEALTHY
        assert probed(RunningService(shell.pid, nobody, address(port))).detail == "/v1/models answers 401"
        other = RunningService(shell.pid, nobody, address(port, api_key="k", model="large"))
        assert probed(other) == Probe(ProbeResult.WRONG_MODEL, "/v1/models names 'tiny', not 'large'")
    finally:
        os.killpg(shell.pid, 9)
        shell.wait()


@needs_ipv6
def test_a_stranger_on_the_other_loopback_address_is_seen():
    port = ports.choose_ports({"a": 0})["a"]
    program = [sys.executable, "-S", str(STAND_INS / "serve.py"), str(port), "tiny"]
    process = subprocess.Popen(program, stdout=subprocess.DEVNULL)
    try:
        service = RunningService(process.pid, ("NOBODY_HAS", "this"), address(port))
        until(lambda: probed(service).found is ProbeResult.HEALTHY)
        with socket.create_server(("::1", port), family=socket.AF_INET6):
            assert f"port {port} is held by process" in probed(service).detail
    finally:
        process.kill()
        process.wait()


@needs_ipv6
def test_a_fixed_port_that_is_taken_on_the_other_loopback_address_is_taken():
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ports.PortTakenError):
            ports.choose_ports({"a": port})


def test_a_probe_that_hangs_is_given_up_and_another_one_made():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        here = address(silent.getsockname()[1])
        service = RunningService(os.getpid(), ("NOBODY_HAS", "this"), here, timeout=0.2)
        for _ in range(2):  # which of the two clocks ends it is chance
            probe = probed(service)
            assert probe.found is ProbeResult.NOT_YET
            assert "was not answered within 0.2 s" in probe.detail or "timed out" in probe.detail


def test_what_a_stranger_to_http_says_is_told_in_one_line():
    def talk():
        connection, _ = stranger.accept()
        with connection:
            connection.sendall(b"SSH-2.0-x\r\n" * 200)

    with socket.create_server(("127.0.0.1", 0)) as stranger:
        thread = threading.Thread(target=talk)
        thread.start()
        service = RunningService(os.getpid(), ("NOBODY_HAS", "this"), address(stranger.getsockname()[1]))
        probe = probed(service)
        thread.join()
    assert "a probe failed (BadStatusLine: SSH-2.0-x" in probe.detail
    assert len(probe.detail) < 300
    assert probe.detail.isprintable()
