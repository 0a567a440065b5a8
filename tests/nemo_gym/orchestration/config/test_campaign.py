"""Several policy models in one submission: what each is, and the sentence for what cannot be."""

import copy
from pathlib import Path
from typing import Any

import pytest
from tests.nemo_gym.orchestration.submit_files import VLLM, changed, write

from nemo_gym.composition import check_model
from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config import campaign, rules
from nemo_gym.orchestration.config.resolve import resolve
from nemo_gym.orchestration.config.schema import CommandService, SubmitConfig, VllmService
from nemo_gym.orchestration.plan.benchmark_runs import load_runs
from nemo_gym.orchestration.plan.build import PlanContext, plan_submission
from nemo_gym.orchestration.plan.job_script import render_job
from nemo_gym.orchestration.plan.overview import plan_lines
from nemo_gym.orchestration.plan.values import SharedBenchmark, Submission
from nemo_gym.orchestration.submit import check

ADDRESS = {"policy_base_url": "http://there/v1", "policy_model_name": "big", "policy_api_key": "host:KEY"}
MODELS: dict[str, Any] = {
    "driver/policy_model": ...,
    "driver/models": {"policy": {}, "far": {"run": ADDRESS}},
}
SERIES: dict[str, Any] = {
    "services/trained": {**VLLM, "model": "/ckpt/base"},
    "driver/policy_model": ...,
    "driver/models": {"trained": {"model": "/ckpt/step-{step}", "step": [1000, 2000]}, "policy": {}},
}


def config(changes: dict[str, Any]) -> SubmitConfig:
    return check_model(SubmitConfig, changed(copy.deepcopy(changes)), where="submit.yaml")


def problem(changes: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        rules.check(config({**MODELS, **changes}))
    text = str(caught.value)
    assert "\n" not in text
    return text


def plan(folder: Path, changes: dict[str, Any], **environ: str) -> Submission:
    resolved = resolve(write(folder, copy.deepcopy(changes)), cwd=folder)
    around = PlanContext(gym=Path("/opt/gym"), user="ada", environ=environ)
    gym_job_id = "gym-job-20261129T000000Z-00000a"
    return plan_submission(resolved.config, load_runs(resolved, cwd=folder), gym_job_id, around)


def test_each_model_has_the_benchmarks_under_its_name_and_the_services_that_are_its_own_or_nobody_elses():
    found = campaign.shares(config({**MODELS, "services/judge": VLLM}))
    assert [(share.name, list(share.benchmarks.items())) for share in found] == [
        ("policy", [("policy.sums", "sums")]),
        ("far", [("far.sums", "sums")]),
    ]
    assert [list(share.config.services) for share in found] == [["policy", "judge"], ["judge"]]
    assert [share.config.driver.policy_model for share in found] == ["policy", None]
    assert found[1].config.driver.benchmarks["far.sums"].run["policy_base_url"] == "http://there/v1"
    assert campaign.shares(config({})) == []


def test_what_a_model_says_wins_over_benchmarks_and_all_of_them():
    run = {"responses_create_params": {"temperature": 0.0, "max_output_tokens": 8}}
    mine = {"policy": {"run": {"responses_create_params": {"temperature": 1.0}}}}
    changes = {"driver/models": mine, "driver/benchmarks/sums/run": run}
    (share,) = campaign.shares(config({**MODELS, **changes}))
    its = share.config.driver.benchmarks["policy.sums"].run
    assert its["responses_create_params"] == {"temperature": 1.0, "max_output_tokens": 8}


def test_a_series_is_a_model_for_each_step():
    found = campaign.shares(config(SERIES))
    assert [share.name for share in found] == ["trained-1000", "trained-2000", "policy"]
    service = found[1].config.services["trained"]
    assert isinstance(service, VllmService)
    assert service.model == "/ckpt/step-2000"
    other = found[2].config.services["policy"]
    assert isinstance(other, CommandService)
    assert other.command == "serve --port {port}"


def test_a_series_may_stand_in_a_command_or_at_an_address():
    command = {"type": "command", "command": "serve /ckpt/{step} --port {port}", "model_name": "ck-{step}"}
    address = {"policy_base_url": "http://there/v1", "policy_model_name": "ck-{step}"}
    models = {"mine": {"service": "policy", "step": [7]}, "far": {"step": ["last"], "run": address}}
    found = campaign.shares(config({**MODELS, "services/policy": command, "driver/models": models}))
    service = found[0].config.services["policy"]
    assert isinstance(service, CommandService)
    assert (service.command, service.model_name) == ("serve /ckpt/7 --port {port}", "ck-7")
    assert found[1].config.driver.benchmarks["far-last.sums"].run["policy_model_name"] == "ck-last"


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"driver/policy_model": "policy"}, ["driver.models", "driver.policy_model", "leave out"]),
        ({"driver/models": {"new": {}}}, ["driver.models.new", "driver.models.new.service", "policy"]),
        ({"driver/models": {"new": {"service": "polcy"}}}, ["models.new.service", "did you mean", "policy"]),
        ({"driver/models": {"policy": {"run": ADDRESS}}}, ["driver.models.policy.run", "overruled"]),
        ({"driver/models": {"policy": {"model": "/x"}}}, ["driver.models.policy.model", "{step}"]),
        ({"driver/models": {"far": {"run": ADDRESS, "model": "/x"}}}, ["far.model", "policy_model_name"]),
        ({"driver/models": {"policy": {"step": [1, 2]}}}, ["driver.models.policy.step", "the same"]),
        ({"driver/models": {"policy": {"step": [1, "1"]}}}, ["driver.models.policy.step", "twice"]),
        ({"driver/models": {"policy": {"run": {"policy_service_name": "x"}}}}, ["policy_service_name"]),
        ({"driver/benchmarks/sums/run": ADDRESS}, ["driver.benchmarks.sums.run", "driver.models"]),
        (
            {"driver/models/policy-1": {"service": "policy"}, "driver/benchmarks/a.b": {"command": "true"},
             "driver/models/policy-1.a": {"service": "policy"}, "driver/benchmarks/b": {"command": "true"}},
            ["driver.models.policy-1.a with driver.benchmarks.b", "policy-1.a.b", "rename"],
        ),
        ({"driver/models": {"policy": {"step": ["a/b"]}}, "services/policy/model_name": "{step}"}, ["a/b"]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_with_its_path(changes: dict[str, Any], parts: list[str]):
    text = problem(changes)
    assert all(part in text for part in parts), text


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("base_url", "policy_base_url"),
        ("model_name", "policy_model_name"),
        ("temperature", "responses_create_params.temperature"),
        ("max_tokens", "responses_create_params.max_output_tokens"),
    ],
)
def test_what_is_written_beside_the_run_of_a_model_is_meant_within(tmp_path: Path, key: str, meant: str):
    with pytest.raises(ConfigError, match=rf"{key} \(did you mean 'driver\.models\.far\.run\.{meant}'\?\)"):
        plan(tmp_path, {**MODELS, "driver/models": {"far": {key: "x"}}})


