"""Processes: identity, liveness, and ending whole trees."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nemo_runs.errors import RunsError
from nemo_runs.processes import process_table
from nemo_runs.processes.trees import (
    Liveness,
    ProcessGoneError,
    ProcessIdentity,
    descendants,
    end_tree,
    identify,
    liveness,
    marked,
)

pytestmark = pytest.mark.slow

MARKER = "NEMO_RUNS_TEST_MARKER"


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)


def command(pid: int) -> str:
    """The first two words that a process was started with."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return b" ".join(words[:2]).decode()


class Tree:
    """A bash script in a session of its own, with a marker in its environment."""

    def __init__(self, script: str) -> None:
        self.mark = uuid.uuid4().hex
        env = {**os.environ, MARKER: self.mark}
        self.process = subprocess.Popen(["bash", "-c", script], env=env, start_new_session=True)
        self.root = identify(self.process.pid)

    def left(self) -> list[int]:
        """Everything of it that runs, zombies left out."""
        return [pid for pid in marked(MARKER, self.mark) if liveness(identify_or_dead(pid)) is Liveness.ALIVE]


def is_stopped(tree: Tree) -> bool:
    entry = process_table.read_entry(tree.process.pid)
    return entry is not None and entry.stopped


def identify_or_dead(pid: int) -> ProcessIdentity:
    try:
        return identify(pid)
    except ProcessGoneError:
        return replace(identify(), pid=pid, start_time=0)


@pytest.fixture
def plant() -> Iterator[Callable[[str, int], Tree]]:
    """Start a tree and wait until it has so many processes; whatever the test leaves is killed."""
    trees: list[Tree] = []

    def start(script: str, size: int) -> Tree:
        tree = Tree(script)
        trees.append(tree)
        until(lambda: len(tree.left()) == size)
        return tree

    yield start
    for tree in trees:
        for pid in marked(MARKER, tree.mark):
            os.kill(pid, signal.SIGKILL)
        tree.process.wait()


Plant = Callable[[str, int], Tree]


def test_an_identity_survives_json_and_further_keys() -> None:
    me = identify()
    assert me.pid == os.getpid()
    assert ProcessIdentity.from_json(json.loads(json.dumps({**me.to_json(), "job_id": "7"}))) == me


@pytest.mark.parametrize("value", [{}, {"host": "x"}, None, [], {**identify().to_json(), "pid": "many"}])
def test_a_damaged_identity_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(RunsError, match="damaged"):
        ProcessIdentity.from_json(value)


def test_a_process_that_is_gone_has_no_identity() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    with pytest.raises(ProcessGoneError, match=str(child.pid)):
        identify(child.pid)


def test_a_process_is_alive_then_a_zombie_then_gone() -> None:
    child = subprocess.Popen(["sleep", "60"])
    identity = identify(child.pid)
    assert liveness(identity) is Liveness.ALIVE
    child.kill()
    until(lambda: liveness(identity) is Liveness.DEAD)
    assert Path(f"/proc/{child.pid}").exists()
    child.wait()
    assert liveness(identity) is Liveness.DEAD


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"start_time": 1}, Liveness.DEAD),
        ({"boot_id": "another"}, Liveness.DEAD),
        ({"boot_id": "another", "pid_namespace": "pid:[1]"}, Liveness.DEAD),
        ({"pid_namespace": "pid:[1]"}, Liveness.ELSEWHERE),
        ({"host": "before its renaming"}, Liveness.ALIVE),
        ({"host": "before its renaming", "start_time": 1}, Liveness.DEAD),
        ({"host": "another", "pid_namespace": "pid:[1]"}, Liveness.ELSEWHERE),
        ({"host": "another", "boot_id": "another"}, Liveness.ELSEWHERE),
        ({}, Liveness.ALIVE),
    ],
)
def test_what_can_be_said_depends_on_where_it_ran(change: dict[str, object], expected: Liveness) -> None:
    assert liveness(replace(identify(), **change)) is expected  # type: ignore[arg-type]


def test_without_a_boot_id_the_host_name_says_which_machine_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_table, "boot_id", lambda: process_table.UNKNOWN_BOOT)
    assert liveness(identify()) is Liveness.ALIVE
    assert liveness(replace(identify(), host="another")) is Liveness.ELSEWHERE


