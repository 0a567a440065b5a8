"""The process that grades: what is asked is answered, and its end is said in one sentence."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nemo_gym.harness import process
from nemo_gym.harness.process import HarnessError, UnknownHarnessTaskError, Worker

pytestmark = pytest.mark.slow

PROGRAM = """#!{python}
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["op"] == "echo":
        answer = {{"ok": asked["text"]}}
    elif asked["op"] == "leave":
        print("Traceback: out of memory", file=sys.stderr)
        sys.exit(9)
    elif asked["op"] == "print":
        print("x" * asked["bytes"], file=sys.stderr, flush=True)
        answer = {{"ok": None}}
    else:
        answer = {{"error": asked["op"], "message": "there is no such thing"}}
    print(json.dumps({{"id": asked["id"], **answer}}), flush=True)
"""


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    program = tmp_path / "python"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return Worker(program, {})


def test_each_request_gets_its_own_answer(worker: Worker) -> None:
    futures = [worker.send("echo", text=f"ü{number}\n") for number in range(100)]
    assert [future.result(60) for future in futures] == [f"ü{number}\n" for number in range(100)]
    worker.close()


def test_what_is_refused_is_said_and_the_next_request_is_answered(worker: Worker) -> None:
    with pytest.raises(UnknownHarnessTaskError, match="there is no such thing"):
        worker.ask("unknown")
    with pytest.raises(HarnessError, match="there is no such thing"):
        worker.ask("refused")
    assert worker.ask("echo", text="x") == "x"
    worker.close()


def test_the_end_of_the_process_is_told_to_all_who_wait_and_to_those_who_come_later(worker: Worker) -> None:
    with pytest.raises(HarnessError, match="ended with 9: Traceback: out of memory"):
        worker.ask("leave")
    with pytest.raises(HarnessError, match="ended with 9"):
        worker.ask("echo", text="x")
    worker.close()


def test_it_can_be_closed_twice(worker: Worker) -> None:
    worker.close()
    worker.close()


def test_what_a_task_prints_does_not_fill_the_disk(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_PRINTED", 100_000)
    for _ in range(40):
        worker.ask("print", bytes=20_000)
    assert os.fstat(worker._errors.fileno()).st_blocks * 512 < 300_000
    with pytest.raises(HarnessError, match="ended with 9: Traceback: out of memory"):
        worker.ask("leave")
    worker.close()


def test_a_process_that_is_busy_ends_when_nobody_asks_any_more() -> None:
    program = (
        "import sys, time; from nemo_gym.harness.worker.requests import lines_while_asked; "
        "[(print(line, end='', file=sys.stderr), time.sleep(600)) for line in lines_while_asked()]"
    )
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as busy:
        assert busy.stdin is not None
        assert busy.stderr is not None
        busy.stdin.write(b"busy\n")
        busy.stdin.flush()
        assert busy.stderr.readline() == b"busy\n"
        busy.stdin.close()
        assert busy.wait(60) == 0


def test_what_is_forked_while_it_waits_for_requests_is_not_held_up() -> None:
    program = (
        "import multiprocessing, sys, time; from nemo_gym.harness.worker.requests import lines_while_asked\n"
        "for line in lines_while_asked():\n"
        "    time.sleep(0.2)  # the thread is in its next read\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "        print(line.strip(), sum(pool.map(abs, [-1, -2])), repr(sys.stdin.read()), flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write("one\n")
        worker.stdin.flush()
        watchdog = threading.Timer(60, worker.kill)
        watchdog.start()
        assert worker.stdout.readline() == "one 3 ''\n"
        watchdog.cancel()
        worker.stdin.close()
        assert worker.wait(60) == 0
