"""The batch script of a start."""

import os
import socket
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from nemo_helix_server.executors.base import ResourceNeeds
from nemo_helix_server.executors.slurm.job_script import job_name, render
from nemo_helix_server.executors.slurm.on_cluster import allocation
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_slurm.errors import UnusableValueError

RUN, CODE = PurePosixPath("/shared/jobs/j/runs/task-1"), PurePosixPath("/shared/code/ab")


def script(needs=None, **settings):
    return render(
        SlurmSettings(root="/shared", **settings),
        needs or ResourceNeeds(),
        name="j-training",
        run=RUN,
        code=CODE,
    )


def directives(text):
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]


def test_every_key_of_a_profile_becomes_a_directive():
    found = directives(
        script(
            account="a1",
            partition="gpu,long",
            qos="high",
            constraint="h100&ib",
            reservation="r",
            time="04:00:00",
            options={"exclusive": True, "mail-type": "FAIL"},
        )
    )
    wanted = ["--account=a1", "--partition=gpu,long", "--qos=high", "--constraint=h100&ib", "--reservation=r"]
    assert [*wanted, "--time=04:00:00", "--exclusive", "--mail-type=FAIL"] == [
        word
        for word in found
        if word.split("=")[0].lstrip("-")
        in {"account", "partition", "qos", "constraint", "reservation", "time", "exclusive", "mail-type"}
    ]


def test_what_a_step_needs_becomes_directives():
    needs = ResourceNeeds(nodes=2, gpus=4, cpus=7.5, memory_bytes=(3 << 30) + 1)
    found = directives(script(needs))
    assert {
        "--nodes=2",
        "--ntasks-per-node=1",
        "--gpus-per-node=4",
        "--cpus-per-task=8",
        "--mem=3073M",
    } <= set(found)
    assert "--gres=gpu:4" in directives(script(needs, gpu_option="gres"))
    assert not [word for word in directives(script()) if "gpu" in word or "--mem" in word]


def test_a_step_that_asks_for_nothing_gets_what_the_profile_says():
    assert {"--cpus-per-task=8", "--mem=64G"} <= set(directives(script(cpus=8, memory="64Gi")))
    assert "--mem=0" in directives(script(memory=0))
    asked = directives(script(ResourceNeeds(cpus=2, memory_bytes=1 << 30), cpus=8, memory="64Gi"))
    assert {"--cpus-per-task=2", "--mem=1024M"} <= set(asked)


def test_a_job_inherits_no_environment_and_is_never_requeued():
    found = directives(script())
    assert {"--export=NONE", "--no-requeue", f"--output={RUN}/slurm.log", f"--chdir={RUN}"} <= set(found)
    assert "unset SLURM_EXPORT_ENV" in script()


def test_setup_lines_come_before_the_program_and_bash_can_read_all_of_it():
    text = script(setup=("module load cuda", "export NCCL_DEBUG=INFO"), python="/opt/my python/bin/python3")
    lines = text.splitlines()
    assert lines.index("module load cuda") < lines.index("export NCCL_DEBUG=INFO") < len(lines) - 1
    assert lines[-1].startswith("exec ")
    assert "'/opt/my python/bin/python3' -P -m" in lines[-1]
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"root": "shared"}, "absolute"),
        ({"root": "/scratch/bü-ö"}, "/scratch/bü-ö must have only ASCII letters, digits and"),
        ({"root": "/scratch/my data"}, "only ASCII letters"),
        ({"root": "/scratch/%u"}, "only ASCII letters"),
        ({"root": "/s", "time": 14400}, "quote it"),
        ({"root": "/s", "time": "4 hours"}, "not a duration"),
        ({"root": "/s", "partition": "a b"}, "partition"),
        ({"root": "/s", "account": "x\n#SBATCH --uid=0"}, "account"),
        ({"root": "/s", "memory": "64"}, "such as 64Gi"),
        ({"root": "/s", "memory": 0, "memory_option": "mem-per-cpu"}, "memory: 0 means"),
        ({"root": "/s", "options": {"mem": "4G"}}, "it is set by memory"),
        ({"root": "/s", "options": {"time": "1:00:00"}}, "it is set by time"),
        ({"root": "/s", "options": {"gpus-per-node": 2}}, "resources.num_gpus"),
        ({"root": "/s", "options": {"requeue": True}}, "a start is made once"),
        ({"root": "/s", "options": {"comment": "mine"}}, "token"),
        ({"root": "/s", "options": {"array": "1-4"}}, "array"),
    ],
)
def test_a_profile_that_cannot_be_is_refused_by_key(settings, text):
    with pytest.raises(ValueError, match=text):
        SlurmSettings(**settings)


