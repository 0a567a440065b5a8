"""What is left of a sandbox when the process that opened it is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.real_programs import needs_bwrap

from nemo_gym.sandbox.launching import WORK
from nemo_gym.sandbox.scratch import Scratch
from nemo_runs import file_locks
from nemo_runs.processes import process_table

pytestmark = pytest.mark.slow

OPENER = """
import asyncio, sys
from nemo_gym.sandbox.registry import load_sandbox
CODE = "import os, time; open('f', 'w').close(); os.fork(); print('up', flush=True); time.sleep(NUMBER)"
async def main():
    async with load_sandbox({"type": sys.argv[1], "seconds": 1000}).open() as session:
        program = await session.start(["python3", "-c", CODE])
        print((await program.read_line()).decode(), flush=True)
        await program.read_line()
        await asyncio.sleep(1000)
asyncio.run(main())
"""


def running(number: int) -> list[int]:
    found = []
    for pid, entry in process_table.read_all().items():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if f"time.sleep({number})".encode() in command and not entry.ended:
            found.append(pid)
    return found


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("bubblewrap", marks=needs_bwrap), "none"])
def test_nothing_is_left_when_the_opener_is_killed(kind: str, tmp_path: Path) -> None:
    number = 500_000 + int(time.time()) % 100_000
    opener = subprocess.Popen(
        [sys.executable, "-c", OPENER.replace("NUMBER", str(number)), kind],
        stdout=subprocess.PIPE,
        env={"TMPDIR": str(tmp_path)},
    )
    assert opener.stdout is not None
    with opener.stdout:
        assert opener.stdout.readline() == b"up\n"
        assert len(running(number)) >= 2
        assert list(tmp_path.glob(f"gym-sandbox-*/*/{WORK}/f"))
        opener.kill()
    opener.wait()
    until(lambda: running(number) == [])
    until(lambda: list(tmp_path.iterdir()) == [])


def test_a_folder_whose_owner_is_gone_is_removed_by_the_next_and_one_in_use_is_not(tmp_path: Path) -> None:
    live = Scratch(tmp_path)
    kept = live.new_folder()
    left = tmp_path / "gym-sandbox-left"
    (left / "a").mkdir(parents=True)
    (left / "owner.lock").touch()
    strangers = tmp_path / "gym-sandbox-of-others"
    strangers.mkdir()
    link = tmp_path / "gym-sandbox-link"
    link.symlink_to(strangers)
    other = Scratch(tmp_path)
    assert kept.is_dir()
    assert strangers.is_dir()
    assert link.is_symlink()
    assert not left.exists()
    live.close()
    other.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gym-sandbox-link", "gym-sandbox-of-others"]


def test_a_folder_that_is_being_made_is_not_removed_by_another_that_is_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = file_locks.acquire
    others = []

    def after_another(path: Path) -> int | None:
        path.touch()
        monkeypatch.setattr(file_locks, "acquire", acquire)
        others.append(Scratch(tmp_path))
        return acquire(path)

    monkeypatch.setattr(file_locks, "acquire", after_another)
    made = Scratch(tmp_path)
    assert made.new_folder().is_dir()
    for one in (made, *others):
        one.close()
    assert list(tmp_path.iterdir()) == []
