"""`gym eval submit` to the real Slurm: the whole program, the real collector, a stand-in model server."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.local_jobs import STAND_INS
from tests.slurm.lab import until

import nemo_gym
from nemo_gym.job_paths import JobPaths, RunPaths
from nemo_gym.orchestration.submit import gym_bundle
from nemo_slurm.ssh import SshHost

pytestmark = [pytest.mark.slurm, pytest.mark.e2e]

CANARY = "canary-7d21-never-shown"
TOKEN = "canary-token-55c3-in-no-file"
GYM = Path(sys.executable).with_name("gym")
SOURCES = Path(nemo_gym.__file__).parents[1]
SERVE = f"exec {sys.executable} -S {STAND_INS / 'serve.py'} {{port}} tiny key"
SUMS = {
    "benchmark": {
        "name": "sums",
        "datasets": {"benchmark": {"jsonl_fpath": "rows.jsonl"}},
        "prompt": {"user": "{question}"},
        "verifier": {"type": "match"},
    }
}


@dataclass
class Student:
    """Somebody with a submit file on a machine from which the cluster can be reached."""

    folder: Path
    slurm: Any
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    records: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.environ |= {"CANARY": CANARY, "PYTHONPATH": str(SOURCES)}
        self.home = self.folder / "home of the student"
        self.home.mkdir()
        (self.home / "sums.yaml").write_text(yaml.safe_dump(SUMS))
        rows = [{"question": f"{n} + 1?", "expected_answer": "12"} for n in range(4)]
        (self.home / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        program = self.folder / "gym"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={SOURCES} exec {GYM} "$@"\n')
        program.chmod(0o755)
        self.program = program

    def config(self, **changes: Any) -> dict[str, Any]:
        base = {
            "services": {"policy": {"type": "command", "command": SERVE, "model_name": "tiny"}},
            "compute": {
                "lab": {
                    "type": "slurm",
                    "account": "lab",
                    "walltime": "00:05:00",
                    "node_pools": {"all": {"partition": "main"}},
                    **changes.pop("compute", {}),
                }
            },
            "driver": {
                "gym": str(self.program),
                "policy_model": "policy",
                "benchmarks": {"sums": {"run": {"config_paths": ["sums.yaml"]}}},
                **changes.pop("driver", {}),
            },
            "job": {"output_path": str(self.folder / "runs")},
        }
        return {**base, **changes}

    def gym(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(self.program), *words],
            cwd=self.home,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, done.stderr
        assert CANARY not in done.stdout + done.stderr
        assert TOKEN not in done.stdout + done.stderr
        return done

    def submit(self, config: dict[str, Any], *words: str) -> dict[str, Any]:
        (self.home / "submit.yaml").write_text(json.dumps(config))
        record = json.loads(self.gym("eval", "submit", "-c", "submit.yaml", "--json", *words).stdout)
        self.slurm.prefix = f"{record['gym_job_id']}/"
        self.records.append(record)
        return dict(record)

    def ended(self, record: dict[str, Any], benchmark: str = "sums") -> JobPaths:
        """The benchmark's folder once its job has ended."""
        entry = next(entry for entry in record["benchmarks"] if entry["benchmark"] == benchmark)
        assert entry["error"] is None
        paths = JobPaths(Path(entry["job_dir"]))
        link = paths.link(entry["job_id"])
        until(link.end.exists, timeout=60)
        return paths

    def said(self, paths: JobPaths) -> str:
        """All logs of a benchmark."""
        files = [*paths.job_dir.glob("slurm-*.out"), *paths.logs.glob("*.log")]
        return "\n".join(f"{file.name}: {file.read_text()}" for file in files)

    def rows(self, paths: JobPaths) -> int:
        output = paths.rollouts.output
        assert output.exists(), self.said(paths)
        return len(output.read_text().splitlines())


@pytest.fixture
def student(slurm: Any, tmp_path: Path) -> Student:
    return Student(tmp_path, slurm)


