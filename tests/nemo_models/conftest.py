"""A base model, an adapter of it, and the program `nemo` with the user's engines."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import engines, trained_models
from tests.trained_models import TrainedModels

NEMO = str(Path(sys.executable).with_name("nemo"))
Nemo = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedModels:
    return trained_models.make(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's engines, and everything else of this test's own; no service and no hub."""
    monkeypatch.setenv("XDG_CACHE_HOME", engines.shared_engines(tmp_path / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("NHX_ENGINES_DEVICE", "cpu")
    monkeypatch.setenv("NHX_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub-home"))


@pytest.fixture
def nemo(machine: None, tmp_path: Path) -> Nemo:
    def run(*arguments: str, given: str = "", status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [NEMO, *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            cwd=tmp_path,
        )
        assert done.returncode == status, (done.stdout, done.stderr)
        return done

    return run
