"""Where submissions go: what is missing there is said, what has to be brought is brought."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.nemo_gym.orchestration.submit_files import changed, write

import nemo_gym
from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config import gym_install
from nemo_gym.orchestration.config.resolve import resolve
from nemo_gym.orchestration.config.schema import SubmitConfig
from nemo_gym.orchestration.plan.benchmark_runs import load_runs
from nemo_gym.orchestration.submit import gym_bundle
from nemo_gym.orchestration.submit.destination import (
    OtherMachine,
    ThisMachine,
    destination_of,
)
from nemo_slurm.hosts import Completed, LocalHost

pytestmark = pytest.mark.services

SLURM = {"compute": {"far": {"type": "slurm", "account": "a", "hostname": "far"}}}


class Far(LocalHost):
    """Another machine, as far as paths go: what is below ``hidden`` here is not there."""

    name = "far"

    def __init__(self, hidden: Path) -> None:
        self.hidden = hidden

    def run(self, script: str, **options: Any) -> Completed:
        return super().run(script.replace(str(self.hidden), "/not/there"), **options)


def config(output: Path, changes: dict[str, Any] | None = None) -> SubmitConfig:
    base = changed({"job": {"output_path": str(output)}, "driver/policy_model": None}, changed(SLURM))
    return SubmitConfig.model_validate(changed(changes or {}, base))


@pytest.fixture
def far(tmp_path: Path) -> OtherMachine:
    return OtherMachine(Far(tmp_path / "mine"))


def test_a_host_without_a_name_is_this_machine(tmp_path: Path):
    assert isinstance(destination_of(LocalHost()), ThisMachine)
    assert destination_of(Far(tmp_path)).hostname == "far"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"services/policy/container": "i", "services/policy/mounts": ["/no/model"]},
            "there is no /no/model on far",
        ),
        (
            {"job": {"output_path": "/proc/version/runs"}},
            "job.output_path: /proc/version/runs cannot be made on far",
        ),
        (
            {"otel": {"endpoint": "http://x", "service_name": "s", "token_env": "NOT_SET"}},
            "the variable NOT_SET is not set",
        ),
    ],
)
def test_what_is_missing_there_is_said_before_anything_is_written(far, tmp_path, changes, sentence):
    with pytest.raises(ConfigError) as caught:
        far.check(config(tmp_path / "runs", changes), {})
    assert sentence in str(caught.value)
    far.check(config(tmp_path / "runs"), {})
    assert not (tmp_path / "runs").exists()


def runs(folder: Path, changes: dict[str, Any] | None = None) -> Any:
    given = {
        "driver/policy_model": ...,
        "services": {},
        "driver/benchmarks/sums/run/policy_base_url": "http://m/v1",
    }
    given |= {"driver/benchmarks/sums/run/policy_model_name": "tiny", **(changes or {})}
    resolved = resolve(write(folder, given), cwd=folder)
    return load_runs(resolved, cwd=folder)


def test_data_that_is_not_there_goes_along(far, tmp_path):
    mine = tmp_path / "mine"
    found = far.localized(runs(mine), tmp_path / "runs" / "gym-job-1")["sums"]
    there = tmp_path / "runs" / "gym-job-1" / "sums" / "inputs" / "rows.jsonl"
    assert found.inputs == {mine / "rows.jsonl": there}
    assert found.run["benchmark"]["datasets"]["benchmark"]["jsonl_fpath"] == str(there)


def test_data_that_is_there_under_the_same_path_stays(far, tmp_path):
    theirs = tmp_path / "shared"
    before = runs(theirs)
    assert far.localized(before, tmp_path / "runs" / "gym-job-1") == before


def test_a_prepare_script_goes_along_and_its_data_is_made_or_brought(far, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "make.py").write_text("def prepare(output):\n    output.write_text('{}')\n")
    own = runs(mine)["sums"]
    split = {"jsonl_fpath": str(mine / "data" / "rows.jsonl"), "prepare_script": str(mine / "make.py")}
    benchmark = {**own.run["benchmark"], "datasets": {"benchmark": split}}
    prepared = {"sums": dataclasses.replace(own, run={**own.run, "benchmark": benchmark})}
    inputs = tmp_path / "runs" / "gym-job-1" / "sums" / "inputs"
    found = far.localized(prepared, tmp_path / "runs" / "gym-job-1")["sums"]
    assert found.inputs == {mine / "make.py": inputs / "make.py"}
    assert found.run["benchmark"]["datasets"]["benchmark"] == {
        "jsonl_fpath": str(inputs / "rows.jsonl"),
        "prepare_script": str(inputs / "make.py"),
    }


def test_a_program_that_is_named_must_be_there(far, tmp_path):
    with pytest.raises(ConfigError, match=r"driver\.gym: /opt/gym is not a program on far"):
        far.gym_program(config(tmp_path, {"driver/gym": "/opt/gym"}))
    assert far.gym_program(config(tmp_path, {"driver/gym": "/bin/sh"})) == Path("/bin/sh")


def test_a_gym_is_installed_where_the_one_that_submits_is_not(tmp_path, monkeypatch):
    install = {"driver/gym_install": {"repo": "/srv/gym", "ref": "v1"}}

    class Bare(Far):
        def run(self, script: str, **options: Any) -> Completed:
            return super().run("exit 0" if "cksum" in script else script, **options)

    assert OtherMachine(Bare(tmp_path / "none")).gym_program(config(tmp_path, install)) is None
    mine = ThisMachine().gym_program(config(tmp_path, install))
    assert mine is not None
    assert mine.name == "gym"
    [warning] = gym_install.warnings(config(tmp_path, install), mine)
    assert str(mine) in warning
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ThisMachine().gym_program(config(tmp_path, install)) is None
    assert list(gym_install.warnings(config(tmp_path, install), None)) == []
    with pytest.raises(ConfigError, match=r"driver\.gym"):
        ThisMachine().gym_program(config(tmp_path))


def test_our_own_gym_is_named_by_what_is_in_it_and_by_the_python_there(tmp_path):
    first = gym_bundle.plan_bundle(Far(tmp_path / "x"), tmp_path)
    assert first.program.parts[-4:-2] == (".gym", gym_bundle.digest(first.python))
    assert gym_bundle.digest("/another/python") != gym_bundle.digest(first.python)
    names = {str(path) for _, path in gym_bundle.installed_files()}
    assert {"nemo_gym/cli/main.py", "nemo_slurm/states.tsv", "aiohttp/__init__.py"} <= names
    assert not any(name.endswith(".pyc") or ".." in name for name in names)
    sources = Path(nemo_gym.__file__).parents[1]
    ours = [
        path
        for name in ("nemo_gym", "nemo_cli", "nemo_runs", "nemo_slurm")
        for path in (sources / name).rglob("*.*")
    ]
    needed = {str(path.relative_to(sources)) for path in ours if path.suffix in {".py", ".sh", ".tsv"}}
    assert needed - names == set()


def test_a_machine_without_a_fitting_python_is_told_what_it_has(tmp_path):
    class Old(Far):
        def run(self, script: str, **options: Any) -> Completed:
            return Completed(0, "/usr/bin/python3 3.6 x86_64 2.17\n", "")

    with pytest.raises(ConfigError) as caught:
        gym_bundle.plan_bundle(Old(tmp_path), tmp_path)
    assert f"it needs Python {sys.version_info[0]}.{sys.version_info[1]}" in str(caught.value)
    assert "/usr/bin/python3 is 3.6 on x86_64, libc 2.17" in str(caught.value)


def test_a_relative_output_path_is_refused_where_it_would_mean_another_machine(tmp_path):
    with pytest.raises(
        ConfigError, match=r"job\.output_path: runs is relative .*compute\.far\.hostname is far"
    ):
        resolve(write(tmp_path, SLURM), cwd=tmp_path)
