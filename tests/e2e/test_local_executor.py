"""Jobs of the `local` executor as they really run: processes, signals, files."""

import fcntl
import hashlib
import json
import os
import pty
import signal
import socket
import stat
import subprocess
import sys
import termios
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.local_jobs import STAND_INS, Workplace, service, until

from nemo_gym.chain.observation import JobState
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.executors.base import JobRef
from nemo_gym.orchestration.plan.telemetry import collector_config
from nemo_gym.orchestration.plan.values import OtelPlan
from nemo_gym.orchestration.submit import staging
from nemo_runs.durable.journal import read_journal
from nemo_runs.processes import trees
from nemo_runs.secret_refs import Reference, SecretText

pytestmark = pytest.mark.e2e

WEIRD = "a  b's \"c\" $(touch pwned) `d`;\n'; echo pwned #\\"
CANARY = "canary-5f1d7a90c3"


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A place for jobs with nothing of this user's own."""
    for name in ("CACHE", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "xdg" / name.lower()))
    folder = tmp_path / "work"
    folder.mkdir()
    place = Workplace(folder)
    place.environ["NEMO_GYM_STOP_SECONDS"] = "2"
    yield place
    place.tidy()


@pytest.fixture
def bystander():
    """A process of somebody else: same user, no part of any job."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    yield process
    assert process.poll() is None, "a process that belongs to no job was ended"
    process.kill()
    process.wait()


def happened(job):
    """The names of the events of a job."""
    return [event["event"] for event in read_journal(JobPaths(job.job_dir).events)]


def run_config(job):
    """What the driver reads: the copy that was sealed."""
    return next(JobPaths(job.job_dir).sealed.glob("*/run.yaml"))


def result(job, name):
    """What a stand-in wrote."""
    return json.loads((JobPaths(job.job_dir).artifacts / name).read_text())


def words(job):
    """The first line of a job's end marker."""
    return JobPaths(job.job_dir).link(job.job_id).end.read_text().splitlines()[0].split()


def supervisor_of(workplace, job):
    return json.loads(JobPaths(job.job_dir).link(job.job_id).supervisor.read_text())["pid"]


def files_with(text, *folders, but=()):
    """Files below some folders that hold a text."""
    found = []
    for folder in folders:
        paths = (path for path in Path(folder).rglob("*") if path.is_file() and path not in but)
        found += [path for path in paths if text.encode() in path.read_bytes()]
    return found