def status_of(folder: Path) -> str:
    """The first word of each end marker."""
    return " ".join(path.read_text().split()[0] for path in folder.glob("links/*/end"))


def test_a_submission_runs_to_complete_results_and_is_recorded(student: Student) -> None:
    setup = "export CUDA_MODULE=loaded\nfalse || ulimit -n 512"
    config = student.config(
        compute={"setup": setup},
        driver={"env": {"HF_TOKEN": "host:CANARY", "WHAT": "runtime:CUDA_MODULE"}},
    )
    config["driver"]["benchmarks"]["nodes"] = {
        "command": 'echo "$WHAT $(ulimit -n)" >"$NEMO_GYM_BENCH_DIR/seen"'
    }
    record = student.submit(config)
    assert (record["executor"], record["hostname"], record["executor_metadata"]) == ("slurm", None, {})
    paths = student.ended(record)
    assert student.rows(paths) == 4
    assert (student.ended(record, "nodes").job_dir / "seen").read_text() == "loaded 512\n"
    results = json.loads(student.gym("job", "results", record["gym_job_id"], "--json").stdout)
    assert "complete" in json.dumps(results)
    assert json.loads(paths.events.read_text().splitlines()[0])["event"] in ("submitted", "job_started")
    table = student.gym("job", "list").stdout
    assert record["gym_job_id"] in table
    assert "slurm" in table


def test_servers_run_on_all_nodes_of_the_allocation_and_those_of_several_nodes_meet(student: Student) -> None:
    """With a stand-in for vLLM: the real one needs a GPU on each node, or hours."""
    program = student.folder / "vllm"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {STAND_INS / "vllm.py"} "$@"\n')
    program.chmod(0o755)
    wide = {"type": "vllm", "model": "org/model", "nodes": 2, "number_of_instances": 2}
    wide |= {"pre_command": f'PATH="{student.folder}:$PATH"'}
    wide |= {"env": {"VLLM_ARGUMENTS": f"lit:{student.folder}"}}
    judge = {"type": "command", "command": f"{SERVE} host=0.0.0.0", "model_name": "tiny", "replicas": 2}
    told = 'printf "%s" "$NEMO_GYM_SERVICES" >"$NEMO_GYM_BENCH_DIR/services"; scontrol show hostnames >hosts'
    config = student.config(services={"policy": wide, "judge": judge})
    config["compute"]["lab"]["node_pools"]["all"] |= {"nodes": 2, "extra_args": {"mem": "400M"}}
    config["driver"]["benchmarks"]["told"] = {"command": told}
    record = student.submit(config)
    paths = student.ended(record)
    assert student.rows(paths) == 4
    assert status_of(paths.job_dir) == "ended", student.said(paths)
    paths = student.ended(record, "told")
    first, second = (paths.job_dir / "hosts").read_text().split()
    services = [line.split() for line in (paths.job_dir / "services").read_text().splitlines()]
    assert [name for name, _, _ in services] == ["policy", "judge", "judge"]
    assert len({url for _, url, _ in services}) == 3
    head, other = ((student.folder / rank).read_text().split("\n") for rank in "01")
    assert ("--headless" in head, "--headless" in other) == (False, True)
    meeting = [words[words.index("--data-parallel-address") + 1] for words in (head, other)]
    assert meeting[0] == meeting[1]
    assert first != second
    assert len(list(paths.logs.glob("policy-*"))) == 2


