"""Every compiled job: an engine spec that the engines take, four steps, and only training can be paused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.nemo_helix_server.customizer.situations import (
    KINDS,
    MINIMAL,
    backend,
    backend_of,
    facts,
    parsed,
    source,
)
from tests.nemo_helix_server.customizer.test_support import OTHER, job, with_value

from nemo_engines import devices, registry
from nemo_engines import spec as engine_specs
from nemo_helix_plugin.jobs.types import CreateHelixJobRequest
from nemo_helix_server.customizer import compile as compiling
from nemo_helix_server.customizer import names
from nemo_helix_server.errors import InvalidError

STEPS = {
    "automodel": ["model-and-dataset-download", "training", "model-upload", "model-entity-creation"],
    "dpo": ["model-and-dataset-download", "dpo-training", "model-upload", "model-entity-creation"],
    "grpo": [
        "model-dataset-environment-download",
        "grpo-training",
        "model-upload",
        "model-entity-creation",
    ],
}
STEPS["unsloth"] = STEPS["automodel"]


def situations() -> list[Any]:
    """One changed field at a time, on both devices."""
    found = []
    for kind in KINDS:
        for device in ("cpu", "cuda"):
            found.append(pytest.param(kind, device, MINIMAL[kind], id=f"{kind}-{device}"))
            for path, value in OTHER[kind].items():
                spec = with_value(kind, path, value)
                if ".lora." in path and backend_of(kind) == "rl":
                    spec["training"]["finetuning_type"] = "lora"
                found.append(pytest.param(kind, device, spec, id=f"{kind}-{device}-{path}"))
    return found


@pytest.mark.parametrize(("kind", "device", "spec"), situations())
def test_what_is_compiled_is_what_engines_and_jobs_service_take(
    kind: str, device: str, spec: dict[str, Any]
) -> None:
    compiled = job(kind, spec, device=device, gpus=2)
    read = engine_specs.parse_spec(compiled.engine_spec)
    registry.engine_for(read)
    devices.check_device(read, device)
    assert read.engine == {"automodel": "automodel", "unsloth": "unsloth"}.get(kind, "trl")
    assert read.backend == backend_of(kind)
    body = {"source": names.SOURCE, "spec": compiled.spec, "platform_spec": compiled.platform_spec}
    request = CreateHelixJobRequest.model_validate(body)
    steps = request.platform_spec.steps
    assert [step.name for step in steps] == STEPS[kind]
    assert [step.pausable for step in steps] == [False, True, False, False]
    assert compiled.spec["backend"] == backend_of(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_comes_every_quarter_of_an_hour(kind: str) -> None:
    assert job(kind, MINIMAL[kind]).engine_spec["save"]["seconds"] == 900
    own = job(kind, MINIMAL[kind], options={"checkpoints": {"seconds": 60, "steps": 5, "keep": 3}})
    assert own.engine_spec["save"]["seconds"] == 60
    assert own.spec["checkpoints"] == {"seconds": 60, "steps": 5, "keep": 3}


@pytest.mark.parametrize("kind", KINDS)
def test_every_backend_takes_an_interval_that_is_chosen_while_training(kind: str) -> None:
    own = job(
        kind, MINIMAL[kind], options={"checkpoints": {"interval": "auto"}}, checkpoint_max_overhead=0.05
    )
    assert own.spec["checkpoints"]["interval"] == "auto"
    save = engine_specs.parse_spec(own.engine_spec).save
    assert (save.interval, save.max_overhead) == ("auto", 0.05)
    given = job(kind, MINIMAL[kind], options={"checkpoints": {"interval": "auto", "max_overhead": 0.1}})
    assert given.engine_spec["save"]["max_overhead"] == 0.1


@pytest.mark.parametrize("name", ["seconds", "steps"])
def test_an_interval_is_chosen_or_given(name: str) -> None:
    with pytest.raises(InvalidError, match=rf"checkpoints\.{name} and checkpoints\.interval=auto both say"):
        job("automodel", MINIMAL["automodel"], options={"checkpoints": {"interval": "auto", name: 7}})


def test_so_does_the_backends_own_field() -> None:
    spec = with_value("unsloth", "schedule.save_steps", 7)
    with pytest.raises(InvalidError, match=r"schedule\.save_steps and checkpoints\.interval=auto"):
        job("unsloth", spec, options={"checkpoints": {"interval": "auto"}})


def test_a_share_for_an_interval_that_is_given_is_refused() -> None:
    with pytest.raises(InvalidError, match=r"is for checkpoints\.interval=auto"):
        job("automodel", MINIMAL["automodel"], options={"checkpoints": {"max_overhead": 0.1}})


def test_the_deadline_of_a_pause_is_the_setting_of_the_backend() -> None:
    compiled = job("dpo", MINIMAL["dpo"], pause_deadline_seconds=3600, staleness_timeout_seconds=60)
    training = compiled.platform_spec["steps"][1]
    assert training["lifecycle"] == {"pause_deadline_seconds": 3600, "staleness_timeout_seconds": 60}


def test_training_runs_in_the_engines_interpreter_on_what_the_machine_has() -> None:
    cpu = job("dpo", MINIMAL["dpo"]).platform_spec["steps"][1]
    assert cpu["executor"]["provider"] == "cpu"
    assert cpu["executor"]["container"]["command"] == [
        "nemo-engine:trl",
        "-P",
        "-m",
        "nemo_engines.run",
    ]
    # it is found, with its variables, when the step starts and where it starts
    assert [item["name"] for item in cpu["environment"]] == ["NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH"]
    spec = with_value("dpo", "training.parallelism.num_gpus_per_node", 2)
    gpu = job("dpo", spec, device="cuda", gpus=2).platform_spec["steps"][1]["executor"]
    assert (gpu["provider"], gpu["profile"], gpu["resources"]["num_gpus"]) == ("gpu", "gpu", 2)


def test_a_profile_of_the_request_goes_before_that_of_the_spec() -> None:
    given = parsed("dpo", with_value("dpo", "training.execution_profile", "slow"))
    chosen = [
        compiling.compile_job(backend("dpo"), given, facts("dpo"), profile).platform_spec["steps"][1][
            "executor"
        ]
        for profile in (None, "fast")
    ]
    assert [executor["profile"] for executor in chosen] == ["slow", "fast"]


def test_a_limit_of_memory_is_that_of_the_training_step() -> None:
    compiled = job("dpo", MINIMAL["dpo"], options={"subprocess": {"memory": "2Gi"}})
    assert compiled.platform_spec["steps"][1]["executor"]["resources"]["limits"] == {"memory": "2Gi"}


def test_a_token_of_the_hub_is_named_and_never_written() -> None:
    compiled = job("dpo", MINIMAL["dpo"], options={"hub": {"token_secret": "hub"}})
    download = compiled.platform_spec["steps"][0]
    assert {"name": "HF_TOKEN", "from_secret": {"name": "hub"}} in download["environment"]


def test_rows_to_validate_with_choose_the_best_checkpoint() -> None:
    there = source("lab/sums", "train.jsonl", "validation.jsonl")
    for kind, metric in (("dpo", "val_loss"), ("grpo", "val_reward")):
        engine = job(kind, MINIMAL[kind], dataset=there).engine_spec
        assert engine["validation"] == "dataset/validation.jsonl"
        assert (engine["save"]["best_metric"], engine["save"]["output"]) == (metric, "best")
    automodel = job("automodel", MINIMAL["automodel"], dataset=there)
    assert automodel.spec["schedule"]["validation_split"] == 0.0
    assert automodel.platform_spec["steps"][0]["config"]["split"] is None


def test_a_share_of_the_rows_is_put_aside_unless_there_are_rows_for_that() -> None:
    compiled = job("automodel", MINIMAL["automodel"])
    assert compiled.platform_spec["steps"][0]["config"]["split"]["share"] == 0.1
    assert compiled.engine_spec["validation"] == "validation_dataset"
    without = job("automodel", with_value("automodel", "schedule.validation_split", 0))
    assert without.engine_spec["validation"] is None
    assert without.spec["schedule"]["checkpoint_selection"] == "last"


def test_generation_has_the_prompts_that_were_asked_for() -> None:
    spec = with_value("grpo", "training", {"type": "grpo", "num_prompts_per_step": 8})
    engine = engine_specs.parse_spec(job("grpo", spec).engine_spec)
    assert (engine.grpo.steps_per_generation, engine_specs.boundary(engine)) == (64, 2)


@pytest.mark.parametrize(
    ("kind", "changes", "entity"),
    [
        ("automodel", {}, "adapter"),
        ("automodel", {"finetuning_type": "lora_merged"}, "full"),
        ("automodel", {"finetuning_type": "all_weights"}, "full"),
        ("automodel", {"lora": {"merge": True}}, "full"),
        ("dpo", {"type": "dpo"}, "full"),
        ("dpo", {"type": "dpo", "finetuning_type": "lora"}, "adapter"),
    ],
)
def test_adapters_are_attached_and_the_rest_is_a_model(kind: str, changes: Any, entity: str) -> None:
    last = job(kind, with_value(kind, "training", changes)).platform_spec["steps"][3]
    assert last["config"]["model"]["kind"] == entity
    assert last["config"]["model"]["base_model"] == "lab/base"


@pytest.mark.parametrize(
    ("given", "model", "data", "name", "fileset"),
    [
        (None, "lab/Qwen3-0.6B", "/data/My Sums.jsonl", "qwen3-0-6b-my-sums-aa", "qwen3-0-6b-my-sums-aa"),
        ("tuned", "lab/base", "lab/sums", "tuned", "tuned-aa"),
        (None, "hf://a/" + "m" * 80, "lab/sums", "m" * 50 + "-aa", "m" * 50 + "-aa"),
        (None, "lab/123", "/1.jsonl", "customization-aa", "customization-aa"),
    ],
)
def test_outputs_without_a_name_get_one(given: Any, model: str, data: str, name: str, fileset: str) -> None:
    assert names.output_names(given, model, data, "aa") == (names.OutputNames(name, fileset))


def test_a_name_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(InvalidError, match=r"output\.name: .*lowercase"):
        names.output_names("Tuned", "lab/base", "lab/sums", "aa")
    with pytest.raises(InvalidError, match="51 characters"):
        names.output_names("t" * 51, "lab/base", "lab/sums", "aa")


def test_trackers_are_named_after_output_and_job() -> None:
    spec = {**MINIMAL["dpo"], "integrations": {"wandb": {"tags": ["a"]}, "mlflow": {"tags": {"b": "c"}}}}
    trackers = job("dpo", spec).spec["integrations"]
    assert (trackers["wandb"]["project"], trackers["wandb"]["name"]) == (
        "base-sums-a1b2c3d4e5f6",
        "rl-a1b2c3d4e5f6",
    )
    assert trackers["mlflow"]["experiment_name"] == "base-sums-a1b2c3d4e5f6"


def test_a_repeated_request_gets_the_same_names() -> None:
    assert names.token("default", "key") == names.token("default", "key")
    assert names.token("default", None) != names.token("default", None)
    assert names.job_name("automodel", "a1b2c3d4e5f6") == "automodel-a1b2c3d4e5f6"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_precision_that_nobody_chose_is_that_of_the_device_on_which_training_starts(
    kind: str, device: str
) -> None:
    assert job(kind, MINIMAL[kind], device=device).engine_spec["precision"] is None


def test_a_precision_that_was_chosen_is_the_same_everywhere() -> None:
    spec = with_value("automodel", "training.precision", "fp32")
    assert job("automodel", spec, device="cuda").engine_spec["precision"] == "fp32"
    spec = with_value("unsloth", "model.dtype", "bfloat16")
    assert job("unsloth", spec, device="cuda").engine_spec["precision"] == "bf16"
