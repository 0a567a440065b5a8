"""From a resolved config to the plan of every job."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from tests.nemo_gym.orchestration.submit_files import VLLM, write

from nemo_gym.composition import load_yaml
from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config.resolve import resolve, to_yaml
from nemo_gym.orchestration.plan.benchmark_runs import load_runs
from nemo_gym.orchestration.plan.build import PlanContext, plan_submission
from nemo_gym.orchestration.plan.values import InstallPlan, JobPlan, Submission
from nemo_gym.rollouts.run_config.schema import load_run_config
from nemo_runs.secret_refs import Reference, SecretReferenceError, SecretText

GYM_JOB_ID = "gym-job-20261129T000000Z-00000a"


def plan(
    folder: Path, changes: dict[str, Any] | None = None, environ: dict[str, str] | None = None
) -> Submission:
    resolved = resolve(write(folder, changes), cwd=folder)
    config = resolved.config
    runs = load_runs(resolved, cwd=folder)
    around = PlanContext(gym=Path("/opt/gym"), user="ada", environ=environ or {})
    return plan_submission(config, runs, GYM_JOB_ID, around)


def only_job(folder: Path, changes: dict[str, Any] | None = None, **environ: str) -> JobPlan:
    (job,) = plan(folder, changes, environ).jobs
    return job


def test_a_gym_that_is_not_there_is_installed_beside_the_runs_by_each_job(tmp_path: Path):
    install = {"repo": "/srv/gym", "ref": "v1"}
    resolved = resolve(write(tmp_path, {"driver/gym_install": install}), cwd=tmp_path)
    runs = load_runs(resolved, cwd=tmp_path)
    around = PlanContext(gym=None, user="ada", environ={})
    [job] = plan_submission(resolved.config, runs, GYM_JOB_ID, around).jobs
    assert job.install == InstallPlan(repo="/srv/gym", ref="v1", folder=tmp_path / "runs" / ".gym")
    there = dataclasses.replace(around, gym=Path("/opt/gym"))
    [job] = plan_submission(resolved.config, runs, GYM_JOB_ID, there).jobs
    assert (job.install, job.gym) == (None, Path("/opt/gym"))


def test_a_submission_has_one_job_a_benchmark_in_the_order_of_the_file(tmp_path: Path):
    changes = {"driver/benchmarks/a": {"command": "true"}, "compute/here/max_parallel": 3}
    found = plan(tmp_path, {**changes, "compute/here/walltime": "01:30:00"})
    assert [job.benchmark for job in found.jobs] == ["sums", "a"]
    assert found.run_dir == tmp_path / "runs" / GYM_JOB_ID
    assert [job.job_dir for job in found.jobs] == [found.run_dir / "sums", found.run_dir / "a"]
    assert (found.cluster, found.max_parallel) == ("here", 3)
    assert {job.walltime for job in found.jobs} == {5400}


def test_the_run_file_is_whole_and_loads_again_to_the_same_configuration(tmp_path: Path):
    job = only_job(tmp_path, {"driver/benchmarks/sums/run/responses_create_params": {"temperature": 0.5}})
    assert job.run is not None
    path = tmp_path / "run.yaml"
    path.write_text(to_yaml(job.run))
    again = load_run_config([str(path)], None, [], search_dirs=[], cwd=Path("/"), user_env=False).config
    assert str(again.output_jsonl_fpath) == f"{job.job_dir}/artifacts/rollouts.jsonl"
    assert again.benchmark.datasets["benchmark"].jsonl_fpath == tmp_path / "rows.jsonl"
    assert (again.require_complete, again.resume_from_cache) == (True, False)
    assert again.responses_create_params.temperature == 0.5
    assert {**again.to_plain(), "config_paths": []} == load_yaml(path)
    assert job.config_files == [tmp_path / "sums.yaml"]


def test_a_prompt_with_dollar_braces_reaches_the_job_unchanged(tmp_path: Path):
    text = "{question} costs ${question}\\${x}"
    write(tmp_path)
    (tmp_path / "more.yaml").write_text(
        json.dumps({"benchmark": {"prompt": {"user": text.replace("${", "\\${", 1)}}})
    )
    job = only_job(tmp_path, {"driver/benchmarks/sums/run/config_paths": ["sums.yaml"]})
    assert job.run is not None
    changes = {"driver/benchmarks/sums/run/config_paths": ["sums.yaml", "more.yaml"]}
    job = only_job(tmp_path, changes)
    assert job.run is not None
    path = tmp_path / "run.yaml"
    path.write_text(to_yaml(job.run))
    again = load_run_config([str(path)], None, [], search_dirs=[], cwd=tmp_path, user_env=False).config
    assert again.benchmark.prompt is not None
    assert again.benchmark.prompt.user == "{question} costs ${question}${x}"


def test_a_wired_policy_is_named_and_gets_its_key_from_the_job(tmp_path: Path):
    job = only_job(tmp_path)
    assert job.run is not None
    assert job.policy == "policy"
    assert job.run["policy_model_name"] == "tiny"
    assert job.run["policy_service_name"] == "policy"
    assert job.run["policy_api_key"] == "host:NEMO_GYM_POLICY_API_KEY"
    assert job.run["policy_base_url"] is None
    assert job.secrets == {}


def test_resumable_asks_for_the_cache_unless_the_user_said_otherwise(tmp_path: Path):
    on = {"driver/benchmarks/sums/resumable": True}
    job = only_job(tmp_path, on)
    assert job.run is not None
    assert job.run["resume_from_cache"] is True
    job = only_job(tmp_path, {**on, "driver/benchmarks/sums/run/resume_from_cache": False})
    assert job.run is not None
    assert job.run["resume_from_cache"] is False


@pytest.mark.parametrize(
    ("compute", "margin"),
    [
        ({"type": "local"}, None),
        ({"type": "local", "walltime": "00:10:00"}, 50.0),
        ({"type": "local", "walltime": "00:00:30"}, 7.5),
        ({"type": "slurm", "account": "a", "walltime": "04:00:00"}, 110.0),
        ({"type": "slurm", "account": "a"}, 110.0),
        ({"type": "slurm", "account": "a", "drain_seconds": 300}, 290.0),
        ({"type": "slurm", "account": "a", "extra_args": {"signal": "B:USR1@30"}}, None),
    ],
)
def test_what_is_in_flight_may_finish_in_the_time_between_the_drain_and_the_walltime(
    tmp_path: Path, compute: dict[str, Any], margin: float | None
):
    job = only_job(tmp_path, {"compute/here": compute})
    assert job.run is not None
    assert job.run["walltime_margin_s"] == margin


def test_require_complete_can_be_taken_back_by_the_user(tmp_path: Path):
    job = only_job(tmp_path, {"driver/benchmarks/sums/run/require_complete": False})
    assert job.run is not None
    assert job.run["require_complete"] is False


def test_a_vllm_service_becomes_one_command_on_loopback(tmp_path: Path):
    service = {
        **VLLM,
        "served_model_name": "short",
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 3,
        "number_of_instances": 4,
        "trust_remote_code": True,
        "extra_args": "--max-model-len 4096 --note 'a b'",
        "health_check": {"port": 8081, "timeout_seconds": 30},
        "pre_command": "module load cuda",
    }
    (found,) = only_job(tmp_path, {"services/policy": service}).services
    assert found.argv == [
        *["vllm", "serve", "org/model", "--host", "127.0.0.1", "--port", "{port}"],
        *["--served-model-name", "short", "--tensor-parallel-size", "2", "--pipeline-parallel-size", "3"],
        *["--data-parallel-size", "4", "--trust-remote-code", "--max-model-len", "4096", "--note", "a b"],
    ]
    assert (found.kind, found.shell, found.port, found.model_name) == ("vllm", None, None, "short")
    assert (found.health_path, found.health_port, found.health_timeout) == ("/health", 8081, 30)
    assert found.pre_command == "module load cuda"


def test_a_command_service_keeps_its_shell_text_and_the_defaults(tmp_path: Path):
    (found,) = only_job(tmp_path).services
    assert (found.kind, found.argv, found.shell) == ("command", None, "serve --port {port}")
    assert (found.health_path, found.health_timeout, found.port) == ("/v1/models", 600, None)


def test_the_smallest_vllm_command_has_no_flags_that_say_nothing(tmp_path: Path):
    (found,) = only_job(tmp_path, {"services/policy": dict(VLLM)}).services
    assert found.argv is not None
    assert found.argv[7:] == ["--tensor-parallel-size", "1"]
    assert found.model_name == "org/model"


def test_every_host_reference_of_a_job_is_resolved_once_and_hidden_in_print(tmp_path: Path):
    changes = {
        "services/policy/env": {"HF_TOKEN": "host:TOKEN", "A": "runtime:X", "B": "lit:host:Y", "C": "q:r"},
        "driver/env": {"OTHER": "host:EMPTY"},
    }
    job = only_job(tmp_path, changes, TOKEN="lit:canary-5", EMPTY="")
    assert job.secrets == {"TOKEN": SecretText("lit:canary-5"), "EMPTY": SecretText("")}
    assert job.services[0].env == {
        "HF_TOKEN": Reference("host", "TOKEN"),
        "A": Reference("runtime", "X"),
        "B": Reference("lit", "host:Y"),
        "C": Reference("lit", "q:r"),
    }
    assert "canary-5" not in repr(job)
    assert "canary-5" not in json.dumps([job.run, job.prepare])


def test_the_api_key_of_an_outside_endpoint_is_a_secret_of_that_benchmark_alone(tmp_path: Path):
    endpoint = {"policy_base_url": "http://x/v1", "policy_model_name": "m", "policy_api_key": "host:KEY"}
    run = {"config_paths": ["sums.yaml"], **endpoint}
    changes = {
        "services": {}, "driver/policy_model": None,
        "driver/benchmarks/sums/run": run, "driver/benchmarks/other": {"command": "true"},
    }  # fmt: skip
    sums, other = plan(tmp_path, changes, {"KEY": "canary-6"}).jobs
    assert sums.secrets == {"KEY": SecretText("canary-6")}
    assert other.secrets == {}
    assert sums.run is not None
    assert sums.run["policy_api_key"] == "host:KEY"
    assert sums.policy is None


def test_every_secret_of_a_run_goes_to_its_job_whichever_file_names_it(tmp_path: Path):
    judge = {"base_url": "http://j/v1", "model": "j", "api_key": "host:JUDGE_KEY"}
    path = write(tmp_path)
    benchmark = load_yaml(tmp_path / "sums.yaml")
    (tmp_path / "sums.yaml").write_text(to_yaml({**benchmark, "judge_models": {"judge": judge}}))
    resolved = resolve(path, cwd=tmp_path)
    runs = load_runs(resolved, cwd=tmp_path)
    around = PlanContext(gym=Path("/opt/gym"), user="ada", environ={"JUDGE_KEY": "canary-7"})
    [job] = plan_submission(resolved.config, runs, GYM_JOB_ID, around).jobs
    assert job.secrets == {"JUDGE_KEY": SecretText("canary-7")}
    missing = dataclasses.replace(around, environ={})
    where = r"driver\.benchmarks\.sums\.run\.judge_models\.judge\.api_key: .*JUDGE_KEY"
    with pytest.raises(SecretReferenceError, match=where):
        plan_submission(resolved.config, runs, GYM_JOB_ID, missing)


def test_an_unset_variable_is_named_with_its_dotted_path(tmp_path: Path):
    with pytest.raises(SecretReferenceError, match=r"services\.policy\.env\.HF_TOKEN: .*NOT_SET"):
        plan(tmp_path, {"services/policy/env": {"HF_TOKEN": "host:NOT_SET"}})


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"run/num_repeat": 3}, ["driver.benchmarks.sums.run", "num_repeat", "num_repeats"]),
        ({"run/limit": "many"}, ["driver.benchmarks.sums.run", "limit"]),
        ({"run/policy_api": "grpc"}, ["driver.benchmarks.sums.run", "policy_api"]),
        ({"run/config_paths": ["sms.yaml"]}, ["driver.benchmarks.sums.run", "sms.yaml"]),
        ({"run/split": "train"}, ["driver.benchmarks.sums.run.split", "no split train", "benchmark"]),
        ({"run/input_jsonl_fpath": "none.jsonl"}, ["input_jsonl_fpath", "none.jsonl"]),
        (
            {"run/prepare_script_args": {"n": 1}, "prepare": {"prepare_script_args": {"n": 2}}},
            ["driver.benchmarks.sums.prepare.prepare_script_args", "differ"],
        ),
        (
            {"run/benchmark": {"agent": {"type": "single_tun"}}},
            ["driver.benchmarks.sums.run.benchmark.agent.type", "(did you mean 'single_turn'?)"],
        ),
        (
            {"run/benchmark": {"verifier": {"mod": "exact"}}},
            ["driver.benchmarks.sums.run.benchmark.verifier.mod", "(did you mean 'mode'?)"],
        ),
        ({"prepare": {"split": "validation"}}, ["driver.benchmarks.sums.prepare", "other data"]),
        ({"prepare": {"prepare_args": {}}}, ["driver.benchmarks.sums.prepare", "prepare_args"]),
    ],
)
def test_a_wrong_run_mapping_is_found_at_submit(tmp_path: Path, changes: dict[str, Any], parts: list[str]):
    at = {f"driver/benchmarks/sums/{path}": value for path, value in changes.items()}
    with pytest.raises(ConfigError) as caught:
        plan(tmp_path, at)
    for part in parts:
        assert part in str(caught.value)


def test_without_a_policy_model_the_run_must_name_an_endpoint(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"policy_base_url.*policy_model_name.*driver\.policy_model"):
        plan(tmp_path, {"services": {}, "driver/policy_model": None})


def test_data_that_is_missing_and_cannot_be_prepared_is_found_at_submit(tmp_path: Path):
    path = write(tmp_path)
    (tmp_path / "rows.jsonl").unlink()
    resolved = resolve(path, cwd=tmp_path)
    with pytest.raises(ConfigError, match=r"no data file .*rows\.jsonl"):
        load_runs(resolved, cwd=tmp_path)


def test_arguments_that_the_prepare_script_does_not_take_are_found_at_submit(tmp_path: Path):
    changes = {
        "driver/benchmarks/sums/run": {
            "config_paths": ["benchmarks/arithmetic/config.yaml"],
            "prepare_script_args": {"num_task": 3},
        }
    }
    with pytest.raises(ConfigError) as caught:
        plan(tmp_path, changes)
    assert str(caught.value).startswith("driver.benchmarks.sums.run.prepare_script_args.num_task: ")
    assert str(caught.value).endswith("takes no such argument (did you mean 'num_tasks'?).")


def test_another_gym_may_have_agents_and_verifiers_that_this_one_lacks(tmp_path: Path):
    at = "driver/benchmarks/sums/run/benchmark"
    job = only_job(tmp_path, {"driver/gym": "gym", at: {"verifier": {"type": "theirs"}}})
    assert job.run is not None
    assert job.run["benchmark"]["verifier"]["type"] == "theirs"


def test_prepare_arguments_reach_the_run_too_so_that_both_mean_the_same_data(tmp_path: Path):
    at = "driver/benchmarks/sums"
    changes = {f"{at}/run/config_paths": ["benchmarks/arithmetic/config.yaml"]}
    job = only_job(tmp_path, {**changes, f"{at}/prepare": {"prepare_script_args": {"num_tasks": 7}}})
    assert job.run is not None
    assert job.run["prepare_script_args"] == {"num_tasks": 7}
    assert job.prepare == {}
    assert only_job(tmp_path, changes).prepare is None


def test_a_command_has_no_run_file_and_can_still_prepare_data(tmp_path: Path):
    prepare = {"config_paths": ["benchmarks/arithmetic/config.yaml"], "prepare_script_args": {"num_tasks": 7}}
    changes = {"driver/benchmarks/sums": {"command": "echo $X", "prepare": prepare}}
    job = only_job(tmp_path, changes)
    assert (job.run, job.command) == (None, "echo $X")
    assert job.prepare is not None
    assert job.prepare["prepare_script_args"] == {"num_tasks": 7}
    assert job.prepare["benchmark"]["name"] == "arithmetic"


def test_the_block_of_the_source_page_runs_as_it_stands(tmp_path: Path):
    block = {"resumable": True, "run": {"config_paths": ["benchmarks/gpqa/config.yaml"]}}
    job = only_job(tmp_path, {"driver/benchmarks": {"gpqa": block}})
    assert job.run is not None
    assert job.run["split"] == "benchmark"
    assert job.run["benchmark"]["num_repeats"] == 8


def test_otel_is_off_unless_given_and_its_token_is_in_no_plan(tmp_path: Path):
    assert only_job(tmp_path).otel is None
    otel = {"endpoint": "http://collect:4318", "service_name": "evals"}
    assert only_job(tmp_path, {"otel": {**otel, "enabled": False}}).otel is None
    job = only_job(tmp_path, {"otel": otel}, OTEL_TOKEN="canary-7")
    assert job.otel is not None
    assert job.otel.token_env == "OTEL_TOKEN"
    marks = json.dumps(job.otel.config)
    assert GYM_JOB_ID in marks
    assert "ada" in marks
    assert "canary-7" not in repr(dataclasses.asdict(job)) + marks


def test_a_judge_that_is_a_service_of_the_job_gets_its_models_name(tmp_path: Path):
    judges = {"judge": {"service": "policy"}, "other": {"model": "m", "base_url": "http://x/v1"}}
    job = only_job(tmp_path, {"driver/benchmarks/sums/run/judge_models": judges})
    assert job.run is not None
    assert {name: judge["model"] for name, judge in job.run["judge_models"].items()} == {
        "judge": "tiny",
        "other": "m",
    }
    assert job.run["judge_models"]["judge"]["base_url"] is None, "it is known when the job runs"


def test_a_judge_that_names_no_service_is_found_at_submit(tmp_path: Path):
    judges = {"judge": {"service": "polcy"}}
    with pytest.raises(ConfigError) as caught:
        plan(tmp_path, {"driver/benchmarks/sums/run/judge_models": judges})
    assert "sums.run.judge_models.judge.service: 'polcy' is not a service (did you mean 'policy'?)" in str(
        caught.value
    )


def test_replicas_are_processes_with_a_port_and_a_log_each_and_share_what_the_service_says(tmp_path: Path):
    policy = {**VLLM, "replicas": 2, "tensor_parallel_size": 2, "env": {"A": "lit:b"}}
    job = only_job(tmp_path, {"services/policy": policy})
    assert [(one.name, one.service, one.replica, one.first_gpu, one.head) for one in job.services] == [
        ("policy-0", "policy", 0, 0, 0),
        ("policy-1", "policy", 1, 2, 1),
    ]
    assert {one.model_name for one in job.services} == {"org/model"}
    assert {one.port for one in job.services} == {None}
    assert [one.env["A"] for one in job.services] == [Reference("lit", "b")] * 2
    assert job.services[1].argv == job.services[0].argv
    assert "127.0.0.1" in (job.services[0].argv or [])


def test_a_server_of_two_nodes_has_a_process_on_each_and_one_that_answers(tmp_path: Path):
    cluster = {
        "type": "slurm",
        "account": "a",
        "node_pools": {"gpu": {"partition": "p", "nodes": 4, "gpus_per_node": 4}},
    }
    policy = {**VLLM, "replicas": 2, "nodes": 2, "tensor_parallel_size": 4, "pipeline_parallel_size": 2}
    job = only_job(tmp_path, {"services/policy": policy, "compute/here": cluster})
    assert [(one.name, one.node, one.head, one.health_path) for one in job.services] == [
        ("policy-0", 0, 0, "/health"),
        ("policy-0-node-1", 1, 0, ""),
        ("policy-1", 2, 2, "/health"),
        ("policy-1-node-1", 3, 2, ""),
    ]
    assert [one.first_gpu for one in job.services] == [None] * 4  # each has its nodes for itself
    assert ["--headless" in (one.argv or []) for one in job.services] == [False, True, False, True]
    assert ["0.0.0.0" in (one.argv or []) for one in job.services] == [True, False, True, False]
