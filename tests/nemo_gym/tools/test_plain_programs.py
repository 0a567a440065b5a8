"""The user's own programs: their environment, their end, and the end of what they started."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import pytest

from nemo_gym.sandbox.protocol import Limits, SandboxError
from nemo_gym.tools.plain_programs import PlainPrograms
from nemo_runs.processes import trees

pytestmark = pytest.mark.slow

DAEMON = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(1000)
"""


def use(session: Any) -> Any:
    async def opened() -> Any:
        async with PlainPrograms().open() as plain:
            return await session(plain)

    return asyncio.run(opened())


def test_a_program_has_the_users_environment_and_a_folder_with_its_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A_TOKEN", "secret")
    code = "import os; print(os.environ['A_TOKEN'], open('a/b').read(), input())"

    async def run(session: Any) -> Any:
        return await session.run([sys.executable, "-c", code], stdin=b"in\n", files={"a/b": b"text"})

    done = use(run)
    assert (done.returncode, done.stdout, done.limit) == (0, b"secret text in\n", None)


def test_a_program_is_ended_after_its_time() -> None:
    async def run(session: Any) -> Any:
        return await session.run([sys.executable, "-c", "while True: pass"], limits=Limits(seconds=0.2))

    done = use(run)
    assert (done.limit, done.returncode) == ("seconds", 137)


def test_no_more_output_is_kept_than_may_be() -> None:
    code = "import sys; print('o' * 300_000); print('e' * 300_000, 'end', file=sys.stderr)"

    async def run(session: Any) -> Any:
        return await session.run([sys.executable, "-c", code], limits=Limits(output_bytes=100))

    done = use(run)
    assert (done.stdout, len(done.stderr), done.truncated) == (b"o" * 100, 100, True)
    assert done.stderr.endswith(b"e end\n")


def test_all_that_a_program_started_ends_with_the_session() -> None:
    async def run(session: Any) -> int:
        process = await session.start([sys.executable, "-c", DAEMON])
        return int(await process.read_line())

    child = use(run)
    assert not os.path.exists(f"/proc/{child}") or trees.liveness(trees.identify(child)) != "alive"


def test_the_end_of_a_program_is_seen_and_said() -> None:
    async def run(session: Any) -> Any:
        code = "import sys; print('one'); print('why', file=sys.stderr); sys.exit(5)"
        process = await session.start([sys.executable, "-c", code])
        lines = [await process.read_line(), await process.read_line()]
        ended = await process.stop()
        assert await process.stop() is ended
        return lines, ended

    lines, ended = use(run)
    assert lines == [b"one", None]
    assert (ended.returncode, ended.stderr) == (5, b"why\n")


def test_who_writes_to_a_program_that_ended_gets_an_error() -> None:
    async def run(session: Any) -> None:
        process = await session.start([sys.executable, "-c", "pass"])
        await process.read_line()
        for _ in range(100):
            await process.write_line(b"x" * 100_000)

    with pytest.raises(SandboxError, match="has ended"):
        use(run)


def test_a_line_without_an_end_is_refused() -> None:
    async def run(session: Any) -> None:
        process = await session.start(
            [sys.executable, "-c", "print('x' * 10_000)"], limits=Limits(output_bytes=100)
        )
        await process.read_line()

    with pytest.raises(SandboxError, match="longer than any may be"):
        use(run)
