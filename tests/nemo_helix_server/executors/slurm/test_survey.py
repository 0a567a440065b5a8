"""One look at a cluster's host: what its script prints, and what is made of it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_helix_server.executors.slurm.survey import HostSurvey, read, survey
from nemo_slurm.hosts import LocalHost

SAID = """\
Welcome to the cluster
clock\t100.5
user\t1000
service\t77 12
root\t1000 700
free\t2048
missing\t/images/a.sif
missing\tapptainer
python 0 0\tfound [[3, 11, 2], [], {}]
python 1 0\tmodule loaded found [[3, 12, 1], ["trl"], {"torch": "2.9.0"}]
python 2 127\ttimeout: no such file
"""
PYTHONS = (("", "python3"), ("trl", "/e/trl"), ("unsloth", "/e/unsloth"))


def told(text: str = SAID, asked: tuple[float, float] = (100.0, 101.0), service: str = "") -> HostSurvey:
    return read(text, PYTHONS, asked=asked, service=service)


def test_every_line_is_read_and_a_banner_is_passed_over() -> None:
    found = told()
    assert (found.user, found.owner, found.mode, found.free_bytes) == (1000, 1000, 0o700, 2 << 20)
    assert (found.unwritable, found.setup) == ("", None)
    assert found.missing == {"/images/a.sif", "apptainer"}
    assert found.own is not None
    assert found.own.version == (3, 11, 2)
    trl, unsloth = found.engines["trl"], found.engines["unsloth"]
    assert (trl.version, trl.missing, dict(trl.versions)) == ((3, 12, 1), ("trl",), {"torch": "2.9.0"})
    assert (unsloth.version, unsloth.said) == (None, "it said 'timeout: no such file'")


@pytest.mark.parametrize(
    ("asked", "ahead"), [((100, 101), 0), ((90, 91), 9.5), ((110, 112), -9.5), ((100.5, 100.5), 0)]
)
def test_a_clock_is_wrong_only_beyond_the_time_that_the_question_took(
    asked: tuple[float, float], ahead: float
) -> None:
    assert told(asked=asked).ahead == ahead


@pytest.mark.parametrize(("service", "seen"), [("77 12", True), ("77 13", False), ("", False)])
def test_only_the_very_same_folder_is_the_service_s(service: str, seen: bool) -> None:
    assert told(service=service).sees_service is seen


def test_an_answer_that_breaks_off_proves_nothing_good() -> None:
    found = told("clock\tnone\n")
    assert found.unwritable
    assert (found.ahead, found.user, found.free_bytes) == (0.0, None, None)
    assert found.own is not None
    assert found.own.version is None
    assert not any(one.tried for one in found.engines.values())


def looked(tmp_path: Path, **settings: Any) -> HostSurvey:
    given = SlurmSettings.model_validate({"root": tmp_path / "root", "python": sys.executable, **settings})
    return survey(given, LocalHost(), tmp_path, time.time)


@pytest.mark.services
def test_the_script_makes_the_root_for_its_owner_and_leaves_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "a+folder").mkdir()
    found = looked(tmp_path, root=tmp_path / "a+folder" / "~its")
    assert (found.owner, found.mode, found.unwritable) == (os.getuid(), 0o700, "")
    assert found.free_bytes
    assert found.ahead == 0.0
    assert os.listdir(tmp_path / "a+folder" / "~its") == []
    assert found.sees_service is True  # it is this machine


@pytest.mark.services
def test_a_root_that_may_be_mistyped_is_not_made(tmp_path: Path) -> None:
    found = looked(tmp_path, root=tmp_path / "scrach" / "ada" / "baton")
    assert found.unwritable == f"there is no folder {tmp_path}/scrach/ada; make it, or correct the path"
    assert os.listdir(tmp_path) == []


@pytest.mark.services
def test_a_root_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = looked(tmp_path, root=tmp_path / "file" / "root")
    assert "Not a directory" in found.unwritable
    assert found.owner is None
    assert found.own is not None
    assert found.own.version is not None


@pytest.mark.services
def test_setup_lines_hold_for_interpreters_and_programs(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("apptainer", "special-python"):
        (tmp_path / "bin" / name).symlink_to(sys.executable)
    setup = ("echo 'a loud site'", f"PATH={tmp_path}/bin:$PATH", "set -eu")
    found = looked(
        tmp_path,
        setup=setup,
        python="special-python",
        engines={"own": "special-python", "trl": "/no/python"},
        container={"runtime": "apptainer", "image": "/no/image.sif"},
    )
    assert (found.setup, found.missing) == (None, {"/no/image.sif"})
    assert found.own is not None
    assert found.own.version == tuple(sys.version_info[:3])
    assert found.engines["own"].version == tuple(sys.version_info[:3])
    assert (found.engines["trl"].version, "No such file" in found.engines["trl"].said) == (None, True)


@pytest.mark.services
def test_setup_lines_that_fail_or_leave_are_told(tmp_path: Path) -> None:
    failed = looked(tmp_path, setup=("no-such-module load cuda",))
    assert failed.setup is not None
    assert failed.setup == "no-such-module: command not found"
    assert failed.own is not None
    assert failed.own.version is not None
    once = looked(tmp_path, setup=(f"mkdir {tmp_path}/once",))
    assert once.setup is None
    left = looked(tmp_path, setup=("exit 3",))
    assert left.own is not None
    assert left.own.version is None


@pytest.mark.services
def test_libraries_of_an_engine_are_looked_for(tmp_path: Path) -> None:
    engine = looked(tmp_path, engines={"trackers": sys.executable}).engines["trackers"]
    assert engine.version is not None
    assert set(engine.missing) <= {"wandb", "mlflow"}
