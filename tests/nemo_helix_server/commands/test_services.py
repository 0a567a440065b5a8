"""`nemo services` as a program: its start, its second instance, its end, and jobs that outlive it."""

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from tests.nemo_helix_server.commands.programs import JOBS, NEMO, nemo, training, until

pytestmark = pytest.mark.e2e

NOSY = """
import os, urllib.request as u
def ask(path):
    r = u.Request(os.environ['NHX_JOBS_URL'] + path)
    r.add_header('Authorization', 'Bearer ' + os.environ['NHX_ACCESS_TOKEN'])
    try: return u.urlopen(r).status
    except OSError as e: return e.code
base = '/apis/jobs/v2/workspaces/default/jobs'
print(ask(base + '/own/steps/training'), ask(base), ask(base + '/own'))
print(os.environ['NHX_ACCESS_TOKEN'])
"""
"""A step that tries what its token is good for."""


def status(http, name):
    return http.get(f"{JOBS}/{name}").json()["status"]


def metric_steps(http, name):
    return [
        point["step"]
        for point in http.get(f"{JOBS}/{name}").json()["status_details"]["metrics"]["train_loss"]
    ]


def test_a_start_says_where_it_is_once_and_keeps_it(program):
    service = program()
    assert service.said["pid"] == service.process.pid
    assert service.said["data_dir"] == str(service.data_dir)
    assert service.stderr().splitlines() == [f"nemo services: {service.url}, data in {service.data_dir}"]
    record = json.loads((service.data_dir / "service.json").read_text())
    assert (record["pid"], record["base_url"]) == (service.process.pid, service.url)
    assert os.stat(service.data_dir).st_mode & 0o777 == 0o700
    shown = nemo("services", "status", "--data-dir", service.data_dir, "--json")
    assert shown.returncode == 0
    assert json.loads(shown.stdout)["url"] == service.url
    assert service.end(signal.SIGINT) == 0
    assert service.process.stdout.read() == b""
    assert not (service.data_dir / "service.json").exists()
    stopped = nemo("services", "status", "--data-dir", service.data_dir)
    assert (stopped.returncode, "nemo services run" in stopped.stdout) == (1, True)


def test_a_second_instance_is_refused_and_names_the_first(program):
    first = program()
    second = program()
    assert second.process.wait(60) == 1
    assert f"process {first.process.pid}" in second.stderr()
    assert len(second.stderr().splitlines()) == 1
    first.process.kill()
    first.process.wait(60)
    third = program()
    assert third.url is not None  # a lock ends with its holder


def test_a_taken_port_names_who_has_it(program):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        service = program(port=taken.getsockname()[1])
        assert service.process.wait(60) == 1
    assert f"taken by process {os.getpid()}" in service.stderr()
    assert "--port" in service.stderr()


def test_an_open_door_needs_tokens(program):
    closed = program("--host", "0.0.0.0")
    assert closed.process.wait(60) == 1
    assert "nemo services token create" in closed.stderr()
    made = nemo("services", "token", "create", "first", "--role", "admin", "--data-dir", closed.data_dir)
    token = made.stdout.strip()
    assert token.startswith("nhx_")
    listed = nemo("services", "token", "list", "--data-dir", closed.data_dir)
    assert "first" in listed.stdout
    assert token not in listed.stdout
    service = program("--host", "0.0.0.0")
    with service.client() as nobody, service.client(token) as admin:
        assert nobody.get(JOBS).status_code == 401
        assert nobody.get("/health").status_code == 200
        assert admin.get(JOBS, headers={"host": "cluster.example"}).status_code == 200
        body = training("own", "--steps", "3")
        body["platform_spec"]["steps"][0]["executor"]["command"] = [sys.executable, "-c", NOSY]
        assert admin.post(JOBS, json=body).status_code == 201
        until(lambda: status(admin, "own") in {"completed", "error"}, "the job has ended")
        lines = [line["message"] for line in admin.get(f"{JOBS}/own/logs").json()["data"]]
        assert lines[0] == "200 403 403"
        assert "nhxs_" not in lines[1]
        asked = nemo("services", "status", "--data-dir", service.data_dir, "--json")
        assert json.loads(asked.stdout)["status"] == "ok"
        revoked = nemo("services", "token", "revoke", "first", "--yes", "--data-dir", service.data_dir)
        assert revoked.returncode == 0
        assert admin.get(JOBS).status_code == 401
    assert token not in service.stderr()


def test_settings_come_from_file_and_variables(program, tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("jobs: {storage: {maximum_pause_ttl_seconds: 100, paused_storage_ttl_seconds: 50}}\n")
    service = program("--settings", file)
    with service.client() as http:
        body = training("x", "--steps", "1") | {"control": {"pause_ttl_seconds": 101}}
        assert http.post(JOBS, json=body).status_code == 422
    wrong = nemo("services", "run", environ={"NHX_PORT": "many"})
    assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)
    assert "NHX_PORT" in wrong.stderr


def test_pause_resume_fail_and_rerun_of_the_example_training(program):
    service = program()
    with service.client() as http:
        options = ("--steps", 60, "--save-every", 10, "--fail-at", 40, "--fail-how", "exit")
        body = training("tune", *options, step_seconds="0.1")
        assert http.post(JOBS, json=body).status_code == 201
        until(
            lambda: (http.get(f"{JOBS}/tune").json()["status_details"].get("step") or 0) >= 5,
            "it has trained",
        )
        assert http.post(f"{JOBS}/tune/pause").status_code == 200
        until(lambda: status(http, "tune") == "paused", "it has paused")
        assert http.post(f"{JOBS}/tune/resume").status_code == 200
        until(lambda: status(http, "tune") == "error", "it has failed")
        assert http.post(f"{JOBS}/tune/rerun").status_code == 200
        until(lambda: status(http, "tune") in {"error", "completed"}, "the rerun has ended")
        steps = metric_steps(http, "tune")
        assert steps == sorted(set(steps))


