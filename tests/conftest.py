"""What every test has: a home of its own, so that none ever reads or writes the real one."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest


def pytest_configure() -> None:
    """Let Ctrl-C be one, for tests and their children: what a script runs in the background ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home folder; children inherit it."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for variable, folder in {
        "XDG_CACHE_HOME": ".cache",
        "XDG_CONFIG_HOME": ".config",
        "XDG_DATA_HOME": ".local/share",
        "XDG_STATE_HOME": ".local/state",
    }.items():
        monkeypatch.setenv(variable, str(home / folder))
    return home
