"""A model of the service in a submit file: which service it becomes, and where it cannot."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from nemo_gym.errors import UsageError
from nemo_gym.orchestration.config.registered_model import with_model
from nemo_gym.serving.registered import RegisteredModel

DIGEST = "sha256:" + "0" * 64
FULL = RegisteredModel("sums", Path("/models/my sums"), DIGEST, adapter=False)
ADAPTER = RegisteredModel("sums", Path("/models/a"), DIGEST, adapter=True, base=Path("/models/b"))
FILE = {
    "services": {"policy": {"type": "command", "command": "x", "model_name": "y", "port": 8000}},
    "compute": {"here": {"type": "local"}},
    "driver": {
        "policy_model": "policy",
        "benchmarks": {"a": {"run": {"limit": 1}}, "b": {"command": "true"}},
    },
}


def changed(**parts):
    found = copy.deepcopy(FILE)
    for name, value in parts.items():
        found[name] = value
    return found


def test_the_policy_service_serves_the_model_and_every_run_has_its_digest():
    found = with_model(FILE, ADAPTER)
    service = found["services"]["policy"]
    assert service["command"].endswith(
        "models serve /models/a --model-name sums --base /models/b --port {port}"
    )
    assert (service["model_name"], service["port"]) == ("sums", 8000)
    assert found["driver"]["benchmarks"] == {
        "a": {"run": {"limit": 1, "policy_model_digest": DIGEST}},
        "b": {"command": "true"},
    }


def test_a_file_without_services_gets_one():
    driver = {"benchmarks": {"a": {"run": {}}}}
    found = with_model(changed(services={}, driver=driver), FULL)
    assert found["driver"]["policy_model"] == "model"
    assert "'/models/my sums'" in found["services"]["model"]["command"]


def test_vllm_keeps_its_settings_and_serves_whole_weights_alone():
    services = {"policy": {"type": "vllm", "model": "x", "tensor_parallel_size": 2}}
    found = with_model(changed(services=services), FULL)["services"]["policy"]
    assert found == {
        "type": "vllm",
        "model": "/models/my sums",
        "served_model_name": "sums",
        "tensor_parallel_size": 2,
    }
    with pytest.raises(UsageError, match="wants whole weights: `nemo models export sums --to merged"):
        with_model(changed(services=services), ADAPTER)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"compute": {"far": {"type": "slurm", "hostname": "login"}}}, "compute.far is another machine"),
        ({"driver": {**FILE["driver"], "models": {"m": {}}}}, "driver.models names several models"),
        (
            {"services": {"policy": {**FILE["services"]["policy"], "container": "x.sif"}}},
            "services.policy.container",
        ),
    ],
)
def test_what_cannot_be_is_refused(parts, said):
    with pytest.raises(UsageError) as refused:
        with_model(changed(**parts), FULL)
    assert said in str(refused.value)


def test_what_is_not_a_mapping_is_left_to_the_check_of_the_file():
    assert with_model({"driver": None, "compute": []}, FULL)["compute"] == []
