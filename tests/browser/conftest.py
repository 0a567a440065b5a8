"""A headless Chromium, one for all tests of a process, and a window of its own for each test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import threading
from asyncio import _set_running_loop
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect, sync_playwright
from starlette.types import ASGIApp

expect.set_options(timeout=60_000)
_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
]


@dataclass(frozen=True)
class Chromium:
    """The browser of a process, and the loop that Playwright leaves running between its calls."""

    browser: Browser
    loop: asyncio.AbstractEventLoop

    @contextlib.contextmanager
    def in_use(self) -> Iterator[Browser]:
        """Let that loop be the running one; before and after, tests can run their own in this thread."""
        _set_running_loop(self.loop)
        try:
            yield self.browser
        finally:
            _set_running_loop(None)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    program = shutil.which("chromium")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is missing; scripts/system-packages.sh installs it")
        pytest.skip("chromium is not installed; scripts/system-packages.sh names the package")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=_FLAGS, env={**os.environ})
        made = Chromium(found, asyncio.get_running_loop())
        _set_running_loop(None)
        yield made
        _set_running_loop(made.loop)
        found.close()
    _set_running_loop(None)


@pytest.fixture
def browser(chromium: Chromium) -> Iterator[Browser]:
    """The browser, for one test."""
    with chromium.in_use() as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A window; the test fails where its console has an error."""
    context = browser.new_context(locale="en-GB", timezone_id="Europe/Berlin", reduced_motion="reduce")
    context.set_default_timeout(60_000)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert [error for error in errors if "net::ERR_" not in error and "status of 4" not in error] == []


class Served:
    """An application on a free port of this machine."""

    def __init__(self, app: ASGIApp, port: int = 0) -> None:
        self.socket = socket.create_server(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(app, log_level="critical", access_log=False, timeout_graceful_shutdown=0)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self.socket]})
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=60)
        self.socket.close()


@pytest.fixture
def serve() -> Iterator[Callable[[ASGIApp], Any]]:
    """Serves applications until the test ends."""
    served: list[Served] = []

    def begin(app: ASGIApp, port: int = 0) -> Served:
        served.append(Served(app, port))
        return served[-1]

    yield begin
    for each in served:
        each.stop()
