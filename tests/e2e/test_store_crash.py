"""The store under real kills, real full files, real other namespaces and real rivals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nemo_gym.errors import BusyError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.rows import check_line
from nemo_gym.rollouts.output.store import OutputStore
from nemo_gym.rollouts.run_config.identity import Identity
from nemo_runs.clock import SystemClock

pytestmark = pytest.mark.e2e

Process = subprocess.Popen[str]
Start = Callable[..., Process]

ROOT = Path(__file__).parents[2]

COLLECT = """
import json, os, resource, sys
from pathlib import Path
from nemo_runs.clock import SystemClock
from nemo_gym.errors import GymError
from nemo_gym.rollouts.run_config.identity import Identity
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.store import OutputStore
from nemo_runs.errors import RunsError

def rows():
    for task in range(50):
        yield b'{"_ng_task_index":%d,"_ng_rollout_index":0}' % task

def say(*words):
    print(*words, flush=True)

def open_store():
    return OutputStore.open(
        RolloutPaths(Path(sys.argv[1]) / "rollouts.jsonl"), identity=Identity({}, {}), rows=rows, link={},
        num_tasks=50, num_repeats=1, max_attempts=3, resume=True, allow_unsafe=False, clock=SystemClock(),
    )
"""

ZOMBIE = """
store = open_store()
tasks = store.pending()
for _ in range(5):
    store.record(next(tasks), {"by": "zombie"})
store.tick()
say("ready")
input()
store.record(next(tasks), {"by": "zombie, late"})
try:
    store.tick()
except GymError as error:
    say(type(error).__name__)
store.close()
"""

FULL = """
store = open_store()
size = os.path.getsize(store.paths.output)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 2500, size + 2500))
count = 0
try:
    for task in store.pending():
        store.record(task, {"answer": "x" * 500})
        count += 1
except RunsError as error:
    say(count, type(error).__name__, error)
store.close()
"""

RIVAL = """
say("ready")
input()
try:
    store = open_store()
    say("won")
    input()
except GymError as error:
    say(type(error).__name__)
"""


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts programs; what still runs at the end is killed."""
    started: list[Process] = []

    def start_one(program: str, folder: Path, *, prefix: tuple[str, ...] = (), **environ: str) -> Process:
        process = subprocess.Popen(
            [*prefix, sys.executable, "-c", COLLECT + program, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environ},
        )
        started.append(process)
        return process

    yield start_one
    for process in started:
        end(process)


def end(process: Process) -> None:
    if process.poll() is None:
        process.kill()
    process.communicate(timeout=120)


def line_of(process: Process) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go_on(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def open_here(folder: Path, **link: str) -> OutputStore:
    return OutputStore.open(
        RolloutPaths(folder / "rollouts.jsonl"),
        identity=Identity({}, {}),
        rows=lambda: pytest.fail("the inputs are there already"),
        num_tasks=50,
        num_repeats=1,
        max_attempts=3,
        resume=True,
        allow_unsafe=False,
        link=link,
        clock=SystemClock(),
    )


def recorded(folder: Path) -> list[int]:
    lines = (folder / "rollouts.jsonl").read_bytes().split(b"\n")
    assert lines.pop() == b""
    found = [check_line(line) for line in lines]
    assert None not in found
    return [identity[0] for identity in found if identity]


@pytest.mark.slow
def test_a_hundred_kills_at_random_moments_lose_double_and_tear_nothing() -> None:
    program = [sys.executable, str(ROOT / "bench" / "crash.py"), "--kills", "100"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert {key: found[key] for key in ("kills", "lost", "doubled", "torn", "refused")} == {
        "kills": 100,
        "lost": 0,
        "doubled": 0,
        "torn": 0,
        "refused": 0,
    }
    assert min(found["while_recording"], found["torn_tails"], found["takeovers"]) > 5


def test_a_full_disk_ends_in_one_clear_sentence_and_whole_rows(start: Start, tmp_path: Path) -> None:
    child = start(FULL, tmp_path)
    said = line_of(child)
    assert child.wait(timeout=120) == 0
    count, kind, *words = said.split()
    assert kind == "DiskFullError"
    assert str(tmp_path / "rollouts.jsonl") in " ".join(words)
    assert recorded(tmp_path) == list(range(int(count)))
    assert int(count) > 2
    with open_here(tmp_path) as store:
        assert store.opened.repaired == []
        assert store.remaining == 50 - int(count)


def test_of_several_processes_that_open_at_once_exactly_one_wins(start: Start, tmp_path: Path) -> None:
    rivals = [start(RIVAL, tmp_path) for _ in range(4)]
    assert [line_of(rival) for rival in rivals] == ["ready"] * 4
    for rival in rivals:
        go_on(rival)
    assert sorted(line_of(rival) for rival in rivals) == ["BusyError"] * 3 + ["won"]
    for rival in rivals:
        end(rival)
    with open_here(tmp_path) as store:  # the winner was killed: nobody waits for it
        assert store.opened.pending == 50


def test_a_killed_owner_is_succeeded_at_once_by_anybody_on_this_machine(start: Start, tmp_path: Path) -> None:
    owner = start(ZOMBIE, tmp_path)
    assert line_of(owner) == "ready"
    with pytest.raises(BusyError, match=f"process {owner.pid} on this machine"):
        open_here(tmp_path)
    end(owner)
    with open_here(tmp_path) as store:
        assert store.recorded == 5
        assert store.opened.repaired == []


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")
def test_an_owner_in_another_pid_namespace_is_fenced_off_and_told(start: Start, tmp_path: Path) -> None:
    """Its number means nothing here, so it is busy for a stranger and succeeded at once by its own chain."""
    namespace = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    zombie = start(ZOMBIE, tmp_path, prefix=namespace, NEMO_GYM_CHAIN="gym-job/b")
    assert line_of(zombie) == "ready"
    with pytest.raises(BusyError, match=r"process \d+ on host .* is collecting into it, seen \d+ s ago"):
        open_here(tmp_path)
    with open_here(tmp_path, chain="gym-job/b") as store:
        assert "its last writer cannot be seen from here" in store.opened.repaired[0]
        go_on(zombie)
        assert line_of(zombie) == "SupersededError"
        assert zombie.wait(timeout=120) == 0
        tasks = store.pending()
        assert next(tasks).task_index == 5  # the late row of the zombie does not count
        store.tick()
        assert recorded(tmp_path) == [0, 1, 2, 3, 4]