class CommandLines:
    """Looks at the arguments of every process again and again."""

    def __init__(self):
        self.seen, self.looks = set(), 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.ended.wait(0.02):
            self.looks += 1
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(path.read_bytes())
                except OSError:
                    continue

    def holding(self, text):
        return [line for line in self.seen if text.encode() in line]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def test_a_job_in_a_folder_of_any_name_runs_services_then_driver_and_leaves_its_story(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / WEIRD
    folder.mkdir()
    place = Workplace(folder)
    model = "a 'b' \"c\": {d} $HOME"
    env = {"SHOWN": Reference("lit", WEIRD), "name": Reference("lit", "no local of the script")}
    plan = place.plan(
        driver="ask show", services=[service("policy", "key", model=model)], policy="policy", env=env
    )
    [job] = place.submit(plan)
    seen = place.wait(job)
    assert (seen.state, seen.reason, seen.exit_status) == (JobState.SUCCEEDED, "", 0), place.said(job)
    assert result(job, "answer.json")["model"] == model
    shown = result(job, "driver.json")
    base_url, name, policy = shown["argv"][4:]
    assert shown["argv"][:4] == ["eval", "run", "--config", str(run_config(job))]
    assert base_url.startswith('+policy_base_url="http://localhost:')
    assert (name, policy) == (f"+policy_model_name={json.dumps(model)}", '+policy_service_name="policy"')
    chain = f"{plan.gym_job_id}/arithmetic"
    assert shown["env"] == {
        "NEMO_GYM_CHAIN": chain,
        "NEMO_GYM_JOB_ID": "local-1",
        "NEMO_GYM_RESTART": "0",
        "SHOWN": WEIRD,
    }
    story = "queued job_started service_started service_healthy driver_started driver_ended job_ended"
    assert happened(job) == story.split()
    assert words(job) == ["ended", "0", "none"]
    paths = JobPaths(job.job_dir)
    assert sorted(path.name for path in paths.logs.iterdir()) == ["driver-local-1.log", "policy-local-1.log"]
    assert stat.S_IMODE(paths.script.stat().st_mode) == 0o600
    assert place.left(job) == []
    assert not list(tmp_path.rglob("pwned"))


def test_secrets_are_in_the_job_script_and_in_environments_and_nowhere_else(workplace, tmp_path):
    env = {"OWN_TOKEN": Reference("host", "A_TOKEN")}
    policy = service("policy", "key", env={"HF_TOKEN": Reference("host", "A_TOKEN")})
    plan = workplace.plan(
        driver="ask sleep=1 show",
        services=[policy],
        policy="policy",
        env=env,
        run={"judge": {"api_key": "host:B_SECRET"}},
        secrets={"A_TOKEN": SecretText(CANARY + "a"), "B_SECRET": SecretText(f"{CANARY}'b\n$x")},
    )
    with CommandLines() as lines:
        [job] = workplace.submit(plan)
        workplace.wait(job, JobState.RUNNING)
        serving = until(
            lambda: [event for event in read_journal(JobPaths(job.job_dir).events) if "port" in event]
        )
        environ = Path(f"/proc/{serving[0]['pid']}/environ")
        until(lambda: b"HF_TOKEN" in environ.read_bytes())
        variables = dict(item.split(b"=", 1) for item in environ.read_bytes().split(b"\0") if item)
        assert workplace.wait(job).state is JobState.SUCCEEDED, workplace.said(job)
    assert variables[b"HF_TOKEN"] == (CANARY + "a").encode()
    assert b"B_SECRET" not in variables
    assert result(job, "driver.json")["keys"] == ["B_SECRET", "OWN_TOKEN"]
    script = JobPaths(job.job_dir).script
    assert CANARY in script.read_text()
    assert files_with(CANARY, tmp_path, but=[script]) == []
    key = variables[b"NEMO_GYM_SERVICE_API_KEY"].decode()
    assert len(key) == 64
    assert variables[b"VLLM_API_KEY"].decode() == key
    assert files_with(key, tmp_path) == []
    assert lines.looks > 10
    assert lines.holding("job.sh")
    assert lines.holding(CANARY) + lines.holding(key) == []


def at_a_terminal():
    """The standard input becomes the controlling terminal; its end ends the process, also under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_job_outlives_the_terminal_it_was_submitted_from(workplace):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from tests.local_jobs import Workplace\n"
        "place = Workplace(Path(sys.argv[2]), gym_job_id=sys.argv[3])\n"
        "place.submit(place.plan(driver='sleep=1'))\n"
        "print('submitted', flush=True); import time; time.sleep(60)"
    )
    master, slave = pty.openpty()
    root = Path(__file__).parents[2]
    submitter = subprocess.Popen(
        [sys.executable, "-c", code, str(root), str(workplace.folder), workplace.gym_job_id],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=at_a_terminal,  # noqa: PLW1509 - one thread
    )
    os.close(slave)
    assert b"submitted" in os.read(master, 4096)
    plan = workplace.plan()
    job = until(
        lambda: [path for path in (plan.job_dir / "links").iterdir() if (path / "supervisor.json").exists()]
    )
    os.close(master)
    assert submitter.wait(60) == -signal.SIGHUP
    pid = json.loads((job[0] / "supervisor.json").read_text())["pid"]
    assert os.getsid(pid) == pid
    os.kill(pid, signal.SIGHUP)
    assert workplace.wait(JobRef("local-1", plan.job_dir)).state is JobState.SUCCEEDED


def test_walltime_drains_first_then_stops_and_everything_that_was_started_is_gone(
    workplace, bystander, tmp_path
):
    workplace.grace = 0.5
    drains = workplace.plan("drains", driver="until-drained show exit=75", walltime=3)
    number = tmp_path / "grandchild"
    stubborn = service("policy", "deaf", f"grandchild={number}")
    ignores = workplace.plan("ignores", driver="deaf", walltime=2, services=[stubborn])
    first, second = workplace.submit(drains, ignores)
    until(number.exists)
    escaped = trees.identify(int(until(number.read_text)))
    seen = workplace.wait(first)
    assert (seen.state, seen.exit_status) == (JobState.FAILED, 75)
    saved = "the driver saved what was done and left with work to do (exit status 75)"
    assert seen.reason == f"asked to stop (walltime); {saved}"
    assert words(first) == ["drained", "75", "walltime"]
    told = result(first, "driver.json")
    assert (told["asked"], told["drain"].strip()) == (["SIGUSR1"], "walltime")
    seen = workplace.wait(second)
    assert (seen.state, seen.reason) == (JobState.FAILED, "reached its time limit of 00:00:02")
    assert trees.liveness(escaped) is trees.Liveness.DEAD
    assert workplace.left(second) == []


def test_a_service_that_dies_before_it_is_ready_ends_the_wait_at_once_and_is_named(workplace):
    dying = service("judge one", "die-after=0.01", "status=3", health_timeout=600)
    slow = service("policy", shell="sleep 600", argv=None, health_timeout=600)
    [job] = workplace.submit(workplace.plan(services=[slow, dying]))
    seen = workplace.wait(job)
    log = JobPaths(job.job_dir).log("judge one", job.job_id)
    assert (seen.state, seen.exit_status) == (JobState.FAILED, 1)
    ended = "service 'judge one' ended with exit status 3 before it was ready"
    assert seen.reason == f"{ended}; its last lines are at the end of {log}"
    assert seen.reason in workplace.said(job)
    assert "driver_started" not in happened(job)
    assert workplace.left(job) == []


def test_the_reason_of_a_job_is_what_gym_itself_said_of_it(workplace):
    wrong = workplace.plan("wrong", services=[service("policy", model_name="other", health_timeout=2)])
    typo = workplace.plan("typo", services=[service("policy", shell="no-such-program", argv=None)])
    said = "echo 'gym: results: one is odd.'; echo 'gym: results are in here'; echo others; exit 3"
    told = workplace.plan("told", run=None, command=said)
    wrong, typo, told = workplace.submit(wrong, typo, told)
    assert "did not become healthy" in workplace.wait(wrong).reason
    assert ": /v1/models names '" in workplace.wait(wrong).reason
    assert "not 'other'; see " in workplace.wait(wrong).reason
    assert not list(JobPaths(wrong.job_dir).link(wrong.job_id).end.parent.glob("health-*"))
    assert "exit status 127 before it was ready: its command was not found; " in workplace.wait(typo).reason
    assert "ended with exit status 3: results: one is odd; see " in workplace.wait(told).reason


def test_a_service_that_dies_later_ends_the_job_after_the_driver_was_told(workplace, tmp_path):
    dying = service("policy", f"die-when={tmp_path / 'now'}", "status=9")
    plan = workplace.plan(driver="until-drained show exit=75", services=[dying], policy="policy")
    [job] = workplace.submit(plan)
    until(lambda: "driver_started" in happened(job))
    (tmp_path / "now").touch()
    seen = workplace.wait(job)
    assert (seen.state, seen.exit_status) == (JobState.FAILED, 1)
    assert "service 'policy' ended with exit status 9 while the driver ran" in seen.reason
    assert words(job) == ["service_died", "1", "none"]
    link = JobPaths(job.job_dir).link(job.job_id)
    assert link.service_died.read_text() == "policy 9\n"
    told = result(job, "driver.json")
    assert (told["asked"], told["drain"]) == (["SIGUSR1"], "service_died\n")
    assert happened(job)[-3:] == ["service_died", "driver_ended", "job_ended"]


def test_a_driver_that_does_not_stop_after_a_service_died_is_ended(workplace, tmp_path):
    workplace.environ |= {"NEMO_GYM_DRAIN_SECONDS": "0", "NEMO_GYM_STOP_SECONDS": "0"}
    workplace.grace = 0.3
    command = f"touch '{tmp_path}/now'; trap '' TERM; (setsid sleep 600 &); sleep 600 & wait"
    plan = workplace.plan(services=[service("policy", f"die-when={tmp_path}/now")], run=None, command=command)
    [job] = workplace.submit(plan)
    assert "service 'policy' ended" in workplace.wait(job).reason
    assert workplace.left(job) == []


def test_a_driver_that_fails_because_its_service_died_is_not_the_cause(workplace, tmp_path):
    port = "port=${NEMO_GYM_POLICY_BASE_URL##*:}; port=${port%/v1}"
    until_gone = 'while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done; exit 3'
    command = f"touch '{tmp_path}/now'\n{port}\n{until_gone}"
    dying = service("policy", f"die-when={tmp_path}/now", "status=9")
    [job] = workplace.submit(workplace.plan(services=[dying], policy="policy", run=None, command=command))
    seen = workplace.wait(job)
    assert seen.exit_status == 1
    assert "service 'policy' ended with exit status 9 while the driver ran" in seen.reason


def test_cancel_stops_the_driver_in_order_and_blames_no_service(workplace, bystander):
    plan = workplace.plan(driver="sleep=600 show exit=75", services=[service()], policy="policy")
    [job] = workplace.submit(plan)
    until(lambda: "driver_started" in happened(job))
    time.sleep(0.3)
    # as a scheduler does it: all steps at once, and the service is the quicker one to end
    serving = next(event for event in read_journal(JobPaths(job.job_dir).events) if "port" in event)
    os.kill(serving["pid"], signal.SIGTERM)
    time.sleep(0.05)
    workplace.executor.cancel([job])
    seen = workplace.wait(job)
    assert (seen.state, seen.reason) == (JobState.CANCELLED, "cancelled by a signal to its supervisor")
    assert result(job, "driver.json")["asked"] == ["SIGTERM"]
    assert words(job) == ["stopped", "75", "cancel"]
    assert "service_died" not in happened(job)
    assert workplace.left(job) == []
    workplace.executor.cancel([job])
    assert workplace.look(job) == seen


def test_one_job_runs_at_a_time_in_order_and_a_waiting_one_can_be_cancelled(workplace):
    plans = [workplace.plan(name, driver="sleep=0.4") for name in ("b", "a", "c", "d")]
    jobs = workplace.submit(*plans, max_parallel=1)
    assert [job.job_id for job in jobs] == ["local-1", "local-2", "local-3", "local-4"]
    workplace.wait(jobs[0], JobState.RUNNING)
    assert [workplace.look(job).state for job in jobs[1:]] == [JobState.QUEUED] * 3
    workplace.executor.cancel([jobs[2]])
    seen = workplace.wait(jobs[2])
    assert (seen.state, seen.reason, seen.started_at) == (
        JobState.CANCELLED,
        "cancelled before it had started",
        None,
    )
    ends = [workplace.wait(job) for job in (jobs[0], jobs[1], jobs[3])]
    assert [seen.state for seen in ends] == [JobState.SUCCEEDED] * 3
    events = [read_journal(JobPaths(job.job_dir).events) for job in (jobs[0], jobs[1], jobs[3])]
    began = [next(event["at"] for event in story if event["event"] == "job_started") for story in events]
    ended = [story[-1]["at"] for story in events]
    assert ended[0] <= began[1] < ended[1] <= began[2]
    assert happened(jobs[2]) == ["queued"]


def test_a_killed_supervisor_takes_its_job_along_and_is_told_as_a_failure(workplace, bystander, tmp_path):
    number = tmp_path / "grandchild"
    plan = workplace.plan(driver="deaf", services=[service("policy", "deaf", f"grandchild={number}")])
    waiting = workplace.plan("waiting", driver="exit=0")
    job, later = workplace.submit(plan, waiting, max_parallel=1)
    until(lambda: "driver_started" in happened(job))
    os.kill(supervisor_of(workplace, job), signal.SIGKILL)
    seen = workplace.wait(job)
    assert seen.state is JobState.FAILED
    assert "its supervisor was killed" in seen.reason
    until(lambda: not workplace.left(job), within=3.0)
    assert words(job) == ["abandoned", "1", "none"]
    assert workplace.wait(later).state is JobState.SUCCEEDED


def test_a_benchmark_that_cannot_be_queued_disturbs_no_other(workplace):
    plans = [workplace.plan(name) for name in ("first", "broken", "last")]
    submission = workplace.submission(*plans)
    staging.stage(submission)
    JobPaths(plans[1].job_dir).script.unlink()
    answers = workplace.executor.submit(submission)
    assert [(answer.benchmark, answer.job_id) for answer in answers] == [
        ("first", "local-1"),
        ("broken", None),
        ("last", "local-2"),
    ]
    assert str(JobPaths(plans[1].job_dir).script) in answers[1].error
    for plan, answer in ((plans[0], answers[0]), (plans[2], answers[2])):
        assert workplace.wait(JobRef(answer.job_id, plan.job_dir)).state is JobState.SUCCEEDED


def test_a_command_runs_in_place_of_the_driver_and_its_status_is_the_jobs(workplace):
    told = '"$NEMO_GYM_POLICY_MODEL_NAME" "$FROM" >"$NEMO_GYM_BENCH_DIR/artifacts/out"'
    command = f"printf '%s|%s' {told}\nfalse\nexit 9"
    workplace.environ["ON_THIS_MACHINE"] = "two  words"
    plan = workplace.plan(
        services=[service(pre_command="export X=1")],
        policy="policy",
        run=None,
        command=command,
        env={"FROM": Reference("runtime", "ON_THIS_MACHINE")},
    )
    [job] = workplace.submit(plan)
    seen = workplace.wait(job)
    assert (seen.state, seen.exit_status) == (JobState.FAILED, 1)
    assert (
        seen.reason
        == f"the driver ended with exit status 1; see {JobPaths(job.job_dir).log('driver', job.job_id)}"
    )
    assert (job.job_dir / "artifacts" / "out").read_text() == "tiny|two  words"


def test_data_is_prepared_before_any_service_starts_and_a_failure_ends_the_job(workplace):
    plans = [
        workplace.plan("good", prepare={"prepare_script_args": {"num_tasks": 3, "operators": ["+"]}}),
        workplace.plan("bad", prepare={}, services=[service()], env={"PREPARE": Reference("lit", "4")}),
        workplace.plan("unset", env={"X": Reference("runtime", "NOT_SET_ANYWHERE")}),
    ]
    good, bad, unset = workplace.submit(*plans)
    assert workplace.wait(good).state is JobState.SUCCEEDED
    assert result(good, "prepare.json") == [
        "--config",
        str(run_config(good)),
        "+prepare_script_args.num_tasks=3",
        '+prepare_script_args.operators=["+"]',
    ]
    seen = workplace.wait(bad)
    assert (seen.state, seen.exit_status) == (JobState.FAILED, 4)
    assert seen.reason == "prepare ended with exit status 4; see logs/prepare-local-2.log"
    assert "service_started" not in happened(bad)
    workplace.wait(unset)
    log = JobPaths(unset.job_dir).log("driver", unset.job_id).read_text()
    assert "driver: env.X is runtime:NOT_SET_ANYWHERE, but NOT_SET_ANYWHERE is not set on this machine" in log


def test_a_fixed_port_that_is_taken_is_an_error_that_names_its_holder(workplace):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        [job] = workplace.submit(workplace.plan(services=[service(port=port)]))
        assert workplace.wait(job).exit_status == 1
    holder = f"port {port} of service 'policy' is taken by process {os.getpid()} ("
    assert holder in workplace.said(job)


def test_vllm_is_started_with_its_arguments_and_the_port_that_was_chosen(workplace, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    vllm = programs / "vllm"
    vllm.write_text(
        f'#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done >"{tmp_path}/argv"\nmodel=$2\n'
        'while [ "$1" != --port ]; do shift; done\n'
        f'exec "{sys.executable}" -S "{STAND_INS / "serve.py"}" "$2" "$model" key\n'
    )
    vllm.chmod(0o755)
    workplace.environ["PATH"] = f"{programs}:{workplace.environ['PATH']}"
    argv = ["serve", "org/model", "--host", "127.0.0.1", "--port", "{port}", "--tensor-parallel-size", "1"]
    served = service(kind="vllm", argv=["vllm", *argv], model="org/model", pre_command=": ready")
    [job] = workplace.submit(workplace.plan(driver="ask", services=[served], policy="policy"))
    assert workplace.wait(job).state is JobState.SUCCEEDED, workplace.said(job)
    started = next(event for event in read_journal(JobPaths(job.job_dir).events) if "port" in event)
    wanted = [str(started["port"]) if word == "{port}" else word for word in argv]
    assert (tmp_path / "argv").read_text().splitlines() == wanted


def replica(number, *words, **changes):
    return service(
        f"policy-{number}", "key", *words, service="policy", replica=number, head=number, **changes
    )


def test_a_replica_that_ends_is_said_and_counted_and_the_others_go_on(workplace, tmp_path):
    seen = tmp_path / "seen"
    says = f'echo "$NEMO_GYM_REPLICA $CUDA_VISIBLE_DEVICES" >>"{seen}"; echo "$VLLM_PORT" >>"{seen}.ports"'
    shows = ["sh", "-c", f'{says}; exec "$@"', "sh"]
    first, second, third = (replica(number) for number in range(3))
    dies = [*(second.argv or []), f"die-when={tmp_path / 'now'}", "status=7"]
    services = [
        replica(0, argv=[*shows, *(first.argv or [])], first_gpu=0, gpus=2),
        replica(1, argv=[*shows, *dies], first_gpu=2, gpus=2),
        replica(2, argv=[*shows, *(third.argv or [])], first_gpu=4, gpus=2),
    ]
    workplace.environ["CUDA_VISIBLE_DEVICES"] = "8,9,a,b"
    plan = workplace.plan(driver="show until-drained ask exit=0", services=services, policy="policy")
    [job] = workplace.submit(plan)
    until(lambda: "driver_started" in happened(job))
    (tmp_path / "now").touch()
    until(lambda: "replica_lost" in happened(job))
    JobPaths(job.job_dir).link(job.job_id).drain.write_text("person ada\n")
    ended = workplace.wait(job)
    assert ended.exit_status == 0, workplace.said(job)
    assert sorted(seen.read_text().splitlines()) == ["0 8,9", "1 a,b", "2 "]
    assert len(set(Path(f"{seen}.ports").read_text().split())) == 3
    lost = [event for event in read_journal(JobPaths(job.job_dir).events) if event["event"] == "replica_lost"]
    assert [(event["service"], event["replica"], event["left"]) for event in lost] == [
        ("policy", "policy-1", 2)
    ]
    assert "replica 'policy-1' ended with exit status 7 while the driver ran" in workplace.said(job)
    assert "the other 2 of service 'policy' go on" in workplace.said(job)
    assert JobPaths(job.job_dir).link(job.job_id).replicas_lost.read_text().strip() == "1"
    url, others = result(job, "driver.json")["argv"][4], result(job, "driver.json")["argv"][-1]
    assert others.startswith('+policy_replica_urls=["http://localhost:')
    urls = [url.partition("=")[2].strip('"'), *json.loads(others.partition("=")[2])]
    assert len(set(urls)) == 3
    assert workplace.left(job) == []


def test_replicas_that_never_start_leave_the_run_to_the_others(workplace, tmp_path):
    dead = replica(1, argv=["sh", "-c", "exit 3"])
    slow = replica(2, argv=["sleep", "600"], health_timeout=1)
    plan = workplace.plan(driver="show ask", services=[replica(0), dead, slow], policy="policy")
    [job] = workplace.submit(plan)
    assert workplace.wait(job).state is JobState.SUCCEEDED, workplace.said(job)
    assert "replica 'policy-1' ended with exit status 3 before it was ready" in workplace.said(job)
    assert "replica 'policy-2' was given up before it was ready: service 'policy-2' did not become" in (
        workplace.said(job)
    )
    assert result(job, "driver.json")["argv"][-1] == '+policy_service_name="policy"'  # one is left
    assert happened(job).count("replica_lost") == 2
    assert workplace.left(job) == []


def test_a_job_ends_where_its_last_replica_does(workplace):
    gone = [replica(number, argv=["sh", "-c", f"exit {number + 3}"]) for number in range(2)]
    [job] = workplace.submit(workplace.plan(driver="show", services=gone, policy="policy"))
    ended = workplace.wait(job)
    assert (ended.state, ended.exit_status) == (JobState.FAILED, 1)
    assert "before it was ready" in ended.reason
    assert workplace.left(job) == []


def test_a_telemetry_collector_gets_its_token_by_inheritance_alone_and_stops_after_a_last_scrape(
    workplace, tmp_path
):
    token = CANARY + "-otel"
    workplace.environ["A_TOKEN"] = token
    binary = tmp_path / "otelcol"
    binary.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_INS / "otelcol.py"}" "$@"\n')
    binary.chmod(0o755)
    config = collector_config(
        endpoint="https://telemetry.example",
        token_env="A_TOKEN",
        service_name="evals",
        component="gym",
        services=["policy"],
        attributes={"benchmark": "arithmetic"},
        gpu_metrics_port=None,
        node_metrics_port=None,
        scrape_interval_seconds=1,
    )
    otel = OtelPlan(
        binary=str(binary),
        endpoint="https://telemetry.example",
        service_name="evals",
        token_env="A_TOKEN",
        config=config,
        health_check_timeout_seconds=10,
    )
    plan = workplace.plan(driver="ask show sleep=0.5", services=[service()], policy="policy", otel=otel)
    with CommandLines() as lines:
        [job] = workplace.submit(plan)
        assert workplace.wait(job).state is JobState.SUCCEEDED, workplace.said(job)
    signals = (job.job_dir / "otel" / "metrics.jsonl").read_text()
    started, scraped = map(json.loads, signals.splitlines())
    assert started["authorization"] == hashlib.sha256(f"Bearer {token}".encode()).hexdigest()
    assert scraped == {"event": "last scrape", "status": 200}
    assert result(job, "driver.json")["keys"] == []
    assert files_with(token, tmp_path) == []
    assert lines.holding(token) == []
    assert JobPaths(job.job_dir).log("otel_collector", job.job_id).exists()
    assert workplace.left(job) == []


def real(workplace, tmp_path, tasks, *words):
    """A job in which the real collector asks a stand-in server, two rollouts at a time."""
    rows = [{"question": f"What is {number} + 1?", "expected_answer": "12"} for number in range(tasks)]
    data = tmp_path / "sums.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark = {
        "name": "sums",
        "datasets": {"benchmark": {"jsonl_fpath": str(data)}},
        "prompt": {"user": "{question}"},
        "verifier": {"type": "match", "mode": "numeric"},
    }
    run = {
        "benchmark": benchmark,
        "policy_api_key": "host:NEMO_GYM_POLICY_API_KEY",
        "num_samples_in_parallel": 2,
    }
    output = JobPaths(workplace.plan().job_dir).rollouts.output
    return workplace.plan(
        services=[service("policy", "key", *words)],
        policy="policy",
        run={**run, "num_samples_in_parallel": 2, "output_jsonl_fpath": str(output)},
        gym=Path(sys.executable).parent / "gym",
    )


def test_the_real_collector_measures_the_service_of_its_job(workplace, tmp_path):
    [job] = workplace.submit(real(workplace, tmp_path, 6))
    seen = workplace.wait(job)
    log = JobPaths(job.job_dir).log("driver", job.job_id)
    assert seen.state is JobState.SUCCEEDED, log.read_text()
    rows = [json.loads(line) for line in JobPaths(job.job_dir).rollouts.output.read_text().splitlines()]
    assert sorted(row["_ng_task_index"] for row in rows) == list(range(6))
    assert {row["reward"] for row in rows} == {1.0}


def test_a_service_of_the_job_judges_with_the_key_of_the_job(workplace, tmp_path):
    plan = real(workplace, tmp_path, 4)
    judging = {"type": "judge", "prompt": "{answer}", "pattern": "([0-9]+)", "low": 0, "high": 24}
    run = {**plan.run, "benchmark": {**plan.run["benchmark"], "verifier": judging}}
    run["judge_models"] = {"judge": {"service": "grader", "model": "big"}}
    services = [*plan.services, service("grader", "key", model="big")]
    [job] = workplace.submit(replace(plan, run=run, services=services))
    seen = workplace.wait(job)
    log = JobPaths(job.job_dir).log("driver", job.job_id)
    assert seen.state is JobState.SUCCEEDED, log.read_text()
    rows = [json.loads(line) for line in JobPaths(job.job_dir).rollouts.output.read_text().splitlines()]
    assert [row["reward"] for row in rows] == [0.5] * 4
    assert {row["_ng_judges"]["judge"]["requests"] for row in rows} == {1}


def test_a_service_that_dies_under_the_real_collector_costs_no_attempt_and_no_result(workplace, tmp_path):
    dies = tmp_path / "now"
    [job] = workplace.submit(real(workplace, tmp_path, 400, "delay=0.1", f"die-when={dies}"))
    paths = JobPaths(job.job_dir).rollouts
    until(lambda: paths.output.exists() and paths.output.read_bytes().count(b"\n") >= 4)
    dies.touch()
    seen = workplace.wait(job)
    assert (seen.state, seen.exit_status) == (JobState.FAILED, 1)
    assert "service 'policy' ended with exit status 1 while the driver ran" in seen.reason
    story = read_journal(JobPaths(job.job_dir).events)
    ended = next(event for event in story if event["event"] == "driver_ended")
    log = JobPaths(job.job_dir).log("driver", job.job_id).read_text()
    assert ended["status"] == 75, log
    rows = [json.loads(line) for line in paths.output.read_text().splitlines()]
    assert {row["reward"] for row in rows} == {1.0}
    failures = [json.loads(line) for line in paths.failures.read_text().splitlines()]
    assert {failure["_ng_failure_counted"] for failure in failures} <= {False}, log


def test_a_service_finds_the_jobs_own_gym_wherever_it_was_submitted_from(workplace):
    workplace.environ["PATH"] = "/usr/bin:/bin"
    workplace.environ["NEMO_GYM_EXTRA_ROOTS"] = str(workplace.folder)
    plan = workplace.plan(command='command -v gym; echo "roots=${NEMO_GYM_EXTRA_ROOTS-none}"')
    job = workplace.submit(plan)[0]
    assert workplace.wait(job).state is JobState.SUCCEEDED
    said = JobPaths(job.job_dir).log("driver", job.job_id).read_text().splitlines()
    assert said == [str(workplace.gym), "roots=none"]
