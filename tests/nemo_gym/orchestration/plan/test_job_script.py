import dataclasses
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.plan import job_script
from nemo_gym.orchestration.plan.sealed_files import sealed_files
from nemo_gym.orchestration.plan.telemetry import collector_config
from nemo_gym.orchestration.plan.values import (
    InstallPlan,
    JobPlan,
    OtelPlan,
    ServicePlan,
    SlurmPlan,
    StepImage,
)
from nemo_runs.secret_refs import Reference, SecretText
from nemo_slurm import calls

pytestmark = pytest.mark.services

RECORDED = Path(__file__).parent / "recorded"
WEIRD = "a  b's \"c\" $(touch pwned) `d` ${e} *;\n'; echo pwned #\\"


def plan(**changes):
    """A small job."""
    values = {
        "gym_job_id": "gym-job-20270115T080000Z-00abcd",
        "benchmark": "arithmetic",
        "job_dir": Path("/runs/gym-job-20270115T080000Z-00abcd/arithmetic"),
        "services": [],
        "policy": None,
        "policy_host": "localhost",
        "run": {"policy_base_url": "http://models.example/v1"},
        "prepare": None,
        "command": None,
        "gym": Path("/opt/gym/bin/gym"),
        "walltime": None,
    }
    return JobPlan(**(values | changes))


def full():
    """A job with everything in it."""
    vllm = ServicePlan(
        name="policy",
        kind="vllm",
        argv=["vllm", "serve", "org/model", "--host", "127.0.0.1", "--port", "{port}"],
        shell=None,
        port=None,
        model_name="org/model",
        health_path="/health",
        health_timeout=900,
        env={"HF_TOKEN": Reference("host", "MY_HF_TOKEN"), "HF_HOME": Reference("runtime", "SCRATCH")},
        pre_command="module load cuda\nulimit -n 65536",
    )
    judge = ServicePlan(
        name="a judge",
        kind="command",
        argv=None,
        shell="exec serve --port {port} --name 'it''s'",
        port=8001,
        model_name="judge",
        health_path="/ready",
        health_port=8002,
        health_timeout=60,
    )
    config = collector_config(
        endpoint="https://telemetry.example",
        token_env="OTEL_TOKEN",
        service_name="evals",
        component="gym-vllm",
        services=["policy", "a judge"],
        attributes={},
        gpu_metrics_port=None,
        node_metrics_port=None,
        scrape_interval_seconds=15,
    )
    otel = OtelPlan(
        binary="otelcol-contrib",
        endpoint="https://telemetry.example",
        service_name="evals",
        token_env="OTEL_TOKEN",
        config=config,
        health_check_timeout_seconds=300,
    )
    return plan(
        services=[vllm, judge],
        policy="policy",
        run={"policy_api_key": "host:JUDGE_KEY", "limit": 5},
        prepare={"prepare_script_args": {"num_tasks": 40, "operators": ["+", "-"]}, "split": None},
        env={"LOUD": Reference("lit", WEIRD), "TOKEN": Reference("host", "MY_HF_TOKEN")},
        secrets={"MY_HF_TOKEN": SecretText("hf'1\n$x"), "JUDGE_KEY": SecretText("judge-key")},
        walltime=3600,
        otel=otel,
    )


def cluster(runtime, **changes):
    """A job of a cluster, everything in containers unless they are off."""
    contained = runtime != "none"
    job = full()
    image = StepImage("registry.example/vllm:1", ("/models", "/data:/in:ro")) if contained else None
    services = [dataclasses.replace(service, container=image) for service in job.services]
    driver = StepImage("/images/gym.sqsh", (str(job.job_dir),)) if contained else None
    slurm = SlurmPlan(
        options=["--job-name=gym-arithmetic", "--account=physics", "--signal=B:USR1@120", "--no-requeue"],
        runtime=runtime,
        setup="module load cuda\nexport IT='s'",
    )
    values = {"services": services, "container": driver, "slurm": dataclasses.replace(slurm, **changes)}
    return dataclasses.replace(job, **values)


def spread():
    """A job with two servers of two nodes each, and a judge with two replicas on the first node."""
    argv = [
        "vllm",
        "serve",
        "m",
        "--port",
        "{port}",
        "--master-addr",
        "{head}",
        "--master-port",
        "{rpc_port}",
    ]
    one = dataclasses.replace(full().services[0], service="policy", argv=argv, gpus=4, pre_command="")
    policy = [
        dataclasses.replace(one, name="policy-0", node=0, head=0, replica=0),
        dataclasses.replace(one, name="policy-0-node-1", node=1, head=0, replica=0, health_path=""),
        dataclasses.replace(one, name="policy-1", node=2, head=2, replica=1),
        dataclasses.replace(one, name="policy-1-node-1", node=3, head=2, replica=1, health_path=""),
    ]
    judge = dataclasses.replace(one, service="judge", argv=["serve", "{port}"], gpus=1)
    judges = [
        dataclasses.replace(judge, name="judge-0", head=4, replica=0, first_gpu=0),
        dataclasses.replace(judge, name="judge-1", head=5, replica=1, first_gpu=1),
    ]
    job = cluster("none")
    return dataclasses.replace(job, services=[*policy, *judges], otel=None, prepare=None)


INSTALL = InstallPlan(repo="ssh://git@git.example/it's.git", ref="v1.2", folder=Path("/runs/.gym"))

