"""What every test has: a home of its own, so that none ever reads or writes the real one."""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import source_tree, worker_events

os.environ["NEMO_WITHOUT_PACKAGES"] = "1"  # before settings are made, which have a section for each backend

_MARKS_OF_FILE = re.compile(r"^pytestmark = (?:\[[^\]]*|.*)", re.MULTILINE)


_VLLM = "vllm: starts a real vLLM without a GPU, which `make test-vllm` installs; left out unless asked for"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a file unread all of whose tests have a mark that is left out: importing them takes seconds."""
    expression = config.option.markexpr
    if collection_path.suffix != ".py" or not re.fullmatch(r"not \w+(?: and not \w+)*", expression):
        return None
    left_out = re.findall(r"not (\w+)", expression)
    marks = "".join(_MARKS_OF_FILE.findall(collection_path.read_text(encoding="utf-8")))
    return True if any(f"pytest.mark.{mark}" in marks for mark in left_out) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector from what stays until the end: a million objects that it looks through."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a case of bytes after its argument: an archive holds the time, and each worker makes its own."""
    return argname if isinstance(val, bytes) else None


_MARKS_BY_COST = ("slurm", "e2e", "services", "slow")


def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Put first what takes long, and then what reads all sources: workers take over tests from the end.

    So one worker begins with the real Slurm, where a test may have to be alone, while others do the rest,
    what is left at the end is short, and one worker reads the sources.
    """
    readers = {id(source_tree.parsed), id(source_tree.modules)}
    modules = {item.module for item in items}
    reading = {module for module in modules if not readers.isdisjoint(map(id, vars(module).values()))}

    def place(item: pytest.Function) -> tuple[int, bool]:
        costs = (cost for cost, mark in enumerate(_MARKS_BY_COST) if item.get_closest_marker(mark))
        return next(costs, len(_MARKS_BY_COST)), item.module not in reading

    items.sort(key=place)


def pytest_configure(config: pytest.Config) -> None:
    """Leave out what needs gigabytes of its own, whatever else is chosen.

    Let Ctrl-C be one, for tests and their children: what a script runs in the background ignores it.
    """
    config.addinivalue_line("markers", _VLLM)
    chosen = config.option.markexpr
    if "vllm" not in chosen:
        every = f"({chosen})" if " or " in chosen else chosen
        config.option.markexpr = f"{every} and not vllm" if chosen else "not vllm"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    worker_events.send_what_is_shown(config)
    worker_events.name_failures_at_once(config)


_FOLDERS = {
    "HOME": "",
    "XDG_CACHE_HOME": "/.cache",
    "XDG_CONFIG_HOME": "/.config",
    "XDG_DATA_HOME": "/.local/share",
    "XDG_STATE_HOME": "/.local/state",
}


class Homes:
    """Empty home folders: one that a test left empty serves the next test too."""

    def __init__(self, folder: Path) -> None:
        self._numbered = (folder / str(number) for number in itertools.count())
        self._home, self._mode = self._made()

    def empty(self) -> Path:
        """A folder with nothing in it."""
        try:
            changed = os.listdir(self._home) or self._home.stat().st_mode != self._mode
        except OSError:
            changed = True
        if changed:
            self._home, self._mode = self._made()
        return self._home

    def _made(self) -> tuple[Path, int]:
        home = next(self._numbered)
        home.mkdir()
        return home, home.stat().st_mode


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Homes:
    return Homes(tmp_path_factory.mktemp("homes"))


@pytest.fixture(autouse=True)
def own_home(homes: Homes) -> Iterator[Path]:
    """An empty home folder; children inherit it."""
    home = homes.empty()
    before = {variable: os.environ.get(variable) for variable in _FOLDERS}
    os.environ.update({variable: f"{home}{folder}" for variable, folder in _FOLDERS.items()})
    yield home
    for variable, value in before.items():
        if value is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = value
