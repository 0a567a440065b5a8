"""Threads that the end of the process does not wait for."""

import subprocess
import sys
import threading

import pytest

from nemo_runs.processes.daemon_threads import DaemonThreads

TIMEOUT = 60.0


def test_work_beyond_the_number_waits_and_all_of_it_is_done() -> None:
    threads = DaemonThreads(2, "some")
    together = threading.Barrier(2)
    made = [threads.submit(together.wait, TIMEOUT) for _ in range(10)]
    assert sorted(one.result(TIMEOUT) for one in made) == [0] * 5 + [1] * 5
    threads.shutdown()


def test_what_waits_is_given_up_at_the_end_and_nothing_more_is_taken() -> None:
    threads, begun, go_on = DaemonThreads(1, "some"), threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        go_on.wait(TIMEOUT)
        return "done"

    first, second = threads.submit(work), threads.submit(work)
    assert begun.wait(TIMEOUT)
    threads.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(RuntimeError, match="no work is taken any more"):
        threads.submit(work)
    go_on.set()
    threads.shutdown()
    assert (first.result(TIMEOUT), second.cancelled()) == ("done", True)


LANE = """
import threading
from nemo_helix_server.executors.background_lane import BackgroundLane
from nemo_runs.clock import SystemClock

class Silent:
    def start(self, run, launch):
        begun.set()
        threading.Event().wait()

class Run:
    token = "t"

begun = threading.Event()
lane = BackgroundLane(Silent(), SystemClock(), print, print, interval=1, stale_after=1)
lane.start(Run, None)
begun.wait()
assert lane.close(0.1)
"""


@pytest.mark.slow
def test_a_start_that_gets_no_answer_does_not_keep_the_process() -> None:
    subprocess.run([sys.executable, "-c", LANE], timeout=TIMEOUT, check=True)