def test_a_secret_is_shown_nowhere(student: Student) -> None:
    """Not by scontrol, sacct, in an argument list, or in a file other than the owner's own script."""
    spy = f"cat /proc/[0-9]*/cmdline >'{student.folder}/seen' 2>/dev/null"
    config = student.config(
        services={},
        otel={
            "endpoint": "http://127.0.0.1:9",
            "service_name": "s",
            "binary": "/bin/false",
            "token_env": "MY_TOKEN",
        },
        driver={
            "policy_model": None,
            "env": {"HF_TOKEN": "host:CANARY"},
            "benchmarks": {"spy": {"command": f'{spy} || :\n[ -n "$HF_TOKEN" ] && printf given >given'}},
        },
    )
    student.environ["MY_TOKEN"] = TOKEN
    record = student.submit(config)
    paths = student.ended(record, "spy")
    number = record["benchmarks"][0]["job_id"]
    shown = subprocess.run(
        ["scontrol", "-d", "show", "job", number], capture_output=True, text=True, check=True
    ).stdout
    shown += subprocess.run(
        ["sacct", "-j", number, "--format=ALL", "-P"], capture_output=True, text=True, check=True
    ).stdout
    shown += (student.folder / "seen").read_text(errors="replace")
    assert "JobId=" in shown
    assert CANARY not in shown
    assert TOKEN not in shown
    assert (paths.job_dir / "given").read_text() == "given", student.said(paths)
    for path in paths.job_dir.parent.rglob("*"):
        if path.is_file():
            text = path.read_bytes()
            assert TOKEN.encode() not in text, path
            assert CANARY.encode() not in text or path == paths.script, path
    assert paths.script.stat().st_mode & 0o777 == 0o600


def test_a_job_inherits_nothing_of_the_job_it_was_submitted_from(student: Student) -> None:
    student.environ |= {"SLURM_NTASKS": "77", "SBATCH_PARTITION": "nowhere", "PMIX_RANK": "3"}
    student.environ["SLURM_CPU_BIND"] = "mask_cpu:0x1"
    config = student.config(
        driver={"policy_model": None, "benchmarks": {"env": {"command": "env >seen"}}}, services={}
    )
    paths = student.ended(student.submit(config), "env")
    seen = (paths.job_dir / "seen").read_text()
    assert "SLURM_CONF=" in seen
    assert not re.search(r"^(SLURM_NTASKS=77|SBATCH_|PMIX_|SLURM_CPU_BIND)", seen, re.MULTILINE)


def test_an_early_signal_drains_and_a_cancelled_job_is_seen_as_cancelled(student: Student) -> None:
    command = 'trap : TERM; touch running; until [ -e "$NEMO_GYM_DRAIN_FILE" ]; do sleep 0.1; done; exit 75'
    config = student.config(
        driver={"policy_model": None, "benchmarks": {"slow": {"command": command}}}, services={}
    )
    record = student.submit(config)
    entry = record["benchmarks"][0]
    folder = Path(entry["job_dir"])
    until((folder / "running").exists, timeout=60)
    subprocess.run(["scancel", "--batch", "--signal=USR1", entry["job_id"]], check=True)
    student.ended(record, "slow")
    assert (folder / "links" / f"{entry['job_id']}.0" / "drain").read_text().split() == ["walltime"]
    assert status_of(folder) == "drained"


def test_a_container_step_runs_with_the_mounts_and_variables_that_were_asked_for(student: Student) -> None:
    image = student.folder / "image.sqsh"
    image.touch()
    model = student.folder / "model"
    model.mkdir()
    config = student.config()
    seen = student.folder / "service seen"
    config["services"]["policy"] |= {
        "container": str(image),
        "mounts": [f"{model}:/model:ro", str(student.folder)],
        "env": {"MODE": "lit:fast"},
        "command": f"env >'{seen}'; nproc >>'{seen}'; {SERVE}",
    }
    config["driver"] |= {"container": str(image), "mounts": [str(student.folder)]}
    paths = student.ended(student.submit(config))
    assert student.rows(paths) == 4, student.said(paths)
    values = dict(line.partition("=")[::2] for line in seen.read_text().splitlines())
    assert values["LAB_CONTAINER_IMAGE"] == str(image)
    assert values["LAB_CONTAINER_MOUNTS"] == f"{model}:/model:ro,{student.folder}:{student.folder}"
    assert values["LAB_NO_CONTAINER_MOUNT_HOME"] == "1"
    assert values["LAB_CONTAINER_ENV"] == "NEMO_GYM_SERVICE_API_KEY,VLLM_API_KEY,NEMO_GYM_SERVICE_PORT,MODE"
    assert status_of(paths.job_dir) == "ended"


