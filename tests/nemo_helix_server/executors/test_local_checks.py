"""What of this machine keeps steps from running, by its devices, slots, disk and engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_helix_server.engines import catalogue
from nemo_helix_server.executors.local_checks import MachineChecks
from nemo_helix_server.settings import EnginesSettings
from nemo_runs.findings import Finding, FindingLevel
from nemo_runs.leases.machine_leases import Pool


def checks(tmp_path: Path, *, devices: tuple[str, ...] = (), **changes: Any) -> MachineChecks:
    values = {
        "data_dir": tmp_path,
        "minimum_free_bytes": 1,
        "pool": Pool(tmp_path / "leases", devices, 4),
        "engines": EnginesSettings(),
        "device": "cpu",
        "cache": tmp_path / "cache",
    }
    return MachineChecks(**{**values, **changes})


def about(found: list[Finding] | Any, what: str) -> Finding:
    (one,) = [finding for finding in found if finding.about == what]
    return one


@pytest.mark.parametrize(
    ("provider", "devices", "verdict", "text"),
    [
        ("cpu", (), FindingLevel.OK, "no GPU is found; training runs on the processor"),
        ("subprocess", (), FindingLevel.OK, "no GPU is found; training runs on the processor"),
        ("gpu", (), FindingLevel.PROBLEM, "no GPU is found, so steps that ask for one are refused"),
        ("gpu_distributed", (), FindingLevel.PROBLEM, "no GPU is found, so steps that ask for one"),
        ("gpu", ("GPU-1",), FindingLevel.OK, "1 GPU may be leased"),
        ("cpu", ("GPU-1", "GPU-2"), FindingLevel.OK, "2 GPUs may be leased"),
    ],
)
def test_devices_matter_to_profiles_that_need_them(
    tmp_path: Path, provider: Any, devices: tuple[str, ...], verdict: FindingLevel, text: str
) -> None:
    found = about(checks(tmp_path, devices=devices).findings(provider), "devices")
    assert found.verdict is verdict
    assert found.text.startswith(text)


def test_one_machine_is_one_node(tmp_path: Path) -> None:
    found = checks(tmp_path, devices=("GPU-1",)).findings("gpu_distributed")
    assert about(found, "nodes").verdict is FindingLevel.WARNING


def test_slots_are_counted_and_a_book_that_cannot_be_used_is_a_problem(tmp_path: Path) -> None:
    assert about(checks(tmp_path).findings("cpu"), "slots").text == (
        "4 steps without GPU may run at once; 0 of these places are held now"
    )
    (tmp_path / "file").touch()
    found = about(checks(tmp_path, pool=Pool(tmp_path / "file", (), 4)).findings("cpu"), "slots")
    assert found.verdict is FindingLevel.PROBLEM
    assert str(tmp_path / "file") in found.text


def test_a_disk_with_less_than_starts_need_is_a_problem(tmp_path: Path) -> None:
    assert about(checks(tmp_path).findings("cpu"), "disk").verdict is FindingLevel.OK
    found = about(checks(tmp_path, minimum_free_bytes=2**62).findings("cpu"), "disk")
    assert found.verdict is FindingLevel.PROBLEM
    assert "jobs.storage.minimum_free_bytes" in found.text
    gone = about(checks(tmp_path, data_dir=tmp_path / "gone").findings("cpu"), "disk")
    assert (gone.verdict, "gone cannot be used: No such file" in gone.text) == (FindingLevel.PROBLEM, True)


def test_engines_are_installed_named_or_missing(tmp_path: Path) -> None:
    home = catalogue.environment(catalogue.RECIPES["trl"], "cpu").home(tmp_path / "cache")
    python = home / "venv-1" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch(0o700)
    (home / "complete.json").write_text(json.dumps({"venv": "venv-1"}))
    engines = EnginesSettings.model_validate({"unsloth": {"python": str(tmp_path / "none")}})
    found = checks(tmp_path, engines=engines).findings("cpu")
    assert about(found, "engine trl").text == str(python)
    assert about(found, "engine automodel").text == "it is not installed: `nemo engines install automodel`"
    assert about(found, "engine automodel").verdict is FindingLevel.WARNING
    wrong = about(found, "engine unsloth")
    assert wrong.text == f"engines.unsloth.python: {tmp_path / 'none'} is not a program."
    assert wrong.verdict is FindingLevel.PROBLEM
    assert [finding.about for finding in found if "trackers" in finding.about] == []