def test_a_tree_is_ended_after_the_machine_was_renamed(plant: Plant) -> None:
    tree = plant("sleep 60 & exec sleep 60", 2)
    end_tree(replace(identify(tree.process.pid), host="before its renaming"), grace=30)
    assert tree.process.wait(30) == -signal.SIGTERM


def test_a_process_of_another_pid_namespace_is_elsewhere() -> None:
    program = (
        "import json; from nemo_runs.processes.trees import identify; print(json.dumps(identify().to_json()))"
    )
    argv = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", program]
    if not shutil.which("unshare"):
        pytest.skip("needs unshare")
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("needs the right to make a pid namespace")
    identity = ProcessIdentity.from_json(json.loads(done.stdout))
    assert identity.boot_id == identify().boot_id
    assert liveness(identity) is Liveness.ELSEWHERE


def test_descendants_are_found_without_zombies(plant: Plant) -> None:
    tree = plant("true & sleep 60 & (sleep 61; :) & exec sleep 62", 4)
    until(lambda: sorted(map(command, descendants(tree.process.pid))) == ["bash -c", "sleep 60", "sleep 61"])


def test_a_marker_finds_what_left_the_tree(plant: Plant) -> None:
    tree = plant("(setsid bash -c 'sleep 60 & exec sleep 60' &) ; exec sleep 60", 3)
    until(lambda: descendants(tree.process.pid) == [] and len(marked(MARKER, tree.mark)) == 3)
    assert marked(MARKER, tree.mark[:-1]) == []


def test_a_tree_that_obeys_gets_no_sigkill(plant: Plant) -> None:
    tree = plant("sleep 60 & (sleep 60; :) & wait", 4)
    assert end_tree(tree.root, grace=20) == []
    assert tree.left() == []


def test_what_ignores_sigterm_is_killed_after_the_grace(plant: Plant) -> None:
    tree = plant("trap '' TERM; sleep 60 & sleep 60", 3)
    started = time.monotonic()
    killed = end_tree(tree.root, grace=0.3)
    assert time.monotonic() - started >= 0.3
    assert len(killed) == 3
    assert tree.left() == []


def test_orphans_of_the_session_are_ended_though_their_parent_is_gone(plant: Plant) -> None:
    tree = plant("(sleep 60 & sleep 60 &) ; exec sleep 61", 3)
    until(lambda: descendants(tree.process.pid) == [] and len(tree.left()) == 3)
    end_tree(tree.root, grace=5)
    assert tree.left() == []


def test_orphans_of_the_session_are_ended_though_its_leader_is_a_zombie(plant: Plant) -> None:
    tree = plant("sleep 60 & sleep 60 & sleep 0.2; exit 0", 2)
    until(lambda: liveness(tree.root) is Liveness.DEAD)
    end_tree(tree.root, grace=5)
    assert tree.left() == []


def test_setsid_and_double_forked_processes_are_ended_by_their_marker(plant: Plant) -> None:
    tree = plant("(setsid bash -c 'trap \"\" TERM; sleep 60 & sleep 60' &) ; exec sleep 60", 4)
    killed = end_tree(tree.root, grace=0.2, marker=(MARKER, tree.mark))
    assert len(killed) >= 2
    assert tree.left() == []


def test_a_stopped_process_is_woken_to_end_by_itself(plant: Plant) -> None:
    tree = plant("trap 'exit 7' TERM; while :; do read -r -t 1 _ <> <(:); done", 1)
    until(lambda: process_table.catches(tree.process.pid, signal.SIGTERM))
    tree.process.send_signal(signal.SIGSTOP)
    until(lambda: is_stopped(tree))
    assert end_tree(tree.root, grace=20) == []
    assert tree.process.wait() == 7


def test_a_process_that_is_stopped_after_it_was_asked_is_woken_too(plant: Plant) -> None:
    tree = plant("trap 'kill -STOP $$; exit 7' TERM; while :; do read -r -t 1 _ <> <(:); done", 1)
    until(lambda: process_table.catches(tree.process.pid, signal.SIGTERM))
    assert end_tree(tree.root, grace=20) == []
    assert tree.process.wait() == 7


