"""Requests are strict: whatever is not known, missing or impossible is one sentence."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from pydantic import ValidationError

from nemo_helix_plugin.access.types import CreatedAccessToken, CreateSecretRequest
from nemo_helix_plugin.jobs import types

JOB: dict[str, Any] = {
    "name": "automodel-a1b2c3d4e5f6",
    "source": "customization",
    "spec": {"backend": "automodel"},
    "platform_spec": {
        "steps": [
            {
                "name": "training",
                "environment": [
                    {"name": "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH", "value": "/storage"},
                    {"name": "WANDB_API_KEY", "from_secret": {"name": "wandb"}},
                ],
                "executor": {
                    "provider": "gpu",
                    "container": {"image": "train:1", "command": ["train"]},
                    "resources": {"num_gpus": 2, "shm_size": "8Gi", "limits": {"cpu": 4, "memory": "16Gi"}},
                },
                "config": {"a": [1, 2.5, None]},
                "lifecycle": {"pause_deadline_seconds": 1800},
            }
        ],
        "secrets": [{"name": "wandb", "ref_id": "default/wandb"}],
    },
    "control": {"pause_ttl_seconds": 0},
}
STEP = ("platform_spec", "steps", 0)


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    body = copy.deepcopy(JOB)
    place: Any = body
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return body


def test_a_whole_job_is_accepted_and_comes_back_as_it_was() -> None:
    request = types.CreateHelixJobRequest.model_validate(JOB)
    step = request.platform_spec.steps[0]
    assert isinstance(step.executor, types.GpuExecutor)
    assert step.pausable
    sent = request.model_dump(mode="json", exclude_unset=True)
    assert sent == changed((*STEP, "executor", "resources", "limits", "cpu"), "4")


@pytest.mark.parametrize(
    ("executor", "kind"),
    [
        ({"provider": "cpu", "container": {"entrypoint": ["run"]}}, types.CpuExecutor),
        ({"provider": "gpu", "container": {}}, types.GpuExecutor),
        (
            {"provider": "gpu_distributed", "container": {}, "resources": {"num_nodes": 2}},
            types.DistributedExecutor,
        ),
        ({"provider": "subprocess", "command": ["run"]}, types.SubprocessExecutor),
    ],
)
def test_the_provider_decides_what_an_executor_has(executor: dict[str, Any], kind: type) -> None:
    request = types.CreateHelixJobRequest.model_validate(changed((*STEP, "executor"), executor))
    assert type(request.platform_spec.steps[0].executor) is kind


VARIABLES = (*STEP, "environment")
RESOURCES = (*STEP, "executor", "resources")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("surprise",), 1, "Extra inputs are not permitted"),
        (("name",), "a" * 52, "has 52 characters; 2 to 51 are allowed for a job without an output_location"),
        (("source",), "", "at least 1 character"),
        (("spec",), {"a": float("nan")}, "finite number"),
        (("spec",), {"a": "\ud800"}, "cannot be kept as JSON"),
        (("spec",), {"a": 2**70}, "cannot be kept as JSON"),
        (("control",), {"pause_ttl_seconds": -1}, "greater than or equal to 0"),
        (("control",), {"pause_ttl_seconds": "600"}, "valid integer"),
        (("control",), {"pause_ttl_seconds": True}, "valid integer"),
        (("control",), {"pause_ttl": 1}, "Extra inputs"),
        (("platform_spec", "steps"), [], "at least 1 item"),
        (("platform_spec", "steps"), JOB["platform_spec"]["steps"] * 2, "training is there more than once"),
        ((*STEP, "name"), "Training", "must start with a lowercase letter"),
        ((*STEP, "lifecycle"), {"pause_deadline_seconds": -1}, "greater than or equal to 0"),
        ((*STEP, "executor"), {"provider": "docker"}, "'docker' found using 'provider' does not match"),
        ((*STEP, "executor"), {"container": {}}, "Unable to extract tag using discriminator 'provider'"),
        ((*STEP, "executor"), {"provider": "cpu"}, "Field required"),
        ((*STEP, "executor"), {"provider": "subprocess", "command": []}, "at least 1 item"),
        ((*STEP, "executor"), {"provider": "subprocess", "command": ["a\0b"]}, "NUL character"),
        ((*RESOURCES, "shm_size"), "8GB", "Mi, Gi, M or G"),
        ((*RESOURCES, "num_gpus"), -1, "greater than or equal to 0"),
        ((*RESOURCES, "num_nodes"), 2, "Extra inputs"),
        ((*RESOURCES, "limits"), {"memory": "lots"}, "'lots' is not an amount"),
        ((*VARIABLES, 0, "name"), "NEMO_JOB_ID", "NEMO_JOB_ID is set by the platform"),
        ((*VARIABLES, 0, "name"), "A-B", "may hold only letters"),
        ((*VARIABLES, 1, "name"), "NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH", "is there more than once"),
        ((*VARIABLES, 0), {"name": "A"}, "A needs either value or from_secret"),
        ((*VARIABLES, 1, "value"), "x", "WANDB_API_KEY needs either value or from_secret"),
        ((*VARIABLES, 1, "from_secret"), {"name": "no such/../x"}, "the name"),
        (
            ("platform_spec", "secrets"),
            [{"name": "a", "value": "s3cr3t"}],
            "not accepted in a job; store it with",
        ),
    ],
)
def test_what_is_wrong_is_refused_with_its_reason(path: tuple[Any, ...], value: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        types.CreateHelixJobRequest.model_validate(changed(path, value))
    assert words in "; ".join(error["msg"] for error in caught.value.errors())


def test_a_longer_name_is_allowed_with_a_fileset_of_ones_own() -> None:
    types.CreateHelixJobRequest.model_validate({**JOB, "name": "a" * 63, "output_location": "mine"})


def test_both_specs_are_updated_or_none() -> None:
    types.UpdateHelixJobRequest(description="x")
    types.UpdateHelixJobRequest.model_validate({"spec": {}, "platform_spec": JOB["platform_spec"]})
    with pytest.raises(ValidationError, match="updated together"):
        types.UpdateHelixJobRequest(spec={})


def test_a_secret_shows_nowhere_but_on_the_wire() -> None:
    request = CreateSecretRequest.model_validate({"name": "wandb", "value": "s3cr3t"})
    assert "s3cr3t" not in repr(request) + str(request) + str(request.model_dump())
    assert "s3cr3t" in request.model_dump_json()
    token = CreatedAccessToken.model_validate({"id": "t1", "role": "admin", "token": "s3cr3t"})
    assert "s3cr3t" not in repr(token)


@pytest.mark.parametrize("query", [{"page": 0}, {"page_size": 0}, {"sort": "name"}, {"pages": 1}])
def test_a_query_that_no_service_takes(query: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        types.ListJobsQueryParams.model_validate(query)