def test_an_early_signal_reaches_the_collector_inside_its_container(student: Student) -> None:
    image = student.folder / "image.sqsh"
    image.touch()
    config = student.config()
    config["services"]["policy"] |= {"container": str(image), "command": f"{SERVE} delay=1"}
    config["driver"] |= {"container": str(image), "mounts": [str(student.folder)]}
    config["driver"]["benchmarks"]["sums"]["run"]["num_samples_in_parallel"] = 1
    record = student.submit(config)
    entry = record["benchmarks"][0]
    paths = JobPaths(Path(entry["job_dir"]))
    until(lambda: paths.rollouts.output.exists() and paths.rollouts.output.read_text(), timeout=60)
    subprocess.run(["scancel", "--batch", "--signal=USR1", entry["job_id"]], check=True)
    student.ended(record)
    marker = paths.link(entry["job_id"]).end.read_text()
    assert marker.startswith("drained 75 walltime\n"), student.said(paths)
    assert 0 < student.rows(paths) < 4


def test_a_container_that_cannot_be_started_fails_the_job_with_a_sentence(student: Student) -> None:
    """srun of some versions ends with 0 then."""
    image = student.folder / "not there.sqsh"
    config = student.config(services={})
    config["driver"] |= {
        "container": str(image),
        "policy_model": None,
        "benchmarks": {"it": {"command": "touch ran"}},
    }
    paths = student.ended(student.submit(config), "it")
    marker = next(paths.job_dir.glob("links/*/end")).read_text()
    assert marker.startswith("ended 1 none\n"), student.said(paths)
    assert "the container of the command step could not be started; see logs/driver-" in marker
    assert "ran" not in os.listdir(paths.job_dir)


@pytest.mark.slow
def test_the_telemetry_token_reaches_every_link_of_a_chain_through_no_file(student: Student) -> None:
    collector = student.folder / "otelcol"
    seen = student.folder / "tokens"
    collector.write_text(
        f'#!/bin/bash\necho "$SLURM_JOB_ID $(printf %s "$MY_TOKEN" | sha256sum)" >>"{seen}"\nexec sleep 600\n'
    )
    collector.chmod(0o755)
    otel = {"endpoint": "http://127.0.0.1:9", "service_name": "s", "binary": str(collector)}
    otel |= {"token_env": "MY_TOKEN", "health_check_timeout_seconds": 1, "scrape_interval_seconds": 1}
    config = student.config(otel=otel)
    config["driver"]["benchmarks"]["sums"] |= {"resumable": True}
    config["driver"]["benchmarks"]["sums"]["run"]["num_samples_in_parallel"] = 1
    config["services"]["policy"]["command"] += " delay=0.7"
    student.environ["MY_TOKEN"] = TOKEN
    record = student.submit(config)
    entry = record["benchmarks"][0]
    paths = JobPaths(Path(entry["job_dir"]))
    until(lambda: paths.rollouts.output.exists() and paths.rollouts.output.read_text(), timeout=60)
    student.slurm.control("update", f"JobId={entry['job_id']}", "TimeLimit=0")
    chain = paths.job_dir / ".gym_job_chain"
    until(lambda: len(chain.read_text().split()) == 2, timeout=60)
    first, second = chain.read_text().split()
    until(paths.link(second).end.exists, timeout=60)
    assert student.rows(paths) == 4, student.said(paths)
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    assert [line.split()[:2] for line in seen.read_text().splitlines()] == [[first, digest], [second, digest]]
    found = [
        path for path in paths.job_dir.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()
    ]
    assert found == []


