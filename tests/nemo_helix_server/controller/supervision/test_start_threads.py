"""Starts that take long hold up no pass, no other executor, and not the end of the service."""

import subprocess
import sys
import threading
from concurrent.futures import Future

from tests.helix_workplace import AtOnce

from nemo_helix_server.controller.supervision.start_threads import StartThreads
from nemo_runs.processes.daemon_threads import DaemonThreads

TIMEOUT = 60.0


def test_a_start_is_made_once_while_it_is_under_way_and_wakes_when_it_is_late():
    woken, go_on, again, begun = threading.Event(), threading.Event(), threading.Event(), []
    starts = StartThreads(wake=woken.set)

    def start():
        begun.append("task-1")
        if len(begun) == 2:
            again.set()
        go_on.wait(TIMEOUT)

    for _ in range(3):
        starts.begin("odd", "task-1", start)
        starts.settle()
    assert (begun, woken.is_set()) == (["task-1"], False)
    go_on.set()
    assert woken.wait(TIMEOUT)
    # the next one of this token is another try
    starts.begin("odd", "task-1", start)
    assert again.wait(TIMEOUT)
    starts.stop(TIMEOUT)


def test_starts_of_one_executor_that_never_return_hold_up_no_other():
    go_on, done = threading.Event(), threading.Event()
    starts = StartThreads()
    for number in range(20):
        starts.begin("odd", f"task-{number}", lambda: go_on.wait(TIMEOUT))
    starts.begin("fine", "task-x", done.set)
    assert done.wait(TIMEOUT)
    go_on.set()
    starts.stop(TIMEOUT)


def test_none_begins_after_the_end():
    go_on, begun = threading.Event(), []
    starts = StartThreads(make=lambda _: DaemonThreads(1, "starts"))
    starts.begin("odd", "task-1", lambda: go_on.wait(TIMEOUT))
    starts.begin("odd", "task-2", lambda: begun.append("task-2"))
    starts.stop(0)
    starts.begin("odd", "task-3", lambda: begun.append("task-3"))
    go_on.set()
    starts.settle()
    assert begun == []


def test_what_a_start_raises_ends_no_thread():
    done = threading.Event()
    starts = StartThreads(make=lambda _: DaemonThreads(1, "starts"))
    starts.begin("odd", "task-1", lambda: sys.exit(3))
    starts.settle()
    starts.begin("odd", "task-2", done.set)
    assert done.wait(TIMEOUT)


def test_the_process_ends_though_a_start_never_returns():
    script = (
        "import threading\n"
        "from nemo_helix_server.controller.supervision.start_threads import StartThreads\n"
        "starts = StartThreads()\n"
        "starts.begin('odd', 'task-1', threading.Event().wait)\n"
        "starts.stop(0)\n"
    )
    subprocess.run([sys.executable, "-c", script], timeout=TIMEOUT, check=True)


def test_a_look_that_began_before_a_start_was_done_begins_none():
    made, begun = Future(), []

    class ByHand(AtOnce):
        def submit(self, function, /, *args, **more):
            begun.append("task-1")
            return made

    starts = StartThreads(make=lambda _: ByHand())
    start = list
    starts.begin("odd", "task-1", start)
    starts.begin_pass()
    made.set_result(None)
    starts.settle()
    starts.begin("odd", "task-1", start)
    starts.settle()
    assert begun == ["task-1"]
    starts.begin_pass()
    starts.begin("odd", "task-1", start)
    starts.settle()
    assert begun == ["task-1", "task-1"]