def test_names_of_jobs_are_what_a_queue_can_show():
    token = "task-0123456789abcdef0123456789abcdef"
    assert job_name("platform-job-9", "training", token) == "platform-job-9-training-0123456789ab"
    assert job_name("a b/c", "tränen", token) == "a-b-c-tr-nen-0123456789ab"
    assert len(job_name("x" * 100, "y", token)) == 63
    assert job_name("ü", "ö", token) == "baton-0123456789ab"


def test_a_value_that_cannot_stand_in_a_script_is_refused():
    with pytest.raises(UnusableValueError, match="exclude"):
        render(SlurmSettings(root="/s"), ResourceNeeds(), name="n", run=RUN, code=CODE, exclude=("n1 n2",))


ORDER = {
    "argv": ["python", "train.py"],
    "nodes": 1,
    "gpus": 0,
    "working_directory": "/shared/w",
    "container": None,
    "rank": ["sh", "/code/rank.sh"],
}


def test_a_command_of_one_node_runs_as_it_is():
    assert allocation.command(ORDER) == ["python", "train.py"]


def test_a_command_of_several_nodes_runs_once_on_each_with_its_number():
    words = allocation.command({**ORDER, "nodes": 3})
    assert words[:4] == ["srun", "--nodes=3", "--ntasks=3", "--ntasks-per-node=1"]
    assert {"--kill-on-bad-exit=0", "--wait=120"} <= set(words)
    assert words[-5:] == ["sh", "/code/rank.sh", "--", "python", "train.py"]


def test_containers_are_rendered_for_both_runtimes():
    container = {"runtime": "pyxis", "image": "org/img:1", "mounts": ["/shared:/shared", "/data:/d"]}
    pyxis = allocation.command({**ORDER, "container": container})
    assert pyxis[0] == "srun"
    assert "--container-image=org/img:1" in pyxis
    assert "--container-mounts=/shared:/shared,/data:/d" in pyxis
    apptainer = allocation.command({**ORDER, "gpus": 2, "container": {**container, "runtime": "apptainer"}})
    assert apptainer == [
        "apptainer", "exec", "--nv", "--bind", "/shared:/shared", "--bind", "/data:/d", "org/img:1",
        "python", "train.py",
    ]  # fmt: skip


def test_torchrun_finds_its_rendezvous_in_the_environment():
    environ = {"SLURM_JOB_ID": "41"}
    found = allocation.rendezvous(2, 4, environ)
    assert found["PET_MASTER_ADDR"] == found["MASTER_ADDR"] == socket.gethostname()
    assert found["PET_MASTER_PORT"] == found["MASTER_PORT"]
    assert (found["PET_NNODES"], found["PET_NPROC_PER_NODE"]) == ("2", "4")
    other = allocation.rendezvous(2, 4, {**environ, "SLURM_JOB_ID": "42"})
    assert other["MASTER_PORT"] != found["MASTER_PORT"]
    assert set(allocation.rendezvous(1, 4, environ)) == {"MASTER_ADDR", "MASTER_PORT"}


