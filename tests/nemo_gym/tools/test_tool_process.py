from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from nemo_gym.tools import tool_process
from nemo_gym.tools.calling import ToolCrashedError
from nemo_gym.tools.places import Places
from nemo_gym.tools.tool_process import ToolProcess

pytestmark = pytest.mark.slow


def started(code: str, setup: dict[str, Any]) -> None:
    """Start a process, ask it once, and end it."""

    async def use() -> None:
        places = Places(None, needed=False, where="sandbox")
        async with asyncio.timeout(60), places.open(None, output_bytes=100) as place:
            process, _ = await ToolProcess.start(place, [sys.executable, "-c", code], setup, "the process")
            try:
                await process.ask({}, seconds=60)
            finally:
                await process.end()

    asyncio.run(use())


def test_a_process_that_does_not_read_its_setup_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool_process, "STARTING", 0.3)
    with pytest.raises(ToolCrashedError, match=r"the process said nothing for 0\.3 s after its start"):
        started("import time; time.sleep(1000)", {"row": "x" * 10_000_000})


@pytest.mark.parametrize("before", ["", "print('{}', flush=True); input(); input(); "])
def test_a_line_longer_than_any_may_be_is_the_end_of_the_process(before: str) -> None:
    code = f"{before}print('x' * 20_000_000, flush=True); input()"
    with pytest.raises(ToolCrashedError, match="wrote a line that is longer than any may be"):
        started(code, {})