CASES = {
    "slurm": (cluster("none", kill_on_invalid_dep=False, queue_from="login"), False),
    "slurm_pyxis": (cluster("pyxis"), False),
    "slurm_apptainer": (cluster("apptainer"), True),
    "slurm_replicas": (spread(), False),
    "external_endpoint": (plan(), False),
    "everything": (full(), False),
    "everything_redacted": (full(), True),
    "install": (plan(gym=Path("gym"), install=INSTALL), False),
    "command": (plan(run=None, command="echo 'it''s'\nexit 3\n"), False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_whole_script_is_as_recorded(name):
    job, redacted = CASES[name]
    sealed = dict.fromkeys(sealed_files(job), b"as recorded\n")
    rendered = job_script.render_job(job, redacted=redacted, sealed=sealed)
    recorded = RECORDED / f"{name}.sh"
    if os.environ.get("ACCEPT_RECORDED"):
        recorded.write_text(rendered)
    accept = f"ACCEPT_RECORDED=1 pytest {Path(__file__).name}"
    message = f"the job script changed; if that is meant: {accept}, then read the diff and commit it"
    assert rendered == recorded.read_text(), message


@pytest.mark.parametrize("name", [name for name in CASES if name != "slurm_replicas"])  # as slurm
def test_a_recorded_script_parses_and_is_clean_with_the_files_it_reads(name, tmp_path):
    (home,) = set(
        re.findall(r"^\. (sealed/[0-9a-f]{16})/", (RECORDED / f"{name}.sh").read_text(), re.MULTILINE)
    )
    shutil.copytree(RECORDED / "shell", tmp_path / home, ignore=shutil.ignore_patterns(".*"))
    shutil.copy(Path(calls.__file__).with_name("clean_environment.sh"), tmp_path / home)
    recorded = shutil.copy(RECORDED / f"{name}.sh", tmp_path)
    subprocess.run(["bash", "-n", recorded], check=True)
    checked = subprocess.run(["shellcheck", "-x", recorded], capture_output=True, text=True, check=False)
    assert checked.stdout == ""


def test_the_lines_of_slurm_come_first_and_values_are_no_part_of_them():
    text = job_script.render_job(cluster("pyxis"), redacted=False)
    lines = text.splitlines()
    directives = [line for line in lines if line.startswith("#SBATCH")]
    assert lines[1 : 1 + len(directives)] == directives
    assert not any("hf'1" in line or "judge-key" in line for line in directives)


def test_the_first_commands_are_the_traps():
    lines = job_script.render_job(full(), redacted=False).splitlines()
    commands = [line for line in lines if line and not line.startswith("#")]
    assert [line.split()[0] for line in commands[:2]] == ["trap", "trap"]


def test_every_value_reaches_the_shell_as_it_was(tmp_path):
    job = plan(
        benchmark=WEIRD, command=WEIRD, env={"A": Reference("lit", WEIRD)}, secrets={"B": SecretText(WEIRD)}
    )
    text = job_script.render_job(job, redacted=False).partition("\ncd --")[0]
    told = 'printf "%s\\0" "$GYM_BENCHMARK" "$GYM_COMMAND" "${GYM_DRIVER_ENV[2]}" "$GYM_SECRET_B"'
    answer = subprocess.run(["bash", "-c", f"{text}\n{told}"], capture_output=True, check=True, cwd=tmp_path)
    assert answer.stdout.decode().split("\0") == [WEIRD] * 4 + [""]
    assert list(tmp_path.iterdir()) == []


def test_a_redacted_script_holds_no_secret_value():
    text = job_script.render_job(full(), redacted=True)
    assert "judge-key" not in text
    assert "hf'1" not in text
    assert "GYM_SECRET_JUDGE_KEY='<host:JUDGE_KEY>'" in text


def test_the_key_of_our_own_service_is_made_in_the_job_and_is_no_secret_of_the_script():
    run = {"policy_api_key": "host:NEMO_GYM_POLICY_API_KEY"}
    job = plan(services=full().services[1:], policy="a judge", run=run)
    assert "NEMO_GYM_POLICY_API_KEY" not in job_script.render_job(job, redacted=False)


def test_a_secret_goes_to_the_steps_that_name_it_alone():
    text = job_script.render_job(full(), redacted=True)
    driver = text.partition("GYM_DRIVER_ENV=(")[2].partition("\n)")[0].split()
    assert driver[:3] == ["'JUDGE_KEY'", "'secret'", "'JUDGE_KEY'"]
    assert driver[-3:] == ["'TOKEN'", "'secret'", "'MY_HF_TOKEN'"]
    assert "export" not in text


@pytest.mark.parametrize("name", ["a b", "1A", "A=B", "A;reboot", ""])
def test_a_name_that_no_variable_can_have_is_refused(name):
    with pytest.raises(ConfigError, match=r"driver\.env"):
        job_script.render_job(plan(env={name: Reference("lit", "x")}), redacted=False)


def test_a_zero_byte_is_refused():
    with pytest.raises(ConfigError, match="zero byte"):
        job_script.quote("a\0b")


def test_override_tokens_are_read_back_as_the_values_they_were():
    yaml = pytest.importorskip("yaml")
    values = {"a": {"b": [1, "x: y", None], "c": True}, "d": {}, "e": "1e-3", "f": 0.001, "g": "ä 😀"}
    tokens = dict(token.removeprefix("+").split("=", 1) for token in job_script.override_tokens(values))
    assert {key: yaml.safe_load(text) for key, text in tokens.items()} == {
        "a.b": [1, "x: y", None],
        "a.c": True,
        "d": {},
        "e": "1e-3",
        "f": 0.001,
        "g": "ä 😀",
    }
