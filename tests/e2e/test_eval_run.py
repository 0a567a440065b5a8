"""`gym eval run` as a process: killed, signalled, piped."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests import mock_server
from tests.mock_server import MockServer

pytestmark = pytest.mark.e2e
GYM = str(Path(sys.executable).with_name("gym"))


@pytest.fixture
def start(tmp_path):
    """Start the command on rows ``n + 1``; processes that a test leaves behind are killed."""
    started = []
    environ = {name: value for name, value in os.environ.items() if not name.startswith("NEMO_GYM_")}

    def begin(base_url, *tokens, tasks=40, env=None, concurrency=4, **popen):
        rows = tmp_path / "rows.jsonl"
        lines = [
            json.dumps({"question": f"What is {n} + 1?", "expected_answer": str(n + 1)}) for n in range(tasks)
        ]
        rows.write_text("\n".join(lines) + "\n")
        command = [GYM, "eval", "run", "--benchmark", "arithmetic", "--input", str(rows), "--model", "mock"]
        command += ["--model-url", base_url, "--output", str(tmp_path / "out" / "rollouts.jsonl")]
        command += ["--concurrency", str(concurrency), *tokens]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | popen
        process = subprocess.Popen(command, text=True, env=environ | (env or {}), cwd=tmp_path, **pipes)
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def end(process, timeout=120):
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def wait_until(condition, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it never came to that"
        time.sleep(0.01)


def rows(tmp_path):
    return [json.loads(line) for line in (tmp_path / "out" / "rollouts.jsonl").read_bytes().splitlines()]


def assert_complete(tmp_path, tasks=40):
    assert Counter(row["_ng_task_index"] for row in rows(tmp_path)) == Counter(range(tasks))


def test_kill_9_loses_what_is_in_flight_and_nothing_else(start, tmp_path):
    with MockServer(latency=0.02) as server:
        for killed_after in (10, 25):
            process = start(server.base_url, "--resume")
            wait_until(lambda after=killed_after: server.requests >= after)
            process.kill()
            process.wait()
        status, _, err = end(start(server.base_url, "--resume"))
        assert server.requests <= 40 + 2 * 4
    assert status == 0, err
    assert "resuming: " in err
    assert_complete(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_drains_and_the_next_run_goes_on(start, tmp_path, number):
    with MockServer(latency=0.05) as server:
        process = start(server.base_url, tasks=200)
        wait_until(lambda: server.requests >= 8)
        process.send_signal(number)
        status, out, err = end(process)
        assert status == 75, err
        assert f"drained (signal: {number.name})" in err
        assert f"{len(rows(tmp_path))} of 200 expected rollouts" in out
        assert server.requests == len(rows(tmp_path)) < 200  # what was in flight was finished
        progress = json.loads((tmp_path / "out" / "progress.json").read_bytes())
        assert (progress["state"], progress["done"]) == ("drained", server.requests)
        assert end(start(server.base_url, "--resume", tasks=200, concurrency=32))[0] == 0
        assert server.requests == 200
    assert_complete(tmp_path, 200)


def test_an_interrupt_drains_and_ends_130(start, tmp_path):
    with MockServer(latency=0.05) as server:
        process = start(server.base_url, tasks=200)
        wait_until(lambda: server.requests >= 8)
        process.send_signal(signal.SIGINT)
        status, _, err = end(process)
        assert status == 130, err
        assert server.requests == len(rows(tmp_path))
        assert end(start(server.base_url, "--resume", tasks=200, concurrency=32))[0] == 0
    assert_complete(tmp_path, 200)


def test_a_second_interrupt_waits_for_nothing(start, tmp_path):
    with MockServer(faults=["", "", "", "", "hang*"]) as server:
        process = start(server.base_url, "drain_margin_s=1000")
        wait_until(lambda: server.requests >= 8)
        process.send_signal(signal.SIGINT)
        # two that come together are one: the second is sent when the first was heard
        assert any("stopping (" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        status, _, err = end(process)
    assert status == 130, err
    assert (
        "rollouts in flight are dropped; everything recorded is kept, and --resume goes on from there" in err
    )
    assert len(rows(tmp_path)) == 4


def test_a_terminal_that_is_closed_harms_nothing_under_nohup(start, tmp_path):
    with MockServer(latency=0.02) as server:
        process = start(
            server.base_url, tasks=40, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
        )
        wait_until(lambda: server.requests >= 8)
        process.send_signal(signal.SIGHUP)
        status, _, err = end(process)
    assert status == 0, err
    assert_complete(tmp_path, 40)


def test_a_hanging_server_holds_a_drain_up_only_for_the_margin(start, tmp_path):
    with MockServer(faults=["", "", "", "", "hang*"]) as server:
        process = start(server.base_url, "drain_margin_s=0.5")
        wait_until(lambda: server.requests >= 8)
        process.send_signal(signal.SIGTERM)
        status, _, err = end(process)
    assert status == 75, err
    assert (tmp_path / "out" / "rollouts_failures.jsonl").read_bytes() == b""


def test_the_drain_file_alone_is_enough(start, tmp_path):
    drain = tmp_path / "drain"
    with MockServer(latency=0.05) as server:
        process = start(server.base_url, tasks=400, env={"NEMO_GYM_DRAIN_FILE": str(drain)})
        wait_until(lambda: server.requests >= 8)
        drain.write_text("walltime")
        status, _, err = end(process)
    assert status == 75, err
    assert "drained (drain file: walltime)" in err


def test_a_signal_while_the_server_is_waited_for_ends_the_run(start, tmp_path):
    with MockServer() as server:
        pass  # gone again, its port refuses
    process = start(server.base_url)
    for line in process.stderr:
        if "waiting up to" in line:
            break
    process.send_signal(signal.SIGTERM)
    status, _, err = end(process)
    assert status == 75
    assert "before the first request" in err


def test_a_second_collector_is_refused_while_the_first_lives(start, tmp_path):
    with MockServer(faults=["hang"] * 4) as server:
        first = start(server.base_url)
        wait_until(lambda: server.requests >= 4)
        status, _, err = end(start(server.base_url, "--resume"))
        assert status == 1
        assert str(first.pid) in err
        server.released.set()
        assert end(first)[0] == 0
        assert server.requests == 44
    assert_complete(tmp_path)


def test_our_own_service_dying_uses_up_no_attempt(start, tmp_path):
    options = json.dumps({"latency": 0.05})
    command = [sys.executable, str(Path(mock_server.__file__)), "--options", options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        process = start(url, "policy_service_name=llm", "max_request_attempts=1", tasks=200)
        output = tmp_path / "out" / "rollouts.jsonl"
        wait_until(lambda: output.exists() and output.read_bytes().count(b"\n") >= 8)
        server.kill()
    status, _, err = end(process)
    assert status == 75, err
    failures = (tmp_path / "out" / "rollouts_failures.jsonl").read_bytes().splitlines()
    refused = [row for row in map(json.loads, failures) if row["_ng_failure_type"] == "transport_unreachable"]
    assert len(refused) >= 16  # the breaker
    assert not any(row.get("_ng_failure_counted", True) for row in refused)


def test_a_terminal_that_goes_away_ends_nothing(start, tmp_path):
    reader, writer = os.pipe()
    with MockServer(latency=0.02) as server:
        process = start(server.base_url, stdout=subprocess.DEVNULL, stderr=writer)
        os.close(writer)
        os.close(reader)
        assert process.wait(timeout=120) == 0
    assert_complete(tmp_path)


@pytest.mark.parametrize("token", ["--json", "+limit=40"])
def test_a_reader_that_has_left_changes_nothing_about_how_the_run_ended(start, tmp_path, token):
    reader, writer = os.pipe()
    with MockServer() as server:
        process = start(server.base_url, token, stdout=writer)
        os.close(writer)
        os.close(reader)
        assert process.wait(timeout=120) == 0
    assert "Traceback" not in process.stderr.read()
    assert_complete(tmp_path)


def test_piped_output_is_plain_and_short(start):
    with MockServer() as server:
        status, out, err = end(start(server.base_url, tasks=300, concurrency=32))
    assert status == 0
    assert "\x1b" not in out + err
    assert len(err.splitlines()) <= 4
    assert out.splitlines()[0].split() == ["benchmark", "arithmetic"]


def fill(folder):
    """Use up the last byte of a small file system."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
    return folder / "ballast"


