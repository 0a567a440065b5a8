"""No event is lost that says more of a test than that it passed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import worker_events


@pytest.mark.parametrize("when", ["setup", "call", "teardown"])
@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_every_failure_and_every_skip_is_shown(when: str, outcome: str) -> None:
    assert worker_events.is_shown("testreport", {"data": {"when": when, "outcome": outcome}})


@pytest.mark.parametrize(("when", "shown"), [("setup", False), ("call", True), ("teardown", False)])
def test_of_what_passed_the_call_is_shown(when: str, shown: bool) -> None:
    assert worker_events.is_shown("testreport", {"data": {"when": when, "outcome": "passed"}}) is shown


@pytest.mark.parametrize("name", ["workerfinished", "runtest_protocol_complete", "warning_recorded"])
def test_what_is_not_about_one_test_is_always_sent(name: str) -> None:
    assert worker_events.is_shown(name, {})


@pytest.mark.parametrize("content", [time.time_ns().to_bytes(8, "big")])
def test_every_worker_calls_a_case_of_bytes_by_the_same_name(
    content: bytes, request: pytest.FixtureRequest
) -> None:
    assert content
    assert request.node.name.endswith("_by_the_same_name[content]")


TESTS = """
# one test of each outcome: this file is run by the test below, which counts all of them, the skipped one too
import pytest

@pytest.fixture
def broken():
    yield
    raise RuntimeError("after the test")

def test_good(): ...
def test_bad(): raise RuntimeError("in the test")
def test_left(broken): ...
def test_skipped(): pytest.skip("so that there is one to count")
"""
CONFTEST = """
from tests import worker_events

def pytest_configure(config):
    worker_events.send_what_is_shown(config)
    worker_events.name_failures_at_once(config)
"""


@pytest.mark.services
@pytest.mark.parametrize("options", [["-q"], ["-v"]])
def test_workers_count_what_one_process_counts(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {Path(__file__).parents[1]}\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "pytest", *options, "-n", "2", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 2 passed, 1 skipped, 1 error in" in done.stdout, done.stdout + done.stderr
    assert "in the test" in done.stdout
    assert "after the test" in done.stdout
    at_once = [line for line in done.stdout.splitlines() if line.startswith("FAILED in ")]
    named = [
        "FAILED in call: test_some.py::test_bad: RuntimeError: in the test",
        "FAILED in teardown: test_some.py::test_left: RuntimeError: after the test",
    ]
    assert sorted(at_once) == (named if options == ["-q"] else []), done.stdout