def test_only_the_first_node_writes_where_a_command_is_no_launcher():
    found = [ranked({"SLURM_NODEID": node, "NNODES": "2"}, "env") for node in ("0", "1")]
    found = [dict(line.split("=", 1) for line in one.stdout.splitlines()) for one in found]
    assert [one["RANK"] for one in found] == ["0", "1"]
    assert [one["PET_NODE_RANK"] for one in found] == ["0", "1"]
    assert {one["WORLD_SIZE"] for one in found} == {"2"}
    assert {one["LOCAL_RANK"] for one in found} == {"0"}


def test_a_command_on_a_node_keeps_its_words_and_its_status_and_needs_no_python():
    assert ranked({}, "printf", "%s|", "a b", "", "--", "*").stdout == "a b||--|*|"
    assert ranked({}, "sh", "-c", "exit 75").returncode == 75
    lost = ranked({}, "no-such-program")
    assert lost.returncode == 127
    assert "no-such-program" in lost.stderr


def ranked(environ, *command):
    """Run a command as a node of several does."""
    program = Path(allocation.__file__).with_name("rank.sh")
    return subprocess.run(
        ["sh", program, "--", *command],
        env={"PATH": os.environ["PATH"], **environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("profile", "needs", "asked"),
    [
        ({"memory": "64Gi", "cpus": 8}, {}, ["--mem-per-cpu=8192M"]),
        ({"cpus": 8}, {"memory_bytes": 10 << 30, "cpus": 3}, ["--mem-per-cpu=3414M"]),
        ({}, {"memory_bytes": 1 << 30}, ["--mem-per-cpu=1024M"]),
        (
            {"options": {"mem-per-cpu": "4G"}, "memory_option": "none"},
            {"memory_bytes": 1},
            ["--mem-per-cpu=4G"],
        ),
        ({"memory_option": "none"}, {"memory_bytes": 1 << 40}, []),
        ({"cpus": 8}, {}, []),
    ],
)
def test_memory_is_asked_for_as_the_site_wants_it(profile, needs, asked):
    text = script(ResourceNeeds(**needs), **{"memory_option": "mem-per-cpu", **profile})
    assert [word for word in directives(text) if "--mem" in word] == asked


def test_memory_of_a_step_and_an_option_that_sets_it_otherwise_are_not_both_written():
    with pytest.raises(UnusableValueError, match="memory_option: mem-per-cpu"):
        script(ResourceNeeds(memory_bytes=1 << 30), options={"mem-per-cpu": "4G"})


@pytest.mark.parametrize(
    ("profile", "asked"),
    [
        ({}, "--gpus-per-node=4"),
        ({"gpu_type": "a100"}, "--gpus-per-node=a100:4"),
        ({"gpu_option": "gres"}, "--gres=gpu:4"),
        ({"gpu_option": "gres", "gpu_type": "v100"}, "--gres=gpu:v100:4"),
        ({"gpu_option": "none"}, None),
    ],
)
def test_gpus_are_asked_for_as_the_site_wants_it(profile, asked):
    found = [word for word in directives(script(ResourceNeeds(gpus=4), **profile)) if "gpu" in word]
    assert found == ([asked] if asked else [])


def test_what_a_site_says_of_the_rendezvous_counts():
    environ = {"SLURM_JOB_ID": "41", "MASTER_ADDR": "node1i", "MASTER_PORT": "6000"}
    found = allocation.rendezvous(2, 4, environ)
    assert (found["MASTER_ADDR"], found["PET_MASTER_ADDR"]) == ("node1i", "node1i")
    assert (found["MASTER_PORT"], found["PET_MASTER_PORT"]) == ("6000", "6000")


def test_steps_of_several_nodes_get_the_processors_of_their_job():
    assert "--cpus-per-task=8" in allocation.command({**ORDER, "nodes": 2, "cpus": 8})
    assert not [word for word in allocation.command({**ORDER, "nodes": 2}) if "cpus" in word]
