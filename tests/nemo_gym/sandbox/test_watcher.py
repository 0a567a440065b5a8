from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from nemo_gym.sandbox.bare import Bare
from nemo_gym.sandbox.interpreter import describe
from nemo_gym.sandbox.protocol import Limits, SandboxError
from nemo_gym.sandbox.session import session
from nemo_gym.sandbox.watcher import WatchedTree


@pytest.mark.slow
def test_a_watch_that_fails_ends_its_program_as_a_broken_sandbox_and_serves_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: WatchedTree) -> None:
        raise KeyError("status")

    async def use() -> None:
        async with session(Bare(describe(sys.executable)), Limits(seconds=60)) as one:
            with monkeypatch.context() as patched:
                patched.setattr(WatchedTree, "look", fail)
                with pytest.raises(SandboxError, match="its limits could not be watched: KeyError"):
                    await one.run(["sleep", "600"])
            done = await one.run(["sleep", "600"], limits=Limits(seconds=0.2))
            assert (done.limit, done.returncode) == ("seconds", 137)

    asyncio.run(use())


def test_files_of_the_session_count_as_disk(tmp_path: Path) -> None:
    tree = WatchedTree(1, Limits(disk_bytes=100_000), tmp_path)
    assert not tree.is_disk_full()
    (tmp_path / "a").write_bytes(bytes(200_000))
    assert tree.is_disk_full()
