"""The program against a real HTTP service that holds a few jobs in memory."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from tests.nemo_helix_plugin import stand_in

from nemo_helix_plugin.cli import main


class Ran(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def service(monkeypatch):
    with stand_in.running() as running:
        monkeypatch.setenv("NHX_BASE_URL", running.url)
        yield running


@pytest.fixture
def nemo(capsys):
    """Run a command in this process, as its `main` would; standard output is not a terminal."""

    def run(*args: str) -> Ran:
        capsys.readouterr()
        status = main._status([str(arg) for arg in args])
        return Ran(status, *capsys.readouterr())

    return run
