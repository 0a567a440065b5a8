"""A program asked in lines of JSON, with a limit of time, and ended with all that it started."""

import json
import os
import signal
import sys
import time

import pytest

from nemo_runs.processes.line_program import LineProgram

PROGRAM = """
import json, subprocess, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if asked == "die":
        sys.exit(3)
    if asked == "hang":
        time.sleep(3600)
    if asked == "list":
        print("[]", flush=True)
    elif asked == "child":
        left = subprocess.Popen(["sleep", "3600"], start_new_session=True)
        print(json.dumps({"pid": left.pid}), flush=True)
    elif asked != "wait for more":
        print(json.dumps({"said": asked}), flush=True)
"""


@pytest.fixture
def program():
    program = LineProgram([sys.executable, "-c", PROGRAM])
    yield program
    program.end()


def is_gone(pid):
    """Whether a process ends, which takes the kernel a moment after it was killed."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] in "XZ":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


def test_each_line_has_an_answer_and_long_ones_are_read_whole(program):
    long = "x" * 300_000
    for asked in ("first", long, {"a": [1, None]}):
        assert program.ask(json.dumps(asked).encode(), within=60) == {"said": asked}


def test_several_lines_may_be_sent_before_one_answer(program):
    assert program.ask(b'"wait for more"', b'"now"', within=60) == {"said": "now"}


def test_no_answer_in_time_the_end_and_another_answer_are_told_apart(program):
    with pytest.raises(ValueError, match="must be an object"):
        program.ask(b'"list"', within=60)
    with pytest.raises(TimeoutError):
        program.ask(b'"hang"', within=0.05)
    program.end()
    assert program.end_status == "signal 9"
    with pytest.raises((OSError, ValueError)):
        program.ask(b'"first"', within=60)


def test_a_program_that_ends_is_gone_and_says_how(program):
    with pytest.raises(OSError, match="the program ended"):
        program.ask(b'"die"', within=60)
    program.end()
    assert program.end_status == "status 3"


def test_what_it_started_in_another_session_is_ended_with_it(program):
    pid = program.ask(b'"child"', within=60)["pid"]
    program.end()
    assert is_gone(pid)


def test_it_ends_by_itself_when_its_input_does_and_leaves_what_it_started():
    program = LineProgram([sys.executable, "-c", PROGRAM])
    pid = program.ask(b'"child"', within=60)["pid"]
    program.close(60)
    assert program.end_status == "status 0"
    os.kill(pid, signal.SIGKILL)


def test_one_that_does_not_end_by_itself_is_ended():
    program = LineProgram([sys.executable, "-c", PROGRAM])
    with pytest.raises(TimeoutError):
        program.ask(b'"hang"', within=0.05)
    program.close(0.05)
    assert program.end_status == "signal 9"
