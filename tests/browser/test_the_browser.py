"""The browser of the tests leaves other tests alone."""

from __future__ import annotations

import asyncio

import pytest

pytestmark = pytest.mark.services


async def _answer() -> int:
    return 42


def test_other_tests_can_run_a_loop_of_their_own_while_the_browser_is_there(chromium):
    with chromium.in_use() as browser:
        assert browser.is_connected()
    assert asyncio.run(_answer()) == 42
    with chromium.in_use() as browser:
        assert browser.new_context().pages == []
