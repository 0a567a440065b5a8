from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import pytest
from tests.small_disk import small_disk

from nemo_gym.sandbox import scratch
from nemo_gym.sandbox.bare import Bare
from nemo_gym.sandbox.interpreter import describe, own_python
from nemo_gym.sandbox.launching import WORK
from nemo_gym.sandbox.protocol import Limits, SandboxError
from nemo_gym.sandbox.scratch import MARKER
from nemo_gym.sandbox.session import session
from nemo_gym.sandbox.watcher import WATCHER
from nemo_runs.processes import trees

TWO_PROCESSES = """
import os, time
os.set_blocking(1, False)
os.write(1, bytes(2**16))
if os.fork():
    open("up", "w").close()
time.sleep(1000)
"""


def held() -> tuple[int, int]:
    return len(os.listdir("/proc/self/fd")), len(WATCHER._trees)


@pytest.mark.slow
def test_a_full_disk_of_the_machine_is_not_the_fault_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(program: str) -> int:
        async with session(Bare(describe(own_python())), Limits(seconds=60)) as one:
            return (await one.run(["python3", "-c", program])).returncode

    with small_disk(tmp_path / "disk", megabytes=1) as disk:
        place = scratch.Scratch(disk)
        monkeypatch.setattr(scratch, "of_this_process", lambda: place)
        assert asyncio.run(use("raise SystemExit(3)")) == 3
        with pytest.raises(SandboxError, match=rf"^no space is left in {disk}, where"):
            asyncio.run(use("open('file', 'wb').write(bytes(3_000_000))"))
        assert asyncio.run(use("raise SystemExit(3)")) == 3
        place.close()


@pytest.mark.slow
def test_of_a_run_that_is_given_up_nothing_is_left_once_it_returns() -> None:
    async def use() -> None:
        async with session(Bare(describe(own_python())), Limits(seconds=1000)) as one:
            before = held()
            run = asyncio.create_task(one.run(["python3", "-c", TWO_PROCESSES]))
            up = one._folder / WORK / "up"
            async with asyncio.timeout(60):
                while not up.exists():  # noqa: ASYNC110 - a file tells of no event
                    await asyncio.sleep(0.01)
            run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await run
            assert held() == before
            assert trees.marked(MARKER, one._folder.parent.name) == []

    asyncio.run(use())
