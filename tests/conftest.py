"""What every test has: a home of its own, so that none ever reads or writes the real one."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

_MARKS_OF_FILE = re.compile(r"^pytestmark = (?:\[[^\]]*|.*)", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a file unread all of whose tests have a mark that is left out: importing them takes seconds."""
    expression = config.option.markexpr
    if collection_path.suffix != ".py" or not re.fullmatch(r"not \w+(?: and not \w+)*", expression):
        return None
    left_out = re.findall(r"not (\w+)", expression)
    marks = "".join(_MARKS_OF_FILE.findall(collection_path.read_text(encoding="utf-8")))
    return True if any(f"pytest.mark.{mark}" in marks for mark in left_out) else None


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
