from __future__ import annotations

import asyncio
import contextlib
import os

import pytest

from nemo_gym.sandbox.bare import Bare
from nemo_gym.sandbox.interpreter import describe, own_python
from nemo_gym.sandbox.launching import WORK
from nemo_gym.sandbox.protocol import Limits
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
