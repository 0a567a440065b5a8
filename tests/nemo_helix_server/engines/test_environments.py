"""Environments of engines: made once, whole or not at all, and found again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from nemo_helix_server.commands.engines import engines as command
from nemo_helix_server.engines import catalogue, environments, machine, probing, sources
from nemo_helix_server.engines.catalogue import EngineRecipe
from nemo_helix_server.errors import UnknownNameError

pytestmark = pytest.mark.services

EMPTY = EngineRecipe(
    name="empty",
    summary="nothing but an interpreter",
    pins={"cpu": (), "cuda": ()},
    imports=("json",),
    packages=("pip",),
)
BROKEN = EngineRecipe(
    name="empty", summary="", pins={"cpu": (), "cuda": ()}, imports=("json", "nonesuch"), packages=("pip",)
)
INSTALLER = """
import pathlib, sys
from nemo_helix_server.engines import environments
from tests.nemo_helix_server.engines.test_environments import EMPTY
print(environments.install(EMPTY, "cpu", pathlib.Path(sys.argv[1]), report=lambda text: print(text,
flush=True)).folder)
"""
ROOT = Path(__file__).parents[3]
DEADLINE = 120.0


def installer(cache: Path) -> subprocess.Popen[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", INSTALLER, str(cache)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environ, start_new_session=True)


def test_the_pins_are_exact_and_name_no_registry() -> None:
    for recipe in catalogue.RECIPES.values():
        for file in {file for files in recipe.pins.values() for file in files}:
            text = catalogue.pins_text(file)
            assert "://" not in text
            lines = [line for line in text.splitlines() if line and line[0] not in " #"]
            assert lines
            assert all("==" in line for line in lines)


def test_another_pin_device_or_python_is_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    trl = catalogue.recipe("trl")
    before = catalogue.environment(trl, "cpu").digest
    assert catalogue.environment(trl, "cpu").digest == before
    assert catalogue.environment(trl, "cuda").digest != before
    monkeypatch.setattr(catalogue, "pins_text", lambda file: file)
    assert catalogue.environment(trl, "cpu").digest != before


def test_an_unknown_engine_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match=r"there is no engine 'x'; known are .*trl"):
        catalogue.recipe("x")


def test_what_is_not_installed_is_not_found(tmp_path: Path) -> None:
    assert environments.find(catalogue.recipe("trl"), "cpu", tmp_path) is None


@pytest.mark.slow
@pytest.mark.e2e
def test_of_two_installers_one_makes_the_environment_and_both_get_it(tmp_path: Path) -> None:
    both = [installer(tmp_path), installer(tmp_path)]
    said = [process.communicate(timeout=DEADLINE)[0].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert said[0][-1] == said[1][-1]
    assert sum(line.startswith("installing") for lines in said for line in lines) == 1
    assert len(list(Path(said[0][-1]).parent.glob("venv-*"))) == 1


@pytest.mark.slow
@pytest.mark.e2e
def test_after_a_killed_installer_the_environment_is_made_anew(tmp_path: Path) -> None:
    killed = installer(tmp_path)
    assert killed.stdout is not None
    assert killed.stdout.readline().startswith("installing")
    home = catalogue.environment(EMPTY, "cpu").home(tmp_path)
    limit = time.monotonic() + DEADLINE
    while not list(home.glob("venv-*/pyvenv.cfg")) and time.monotonic() < limit:
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=DEADLINE)
    assert environments.find(EMPTY, "cpu", tmp_path) is None
    said: list[str] = []
    made = environments.install(EMPTY, "cpu", tmp_path, report=said.append)
    assert said[0].startswith("installing")
    assert environments.find(EMPTY, "cpu", tmp_path) == made
    report = probing.examine(EMPTY, "cpu", tmp_path)
    assert report.usable
    assert set(report.versions) == {"pip"}
    broken = probing.examine(BROKEN, "cpu", tmp_path)
    assert not broken.usable
    assert broken.problem == "import nonesuch: ModuleNotFoundError: No module named 'nonesuch'"


def test_an_environment_whose_record_is_torn_is_none(tmp_path: Path) -> None:
    home = catalogue.environment(EMPTY, "cpu").home(tmp_path)
    home.mkdir(parents=True)
    for text in ("", "{", '{"venv": 3}', '{"venv": "venv-gone"}'):
        (home / environments.COMPLETE).write_text(text)
        assert environments.find(EMPTY, "cpu", tmp_path) is None


def test_an_engine_gets_our_packages_and_nothing_else_on_its_path(tmp_path: Path) -> None:
    threads = [threading.Thread(target=sources.source_path, args=(tmp_path,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    folder = sources.source_path(tmp_path)
    assert sorted(entry.name for entry in folder.iterdir()) == sorted(sources.PACKAGES)
    assert all((entry / "__init__.py").is_file() for entry in folder.iterdir())
    environ = sources.engine_environment(tmp_path, {"PYTHONPATH": "/elsewhere", "OMP_NUM_THREADS": "3"})
    assert environ["PYTHONPATH"] == str(folder)
    assert environ["OMP_NUM_THREADS"] == "3"
    assert environ["HF_HUB_OFFLINE"] == "1"


def test_the_device_is_what_the_machine_has_unless_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho NVIDIA H200\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert machine.found_device({}) == "cuda"
    assert machine.gpu_names() == ["NVIDIA H200"]
    assert machine.found_device({"NHX_ENGINES_DEVICE": "cpu"}) == "cpu"
    program.write_text("#!/bin/sh\nexit 9\n")
    assert machine.found_device({}) == "cpu"


def test_the_commands_say_what_is_there_and_why_not() -> None:
    runner = CliRunner()
    listed = runner.invoke(command, ["list", "--json", "--device", "cpu"])
    assert listed.exit_code == 0
    by_name = {report["engine"]: report for report in json.loads(listed.stdout)}
    assert by_name["trl"]["usable"] is False
    assert by_name["trl"]["problem"] == "not installed: run `nemo engines install trl`"
    doctor = runner.invoke(command, ["doctor", "trl", "--device", "cpu"])
    assert doctor.exit_code == 1
    assert "problem: not installed: run `nemo engines install trl`" in doctor.stdout
    nothing = runner.invoke(command, ["install"])
    assert nothing.exit_code == 2
    assert "name an engine" in nothing.stderr
