"""Environments of other packages: what is said where one cannot be had, and what their processes get."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.bfcl import environment as bfcl
from nemo_gym.errors import GymError
from nemo_gym.harness import environment as harness
from nemo_gym.package_environments import worker_environ
from nemo_runs.environments import installing


@pytest.mark.parametrize(
    ("ensure", "what", "command"),
    [
        (bfcl.ensure_python, "bfcl: the package bfcl-eval", "`gym eval prepare --benchmark bfcl`"),
        (harness.ensure_python, "lm_eval/: lm-eval", "`gym list benchmarks lm_eval/`"),
    ],
)
def test_a_package_that_cannot_be_installed_is_named_with_what_brings_it(
    ensure: Callable[..., Path], what: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_asked: Any, **_how: Any) -> Path:
        raise problem

    monkeypatch.setattr(installing, "install", refuse)
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    problem: Exception = installing.NotInstalledError("pip failed")
    with pytest.raises(GymError) as refused:
        ensure(print, environ)
    assert str(refused.value).startswith(f"{what} is not on this machine, and pip failed; ")
    assert f"run {command} on a machine that shares this cache folder." in str(refused.value)
    problem = OSError("no space")
    with pytest.raises(GymError, match=r"cannot be installed: no space\.$"):
        ensure(print, environ)


def test_its_processes_have_our_packages_and_nothing_else_of_ours_on_their_path(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": "/mine", "PYTHONHOME": "/mine", "KEPT": "1"}
    found = worker_environ(environ)
    assert sorted(path.name for path in Path(found["PYTHONPATH"]).iterdir()) == ["nemo_gym", "nemo_runs"]
    assert "PYTHONHOME" not in found
    assert found["KEPT"] == "1"
    code = "import nemo_gym.errors, nemo_runs.errors; print(nemo_gym.__file__)"
    done = subprocess.run([sys.executable, "-c", code], env=found, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(found["PYTHONPATH"])
    assert harness.worker_environ(environ, offline=True)["HF_HUB_OFFLINE"] == "1"
