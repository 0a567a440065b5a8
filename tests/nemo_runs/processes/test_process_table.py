"""Reading the kernel's list of processes."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nemo_runs.processes import process_table, trees
from nemo_runs.processes.process_table import ProcessEntry, above, below


def entry(pid: int, parent: int) -> ProcessEntry:
    return ProcessEntry(pid, parent, session=0, start_time=0, ended=False, stopped=False)


TREE = {pid: entry(pid, parent) for pid, parent in [(1, 0), (5, 1), (6, 5), (7, 6), (8, 5), (9, 1)]}


def test_descendants_come_parents_first_and_without_the_roots() -> None:
    assert below([5], TREE) == [6, 8, 7]
    assert below([5, 6], TREE) == [8, 7]
    assert below([7], TREE) == []


def test_ancestors_end_at_the_first_process() -> None:
    assert above(7, TREE) == {0, 1, 5, 6, 7}
    assert above(4711, TREE) == {0, 1, 4711}


@pytest.mark.parametrize("name", ["a) R 1 2 (b", "sp ace", "new\nline", ")"])
def test_a_program_with_an_odd_name_is_read_right(tmp_path: Path, name: str) -> None:
    program = tmp_path / name
    shutil.copy(shutil.which("sleep") or "", program)
    child = subprocess.Popen([program, "60"], start_new_session=True)
    with child:
        found = process_table.read_entry(child.pid)
        child.kill()
    assert found is not None
    assert (found.session, found.ended, found.stopped) == (child.pid, False, False)
    assert found.start_time > 0


def test_a_stopped_process_and_a_zombie_are_told() -> None:
    child = subprocess.Popen(["sleep", "60"])
    child.send_signal(signal.SIGSTOP)
    while not (found := process_table.read_entry(child.pid)) or not found.stopped:
        time.sleep(0.005)
    child.kill()
    while not (found := process_table.read_entry(child.pid)) or not found.ended:
        time.sleep(0.005)
    child.wait()
    assert process_table.read_entry(child.pid) is None


def test_a_process_whose_first_thread_ended_while_others_run_has_not_ended() -> None:
    program = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "print('x', flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    with child:
        assert child.stdout
        child.stdout.read(1)
        stat = Path(f"/proc/{child.pid}/stat")
        deadline = time.monotonic() + 60
        while b") Z " not in stat.read_bytes() and time.monotonic() < deadline:
            time.sleep(0.01)
        found = process_table.read_entry(child.pid)
        child.kill()
    assert found is not None
    assert not found.ended


def test_a_handler_is_seen_once_it_is_there() -> None:
    script = "trap '' USR2; read -r _; trap : USR1; echo; read -r _"
    pipe = subprocess.PIPE
    with subprocess.Popen(["bash", "-c", script], stdin=pipe, stdout=pipe, text=True, bufsize=1) as child:
        assert child.stdin
        assert child.stdout
        assert not process_table.catches(child.pid, signal.SIGUSR1)
        child.stdin.write("\n")
        child.stdout.readline()
        assert process_table.catches(child.pid, signal.SIGUSR1)
        assert not process_table.catches(child.pid, signal.SIGUSR2)
        assert not process_table.catches(child.pid, signal.SIGTERM)
        child.kill()
    assert not process_table.catches(child.pid, signal.SIGUSR1)


@pytest.mark.parametrize("listed", [True, False], ids=["by the kernel's lists", "by the table"])
def test_descendants_of_a_process_that_runs(monkeypatch: pytest.MonkeyPatch, listed: bool) -> None:
    monkeypatch.setattr(process_table, "_lists_children", lambda: listed)
    argv = ["/bin/sh", "-c", "(sleep 60 & echo $!; wait) & echo $!; wait"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        started = {int(process.stdout.readline()), int(process.stdout.readline())}
        try:
            found = process_table.descendants_of(process.pid)
            assert set(found) == started
            assert not any(map(process_table.begins_namespace, found))
        finally:
            for pid in (process.pid, *process_table.descendants_of(process.pid)):
                trees.kill_process(trees.identify(pid))


@pytest.mark.slow
def test_the_first_process_of_an_inner_namespace_is_known() -> None:
    if not shutil.which("unshare"):
        pytest.skip("needs the program unshare")
    argv = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "/bin/sh", "-c", "echo up; sleep 60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        up = process.stdout.readline()
        found = process_table.descendants_of(process.pid)
        first = [pid for pid in found if process_table.begins_namespace(pid)]
        for pid in first:
            trees.kill_process(trees.identify(pid))
    if not up:
        pytest.skip("this machine allows no user namespaces")
    assert first == found[:1]