def test_jobs_are_counted_by_models():
    gpus = {
        "services/policy": {**VLLM, "tensor_parallel_size": 2},
        "services/big": {**VLLM, "tensor_parallel_size": 4},
    }
    models = {"driver/policy_model": ..., "driver/models": {"policy": {}, "big": {}}}
    rules.check(config({**gpus, **models, "compute/here/gpus": 4}))
    with pytest.raises(ConfigError, match="4 GPUs are there and 8 are needed"):
        rules.check(config({**gpus, **models, "compute/here/gpus": 4, "compute/here/max_parallel": 2}))
    chained = {"driver/benchmarks/sums/resumable": True, "driver/benchmarks/b": {"command": "true"}}
    assert check.jobs_at_once(config({**MODELS, **chained})) == 4
    assert check.jobs_at_once(config(chained)) == 3


def test_one_job_a_model_runs_its_benchmarks_and_each_has_its_own_folder(tmp_path: Path):
    changes = {"driver/benchmarks/b": {"command": "true"}, "driver/benchmarks/sums/resumable": True}
    found = plan(tmp_path, {**MODELS, **changes}, KEY="canary")
    assert [job.benchmark for job in found.queued] == ["policy", "far"]
    assert [job.benchmark for job in found.jobs] == ["policy.sums", "policy.b", "far.sums", "far.b"]
    assert {job.job_dir.name for job in found.folders} == {
        "policy",
        "far",
        *(j.benchmark for j in found.jobs),
    }
    assert found.queued[0].benchmarks == (
        SharedBenchmark("policy.sums", True),
        SharedBenchmark("policy.b", False),
    )
    assert [job.shared for job in found.jobs] == ["policy", "policy", "far", "far"]
    assert found.max_parallel == 1
    assert list(plan_lines(found)) == [
        "Plan: 2 jobs on here, 1 at once",
        "  policy: sums, b (service policy serves tiny)",
        "  far: sums, b (at its address)",
    ]


def test_a_model_with_replicas_is_one_line_of_the_plan_and_one_job(tmp_path: Path):
    found = plan(tmp_path, {**MODELS, "services/policy/replicas": 2}, KEY="canary-7")
    assert [service.name for service in found.queued[0].services] == ["policy-0", "policy-1"]
    assert list(plan_lines(found))[1] == "  policy: sums (service policy serves tiny)"


def test_a_secret_is_only_in_the_scripts_of_the_model_that_needs_it(tmp_path: Path):
    found = plan(tmp_path, MODELS, KEY="canary-7")
    holders = [job.benchmark for job in found.folders if "canary-7" in render_job(job, redacted=False)]
    assert holders == ["far.sums"]
    assert not any("canary-7" in render_job(job, redacted=True) for job in found.folders)


def test_a_resolved_campaign_can_be_submitted_again(tmp_path: Path):
    once = resolve(write(tmp_path, SERIES), cwd=tmp_path)
    (tmp_path / "resolved.yaml").write_text(once.to_yaml())
    assert resolve(tmp_path / "resolved.yaml", cwd=tmp_path).digest == once.digest


def test_a_benchmark_of_a_record_is_found_in_the_config_of_its_model():
    whole = config(SERIES)
    share = campaign.share_of(whole, "trained-2000.sums")
    assert list(share.driver.benchmarks) == ["trained-2000.sums"]
    assert campaign.share_of(config({}), "sums") == config({})


def test_what_is_wrong_with_a_benchmark_is_said_with_its_path_in_the_file_and_its_model(tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        plan(tmp_path, {**MODELS, "driver/benchmarks/sums/run/split": "train"}, KEY="x")
    assert str(caught.value).startswith("model policy: driver.benchmarks.sums.run.split: ")