def test_no_more_jobs_of_a_submission_run_at_once_than_allowed(student: Student) -> None:
    command = "until [ -e end ]; do sleep 0.1; done"
    names = ("a", "b", "c")
    benchmarks = {name: {"command": command} for name in names}
    config = student.config(
        compute={"max_parallel": 2}, services={}, driver={"policy_model": None, "benchmarks": benchmarks}
    )
    record = student.submit(config)
    a, b, c = (entry["job_id"] for entry in record["benchmarks"])
    folders = {entry["benchmark"]: Path(entry["job_dir"]) for entry in record["benchmarks"]}
    rows = until(
        lambda: [row for row in student.slurm.cluster.queue_of(student.slurm.prefix) if row.dependency]
    )
    assert [(row.id, a in row.dependency, b in row.dependency) for row in rows] == [(c, True, False)]
    assert list(folders["c"].glob("links/*")) == []
    (folders["a"] / "end").touch()
    for name in ("b", "c"):
        (folders[name] / "end").touch()
        student.ended(record, name)


def test_the_same_from_another_machine_over_ssh(student: Student) -> None:
    """Data that is on the student's machine alone goes along; records are written on both sides."""
    far = student.folder / "far away"
    config = student.config(compute={"hostname": "lab"}, job={"output_path": str(far)})
    # the lab is this machine: what must not be found there is hidden behind a name that is not there
    student.environ["NEMO_GYM_SSH_CONFIG"] = os.environ["NEMO_GYM_SSH_CONFIG"]
    record = student.submit(config)
    assert record["hostname"] == "lab"
    assert Path(record["run_dir"]).parent == far
    paths = student.ended(record)
    assert student.rows(paths) == 4, student.said(paths)
    run = RunPaths(Path(record["run_dir"]))
    assert json.loads(run.record.read_text()) == record
    assert run.record.stat().st_mode & 0o777 == 0o644
    assert yaml.safe_load(run.resolved_config.read_text())["compute"]["lab"]["hostname"] == "lab"


@pytest.mark.slow
def test_our_own_gym_is_brought_once_where_there_is_none(student: Student, tmp_path: Path) -> None:
    host = SshHost("lab")
    bundle = gym_bundle.plan_bundle(host, tmp_path / "runs")
    assert bundle == gym_bundle.plan_bundle(host, tmp_path / "runs")
    (tmp_path / "one").mkdir()
    bundle.bring(host, tmp_path / "one")
    before = bundle.program.stat().st_mtime_ns
    bundle.bring(host, tmp_path / "two")
    host.close()
    assert bundle.program.stat().st_mtime_ns == before
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    shutil.rmtree(tmp_path / "one")
    done = subprocess.run(
        [bundle.program, "--version"], env=bare, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.startswith("gym, version")
    config = student.config(driver={"gym": str(bundle.program)})
    paths = student.ended(student.submit(config))
    assert student.rows(paths) == 4, student.said(paths)


def test_a_check_uses_no_job_and_says_what_to_change(student: Student) -> None:
    (student.home / "submit.yaml").write_text(json.dumps(student.config(compute={"hostname": "lab"})))
    found = json.loads(student.gym("eval", "check", "-c", "submit.yaml", "--json").stdout)
    assert (found["schema_version"], found["ok"]) == (1, True)
    assert {"connection", "partition", "account", "sbatch --test-only", "space", "program", "data"} <= {
        finding["about"] for finding in found["findings"]
    }
    wrong = ["compute.lab.node_pools.all.partition=gpus", "compute.lab.account=nobody"]
    told = student.gym("eval", "check", "-c", "submit.yaml", *wrong, status=1).stdout
    assert "there is no partition gpus; there is main, low, lowq, high." in told
    assert "root may not use nobody" in told
    refused = student.gym("eval", "submit", "-c", "submit.yaml", *wrong, status=1).stderr
    assert "there is no partition gpus" in refused
    assert not (student.folder / "runs").exists()
    assert student.slurm.cluster.queue_of("not-submitted") == []