def test_children_born_while_the_tree_is_ended_are_ended_too(plant: Plant) -> None:
    more = "for i in 1 2 3 4 5 6; do sleep 60 & done"
    born = f"{more}; read -r -t 0.2 _ <> <(:); {more}"
    tree = plant(f"trap '{born}; wait; exit' TERM; sleep 60 & while :; do wait; done", 2)
    end_tree(tree.root, grace=0.6, marker=(MARKER, tree.mark))
    time.sleep(0.1)
    assert tree.left() == []


def test_a_later_process_of_the_same_number_is_not_touched(plant: Plant) -> None:
    tree = plant("exec sleep 60", 1)
    stranger = replace(tree.root, start_time=tree.root.start_time - 1)
    for other in (
        stranger,
        replace(tree.root, host="another", boot_id="another"),
        replace(tree.root, boot_id="another"),
    ):
        assert end_tree(other, grace=0) == []
    assert tree.left() == [tree.process.pid]


def test_a_number_that_passes_on_between_the_look_and_the_signal_is_spared(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = plant("exec sleep 60", 1)
    entry = process_table.read_entry(tree.process.pid)
    assert entry is not None
    table = {entry.pid: entry}
    later = replace(entry, start_time=entry.start_time + 1)
    moments = iter([0.0, 0.0, 0.5, 1.5, 100.0])
    with monkeypatch.context() as patched:
        patched.setattr(process_table, "read_all", lambda: table)
        patched.setattr(process_table, "read_entry", lambda _: later)
        assert end_tree(tree.root, grace=1, sleep=lambda _: None, clock=lambda: next(moments)) == []
    assert tree.left() == [tree.process.pid]


def test_neither_the_caller_nor_its_ancestors_are_touched(plant: Plant, tmp_path: Path) -> None:
    program = (
        "import os, sys; from nemo_runs.processes.trees import end_tree, identify\n"
        "root = identify(os.getppid())\n"
        f"end_tree(root, grace=0.1, marker=({MARKER!r}, os.environ[{MARKER!r}]))\n"
        "open(sys.argv[1], 'w').write('done')\n"
    )
    (tmp_path / "end.py").write_text(program)
    out = tmp_path / "out"
    # until it may go on it is two processes, and no fewer however late somebody looks
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    tree = plant(f"sleep 60 & read -r _ <{gate}; {sys.executable} {tmp_path}/end.py {out}; exec sleep 61", 2)
    gate.write_text("\n")
    until(out.exists)
    until(lambda: [command(pid) for pid in tree.left()] == ["sleep 61"])


@pytest.mark.slow
def test_what_cannot_be_killed_is_given_up(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = plant("exec sleep 60", 1)
    now = [0.0]
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)

    def sleep(_: float) -> None:
        now[0] += 1

    assert end_tree(tree.root, grace=5, sleep=sleep, clock=lambda: now[0]) == [tree.process.pid]
    assert 30 <= now[0] < 60


def test_a_kernel_without_pidfds_serves_too(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    tree = plant("sleep 60 & wait", 2)
    assert end_tree(tree.root, grace=10) == []
    assert tree.left() == []


def test_a_subreaper_becomes_the_parent_of_orphans() -> None:
    program = (
        "import os, subprocess, sys, time\n"
        "from nemo_runs.processes import trees\n"
        "trees.become_subreaper()\n"
        "out = subprocess.run(['bash', '-c', '(sleep 60 >&- & echo $!)'], stdout=-1, stderr=-3)\n"
        "pid = int(out.stdout)\n"
        "print(pid in trees.descendants(os.getpid()))\n"
        "print(trees.end_tree(trees.identify(pid), grace=5))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n[]\n"


def test_without_proc_identity_and_trees_come_from_ps(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = plant("sleep 60 & wait", 2)
    children = descendants(tree.process.pid)
    monkeypatch.setattr(process_table, "_PROC", Path("/nowhere"))
    root = identify(tree.process.pid)
    assert abs(root.start_time - time.time()) < 60
    assert liveness(root) is Liveness.ALIVE
    assert liveness(replace(root, start_time=root.start_time - 1)) is Liveness.DEAD
    assert descendants(tree.process.pid) == children
    assert marked(MARKER, tree.mark) == []
    assert end_tree(root, grace=10) == []
    assert liveness(root) is Liveness.DEAD
    monkeypatch.undo()
    assert tree.left() == []
