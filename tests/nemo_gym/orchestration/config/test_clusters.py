"""Several clusters in one submit file."""

import copy
from pathlib import Path
from typing import Any

import pytest
from tests.nemo_gym.orchestration.submit_files import changed, write

from nemo_gym.composition import check_model
from nemo_gym.errors import ConfigError, UsageError
from nemo_gym.orchestration.config import clusters
from nemo_gym.orchestration.config.resolve import Narrowing, resolve
from nemo_gym.orchestration.config.schema import SubmitConfig

TWO: dict[str, Any] = {
    "compute": {"here": {"type": "local"}, "there": {"type": "local", "output_path": "/there"}}
}
BY_MODEL: dict[str, Any] = {
    **TWO,
    "services/other": {"type": "command", "command": "serve --port {port}", "model_name": "o"},
    "services/judge": {"type": "command", "command": "serve --port {port}", "model_name": "j"},
    "driver/policy_model": ...,
    "driver/models": {"policy": {"compute": "here"}, "other": {"compute": "there"}},
}
BY_BENCHMARK: dict[str, Any] = {
    **TWO,
    "driver/benchmarks/sums/compute": "there",
    "driver/benchmarks/b": {"command": "true", "compute": "here"},
}


def config(changes: dict[str, Any]) -> SubmitConfig:
    return check_model(SubmitConfig, changed(copy.deepcopy(changes)), where="submit.yaml")


def test_each_cluster_has_its_models_and_their_services_and_all_benchmarks() -> None:
    here, there = clusters.split(config(BY_MODEL))
    assert (list(here.driver.models), list(here.services)) == (["policy"], ["policy", "judge"])
    assert (list(there.driver.models), list(there.services)) == (["other"], ["other", "judge"])
    assert [list(part.compute) for part in (here, there)] == [["here"], ["there"]]
    assert [part.job.output_path for part in (here, there)] == ["runs", "/there"]
    assert all(list(part.driver.benchmarks) == ["sums"] for part in (here, there))


def test_each_cluster_has_its_benchmarks_and_all_models() -> None:
    here, there = clusters.split(config(BY_BENCHMARK))
    assert [list(part.driver.benchmarks) for part in (here, there)] == [["b"], ["sums"]]
    assert all(list(part.services) == ["policy"] for part in (here, there))


def test_one_that_is_not_used_gets_nothing() -> None:
    (part,) = clusters.split(config({**TWO, "driver/benchmarks/sums/compute": "there"}))
    assert (part.cluster, part.job.output_path) == ("there", "/there")


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        (TWO, ["driver.benchmarks.sums.compute", "here, there", "set it"]),
        ({"driver/benchmarks/sums/compute": "hre"}, ["benchmarks.sums.compute", "'hre'", "did you mean"]),
        (
            {**BY_MODEL, "driver/models": {"policy": {"compute": "here"}, "other": {}}},
            ["models.other.compute"],
        ),
        ({**BY_MODEL, "driver/benchmarks/sums/compute": "here"}, ["driver.models.policy.compute", "either"]),
    ],
)
def test_what_is_not_said_or_said_twice_is_refused(changes: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        clusters.split(config(changes))
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_what_goes_to_a_cluster_is_a_config_that_can_be_submitted_alone(tmp_path: Path) -> None:
    resolved = resolve(write(tmp_path, copy.deepcopy(BY_MODEL)), cwd=tmp_path)
    assert [part.config.cluster for part in resolved.parts] == ["here", "there"]
    (tmp_path / "there.yaml").write_text(resolved.parts[1].to_yaml())
    (alone,) = resolve(tmp_path / "there.yaml", cwd=tmp_path).parts
    assert alone.digest == resolved.parts[1].digest
    (tmp_path / "all.yaml").write_text(resolved.to_yaml())
    again = resolve(tmp_path / "all.yaml", cwd=tmp_path).parts
    assert [part.digest for part in again] == [part.digest for part in resolved.parts]


def test_models_are_chosen_as_benchmarks_are(tmp_path: Path) -> None:
    path = write(tmp_path, copy.deepcopy(BY_MODEL))
    (part,) = resolve(path, narrowing=Narrowing(only=["other", "sums"]), cwd=tmp_path).parts
    assert (part.config.cluster, list(part.config.driver.benchmarks)) == ("there", ["sums"])
    with pytest.raises(UsageError, match=r"--only othr: no such benchmark or model \(did you mean"):
        resolve(path, narrowing=Narrowing(only=["othr"]), cwd=tmp_path)