@pytest.fixture
def small_disk(tmp_path):
    (tmp_path / "out").mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(tmp_path / "out")]
    if os.geteuid() != 0 or subprocess.run(argv, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield tmp_path / "out"
    subprocess.run(["umount", "-l", str(tmp_path / "out")], check=True)


def said(process, text):
    while True:
        line = process.stderr.readline()
        assert line, f"it never said {text}"
        if text in line:
            return


def test_a_disk_that_is_full_for_a_while_costs_no_answer(start, tmp_path, small_disk):
    with MockServer(latency=0.05) as server:
        process = start(server.base_url)
        wait_until(lambda: server.requests >= 8)
        ballast = fill(small_disk)
        said(process, "waiting up to 1800 s for disk space")
        wait_until(lambda: server.inflight == 0)
        asked = server.requests
        time.sleep(0.3)
        assert server.requests == asked < 40, "nothing new is asked while there is no room"
        ballast.unlink()
        status, _, err = end(process)
        assert status == 0, err
        assert "there is disk space again" in err
        assert server.requests == 40, "no answer is paid for twice"
    assert_complete(tmp_path)


def test_a_disk_that_is_full_from_the_start_is_waited_for_before_anything_is_asked(
    start, tmp_path, small_disk
):
    ballast = fill(small_disk)
    with MockServer() as server:
        process = start(server.base_url)
        said(process, "waiting up to 1800 s for disk space")
        assert server.requests == 0
        ballast.unlink()
        status, _, err = end(process)
        assert status == 0, err
        assert server.requests == 40
    assert_complete(tmp_path)


def test_a_disk_that_stays_full_is_told_to_the_job_in_the_room_that_it_has(start, tmp_path, small_disk):
    link = small_disk / "link"
    link.mkdir()
    (link / "full_disk").write_text(f"{'no':<63}\n")
    with MockServer(latency=0.05) as server:
        environ = {"NEMO_GYM_LINK": str(link), "NEMO_GYM_FULL_DISK_SECONDS": "0"}
        process = start(server.base_url, env=environ)
        wait_until(lambda: server.requests >= 8)
        fill(small_disk)
        status, _, err = end(process)
    assert status == 1, err
    assert "free some space and start again" in err.splitlines()[-1]
    assert (link / "full_disk").read_text() == f"{'told':<63}\n"


DEADLY = """
import os, signal
from pathlib import Path
from pydantic import BaseModel
from nemo_gym.types import Verdict

class Deadly:
    class Options(BaseModel, extra="allow"):
        pass
    def __init__(self, options, models): pass
    def check_row(self, row): return None
    async def verify(self, task, episode):
        if task.task_index == 3 and not Path("died").exists():
            Path("died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Verdict(1.0, episode.text)
"""


def test_kill_9_between_an_answer_and_its_grade_loses_nothing(start, tmp_path):
    info = tmp_path / "site" / "deadly-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[nemo_gym.verifiers]\ndeadly = deadly_grader:Deadly\n")
    (tmp_path / "site" / "deadly_grader.py").write_text(DEADLY)
    (tmp_path / "deadly.yaml").write_text("benchmark: {verifier: {type: deadly}}\n")
    own = ["-c", str(tmp_path / "deadly.yaml")]
    env = {"PYTHONPATH": str(tmp_path / "site")}
    with MockServer() as server:
        status, _, err = end(start(server.base_url, *own, tasks=8, concurrency=1, env=env))
        assert (status, server.requests) == (-signal.SIGKILL, 4), err
        assert len(rows(tmp_path)) == 3
        status, _, err = end(start(server.base_url, *own, "--resume", tasks=8, concurrency=1, env=env))
        assert (status, server.requests) == (0, 8), err
    assert "1 answer is stored without a grade" in err
    assert_complete(tmp_path, 8)