def test_jobs_run_on_when_the_service_stops_and_are_taken_over(program):
    service = program()
    with service.client() as http:
        http.post(JOBS, json=training("long", "--steps", 150))
        until(lambda: status(http, "long") == "active", "it runs")
    assert service.end() == 0
    assert "1 job runs on" in service.stderr()
    again = program()
    with again.client() as http:
        until(lambda: status(http, "long") == "completed", "it has completed")
        assert len(http.get(f"{JOBS}/long/steps/training/tasks").json()["data"]) == 1
        assert metric_steps(http, "long") == list(range(1, 151))


def test_open_streams_do_not_hold_up_the_end(program):
    service = program()
    with service.client() as http:
        http.post(JOBS, json=training("watched", "--steps", 2000, step_seconds="0.05"))
        opened, ends = [], []

        def watch():
            # on a machine that is busy the last bytes of a stream may be cut off; nobody may wait for them
            path = f"{JOBS}/watched/events?logs=true"
            with (
                contextlib.suppress(httpx.TransportError),
                service.client() as own,
                own.stream("GET", path) as lines,
            ):
                for number, _ in enumerate(lines.iter_lines()):
                    if number == 0:
                        opened.append(1)
            ends.append(1)

        watchers = [threading.Thread(target=watch) for _ in range(20)]
        for watcher in watchers:
            watcher.start()
        until(lambda: len(opened) == 20, "everybody watches")
        assert http.get("/status").json()["watchers"] == 20
        http.post(f"{JOBS}/watched/cancel")
        until(lambda: status(http, "watched") == "cancelled", "it is cancelled")
    assert service.end() == 0
    for watcher in watchers:
        watcher.join(30)
    assert len(ends) == 20


def test_a_plain_request_is_answered_beside_many_watchers(program):
    service = program()
    with service.client() as http:
        http.post(JOBS, json=training("watched", "--steps", 5000, step_seconds="0.05"))
        sockets = []
        host, port = service.url.removeprefix("http://").split(":")
        for _ in range(80):
            watcher = socket.create_connection((host, int(port)))
            watcher.sendall(f"GET {JOBS}/watched/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            sockets.append(watcher)
        until(lambda: http.get("/status").json()["watchers"] == 80, "everybody watches")
        assert http.get(f"{JOBS}/watched").json()["name"] == "watched"
        for watcher in sockets:
            watcher.close()
        until(lambda: http.get("/status").json()["watchers"] == 0, "nobody watches")


def test_a_drain_pauses_what_can_be_paused_and_says_what_cannot(program):
    service = program()
    with service.client() as http:
        http.post(JOBS, json=training("can", "--steps", 5000))
        http.post(JOBS, json=training("cannot", "--steps", 5000, deadline=0))
        for name in ("can", "cannot"):
            until(lambda name=name: status(http, name) == "active", "it runs")
        first = nemo(
            "services", "drain", "--yes", "--data-dir", service.data_dir, "--json", "--timeout", "30"
        )
        outcome = json.loads(first.stdout)
        assert (first.returncode, outcome["paused"], outcome["running"]) == (
            1,
            ["default/can"],
            ["default/cannot"],
        )
        assert outcome["refused"][0]["name"] == "cannot"
        assert "training" in outcome["refused"][0]["detail"]
        http.post(f"{JOBS}/cannot/cancel")
        until(lambda: status(http, "cannot") == "cancelled", "it is cancelled")
        assert nemo("services", "drain", "--yes", "--data-dir", service.data_dir).returncode == 0
        assert status(http, "can") == "paused"
    service.end()
    nobody = nemo("services", "drain", "--yes", "--data-dir", service.data_dir)
    assert (nobody.returncode, "nemo services run" in nobody.stderr) == (1, True)


def test_a_log_of_requests_holds_no_secrets(program):
    service = program()
    with service.client("nhx_hunter2") as http:
        http.get(f"{JOBS}?filter[name]=hunter3")
        http.post("/apis/secrets/v2/workspaces/default/secrets", json={"name": "s", "value": "hunter4"})
    service.end()
    assert "hunter" not in service.stderr()
    assert f"GET {JOBS}?filter" in service.stderr()


def test_the_unit_runs_this_program(tmp_path):
    folder = tmp_path / 'a "b" 100%'
    shown = nemo("services", "unit", "--port", "9", "--data-dir", folder)
    assert shown.returncode == 0
    line = next(line for line in shown.stdout.splitlines() if line.startswith("ExecStart="))
    program = Path(line.removeprefix("ExecStart=").split()[0])
    assert program.name == "nemo"
    assert program.exists()
    assert line.endswith(f'services run --port 9 --data-dir "{tmp_path}/a \\"b\\" 100%%"')
    assert "KillMode=process" in shown.stdout


def test_a_terminal_gets_an_address_that_opens_the_pages_and_nothing_else_does(tmp_path):
    ours, theirs = pty.openpty()
    argv = [NEMO, "services", "run", "--port", "0", "--data-dir", str(tmp_path / "data")]
    process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        said = b""
        while b"makes another" not in said:
            said += os.read(ours, 4096)
        address = re.search(rb"http://\S+/pages/enter\?code=\S+", said)[0].decode()
        assert "(once, within 5 min;" in said.decode()
        entered = httpx.get(address, trust_env=False)
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        assert httpx.get(address, trust_env=False).status_code == 401
        code = address.partition("code=")[2].encode()
        kept = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
        assert not [path for path in kept if code in path.read_bytes()]
    finally:
        process.terminate()
        process.wait(60)
        os.close(ours)
