"""The executor that runs steps as processes: what the contract suite cannot ask of every executor."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.helix_workplace import run_named

from nemo_helix_server.errors import StoreError
from nemo_helix_server.executors import launcher, options
from nemo_helix_server.executors.base import Admitted, CapacityRequest, Launch, ResourceNeeds, RunState
from nemo_helix_server.executors.capacity import LeasedCapacity, UnlimitedCapacity
from nemo_helix_server.executors.subprocesses import ProcessExecutor
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_runs.leases import machine_leases
from nemo_runs.processes import trees
from nemo_runs.secret_refs import SecretText

pytestmark = pytest.mark.e2e
TIMEOUT = 90.0
FOLDERS = {}
"""The folder of each run that a test has made, by its token."""


@pytest.fixture
def executor(tmp_path):
    executor = ProcessExecutor(JobStorage(tmp_path), tmp_path / "executor", UnlimitedCapacity())
    yield executor
    executor.close()


def new_run(tmp_path):
    token = f"task-{secrets.token_hex(16)}"
    run = run_named(token)
    FOLDERS[token] = JobStorage(tmp_path).run_folder(run)
    folder_of(run).mkdir(parents=True)
    return run


def folder_of(run):
    return FOLDERS[run.token]


def start(executor, tmp_path, *argv, **changes):
    run = new_run(tmp_path)
    environment = {"PATH": os.environ["PATH"], "FOLDER": str(folder_of(run))}
    executor.start(run, Launch(argv=argv, environment=environment, working_directory=tmp_path, **changes))
    return run


def shell(executor, tmp_path, script, **changes):
    return start(executor, tmp_path, "/bin/sh", "-c", script, **changes)


def wait_for(look):
    deadline = time.monotonic() + TIMEOUT
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def until(executor, run, *states):
    def look():
        seen = executor.observe([run])[run.token]
        return seen if seen.state in states else None

    return wait_for(look)


def over(executor, run):
    return until(executor, run, RunState.EXITED, RunState.LOST)


def said(run):
    return [json.loads(line)["m"] for line in (folder_of(run) / "output.jsonl").read_text().splitlines()]


def pid_from(run, name):
    path = folder_of(run) / name
    wait_for(lambda: path.exists() and path.read_text().strip())
    return int(path.read_text())


def is_gone(pid):
    return not os.path.exists(f"/proc/{pid}") or trees.process_table.read_entry(pid).ended


def shim_of(run):
    return run_files.read_claim(folder_of(run)).identity.pid


def test_a_command_that_is_not_there_ends_with_127_and_says_so(executor, tmp_path):
    seen = over(executor, start(executor, tmp_path, "/no/such/program"))
    assert (seen.exit_status, seen.reason) == (
        127,
        "could not be started: /no/such/program: No such file or directory",
    )


def test_a_program_that_is_there_is_not_said_to_be_missing(executor, tmp_path):
    seen = over(executor, start(executor, tmp_path, "/bin/sh", "-c", f"true {'x' * 200_000}"))
    assert (seen.exit_status, seen.reason) == (127, "could not begin: /bin/sh: Argument list too long")


def test_nothing_outlives_a_step_not_even_what_forked_twice_into_a_session_of_its_own(executor, tmp_path):
    script = (
        '(setsid sh -c "echo \\$\\$ >$FOLDER/pid; exec sleep 600" &) ; until [ -s $FOLDER/pid ]; do :; done'
    )
    run = shell(executor, tmp_path, script, grace_seconds=0.2)
    assert over(executor, run).exit_status == 0
    assert is_gone(pid_from(run, "pid"))


def test_a_stray_that_ignores_the_request_to_end_is_killed(executor, tmp_path):
    script = "trap '' TERM; echo $$ >$FOLDER/pid; while :; do sleep 0.05; done"
    run = shell(executor, tmp_path, script)
    pid = pid_from(run, "pid")
    executor.stop(run, grace_seconds=0.2)
    seen = over(executor, run)
    assert (seen.stopped, seen.signal) == (True, signal.SIGKILL)
    assert is_gone(pid)


def test_a_run_whose_shim_was_killed_is_lost_and_nothing_of_it_goes_on(executor, tmp_path):
    script = (
        '(setsid sh -c "echo \\$\\$ >$FOLDER/stray; exec sleep 600" &) ; echo $$ >$FOLDER/pid; exec sleep 600'
    )
    run = shell(executor, tmp_path, script)
    pids = [pid_from(run, "pid"), pid_from(run, "stray")]
    os.kill(shim_of(run), signal.SIGKILL)
    seen = until(executor, run, RunState.LOST)
    assert seen.exit_status is None
    assert not seen.never_started
    wait_for(lambda: all(map(is_gone, pids)))


def test_kill_ends_a_run_whose_shim_does_not_answer(executor, tmp_path):
    run = shell(executor, tmp_path, "echo $$ >$FOLDER/pid; exec sleep 600")
    pid = pid_from(run, "pid")
    os.kill(shim_of(run), signal.SIGSTOP)
    executor.stop(run, grace_seconds=0)
    executor.kill(run)
    until(executor, run, RunState.LOST)
    wait_for(lambda: is_gone(pid))


def test_runs_go_on_when_the_process_that_starts_them_is_killed_and_others_can_be_started(executor, tmp_path):
    run = shell(executor, tmp_path, "until [ -e $FOLDER/end ]; do sleep 0.02; done; exit 5")
    os.kill(executor._launcher._link._process.pid, signal.SIGKILL)
    executor._launcher._link._process.wait(30)
    other = shell(executor, tmp_path, "exit 6")
    (folder_of(run) / "end").touch()
    assert over(executor, run).exit_status == 5
    assert over(executor, other).exit_status == 6


def test_a_secret_reaches_the_step_alone_and_is_in_no_file_argument_or_line(executor, tmp_path):
    value = "hunter2-" + secrets.token_hex(8)
    script = 'echo "got $PASSWORD"; until [ -e $FOLDER/end ]; do sleep 0.02; done'
    run = shell(executor, tmp_path, script, secrets={"PASSWORD": SecretText(value)})
    until(executor, run, RunState.RUNNING)
    shim = shim_of(run)
    command = run_files.read_started(folder_of(run))[0].pid
    for pid in (shim, command, executor._launcher._link._process.pid):
        assert value.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert value.encode() not in Path(f"/proc/{shim}/environ").read_bytes()
    (folder_of(run) / "end").touch()
    assert over(executor, run).exit_status == 0
    assert said(run) == ["got ***"]
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or value.encode() not in path.read_bytes()


def test_a_step_sees_the_environment_that_it_was_given_and_no_other(executor, tmp_path, monkeypatch):
    monkeypatch.setenv("NOT_FOR_STEPS", "1")
    run = start(executor, tmp_path, "/usr/bin/env", devices=("GPU-1", "GPU-2"))
    over(executor, run)
    names = {line.partition("=")[0] for line in said(run)}
    assert names - {"_", "PWD", "SHLVL", "LC_CTYPE"} == {
        "PATH",
        "FOLDER",
        "CUDA_VISIBLE_DEVICES",
        "NEMO_JOB_TASK",
    }
    assert "CUDA_VISIBLE_DEVICES=GPU-1,GPU-2" in said(run)


def test_more_memory_than_allowed_ends_the_whole_step_and_is_told(executor, tmp_path):
    script = "x = [bytearray(16 << 20) for _ in range(60)]\nimport time\ntime.sleep(600)"
    run = start(executor, tmp_path, sys.executable, "-c", script, memory_bytes=200 << 20)
    seen = over(executor, run)
    assert (seen.out_of_memory, seen.signal) == (True, signal.SIGKILL)
    assert "its limit is 200 MiB" in seen.reason


def test_the_time_limit_holds_without_the_service(executor, tmp_path):
    run = shell(executor, tmp_path, "exec sleep 600", time_limit_seconds=0.3, grace_seconds=0.2)
    seen = over(executor, run)
    assert (seen.timed_out, seen.stopped) == (True, False)


def test_an_end_is_told_at_once(executor, tmp_path):
    """A listener is woken; it need not poll."""
    import select

    options.drain(executor.descriptors())
    run = shell(executor, tmp_path, "exit 0")
    while executor.observe([run])[run.token].state is not RunState.EXITED:
        assert select.select(executor.descriptors(), [], [], TIMEOUT)[0]
        options.drain(executor.descriptors())


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b'{"exit_status": 0}', b"\xff\x00", b"null"])
def test_a_damaged_record_of_the_end_is_not_believed(executor, tmp_path, garbage):
    run = shell(executor, tmp_path, "exit 0")
    over(executor, run)
    (folder_of(run) / run_files.EXIT).write_bytes(garbage)
    until(executor, run, RunState.LOST)


@pytest.mark.parametrize(
    "garbage", [b"", b"{", b"[]", b'{"identity": 1, "at": 2}', b'{"identity": {}, "at": 2}']
)
def test_a_damaged_claim_never_starts_again(executor, tmp_path, garbage):
    run = new_run(tmp_path)
    (folder_of(run) / run_files.CLAIM).write_bytes(garbage)
    assert executor.observe([run])[run.token].state is RunState.LOST


def claimed_by(run, **changes):
    import dataclasses

    identity = dataclasses.replace(trees.identify(), **changes)
    assert run_files.make_claim(folder_of(run), run_files.RunClaim(identity, time.time()))


def test_a_number_alone_never_names_a_shim(executor, tmp_path):
    """This process has the number in the claim, but started at another time: it is a stranger."""
    run = new_run(tmp_path)
    claimed_by(run, start_time=trees.identify().start_time - 1)
    assert executor.observe([run])[run.token].state is RunState.LOST
    executor.stop(run, grace_seconds=0)
    executor.kill(run)


def test_a_run_of_an_earlier_boot_is_lost_to_the_restart(executor, tmp_path):
    run = new_run(tmp_path)
    claimed_by(run, boot_id="another-boot")
    seen = executor.observe([run])[run.token]
    assert (seen.state, seen.interrupted) == (RunState.LOST, "the machine was restarted")


def test_a_run_of_another_host_is_not_judged(executor, tmp_path):
    run = new_run(tmp_path)
    claimed_by(run, host="elsewhere.example", boot_id="another-boot")
    assert executor.observe([run])[run.token].state is RunState.UNKNOWN


def test_a_lease_is_held_by_the_shim_and_survives_the_service(tmp_path):
    place = tmp_path / "leases"
    pool = machine_leases.Pool(place, ("0",), 1)
    executor = ProcessExecutor(JobStorage(tmp_path), tmp_path / "executor", LeasedCapacity(pool, place))
    run = new_run(tmp_path)
    assert executor.admit(CapacityRequest(run, "w/job", "w", ResourceNeeds(gpus=1), 0, (1.0, 0))) == Admitted(
        ("0",), 0
    )
    executor.start(run, Launch(argv=("sleep", "600"), environment={"PATH": os.environ["PATH"]}))
    until(executor, run, RunState.RUNNING)
    (holder,) = pool.holders()
    assert (holder.name, holder.identity.pid) == (run.token, shim_of(run))
    executor.stop(run, grace_seconds=5)
    over(executor, run)
    wait_for(lambda: not pool.holders())
    executor.close()


SERVICE = """
import os, sys, threading, time
from pathlib import Path
from nemo_helix_server.executors.base import Launch
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.run_files import StepRun
from nemo_helix_server.executors.capacity import UnlimitedCapacity
from nemo_helix_server.executors.subprocesses import ProcessExecutor
folder, token, delay = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
jobs = JobStorage(folder)
executor = ProcessExecutor(jobs, folder / "executor", UnlimitedCapacity())
executor.warm()
time.sleep(0.3)
threading.Timer(delay, lambda: os.kill(os.getpid(), 9)).start()
run = StepRun("default", "job-1", "attempt-1", "main", token)
place = {"FOLDER": str(jobs.run_folder(run))}
executor.start(run, Launch(("/bin/sh", "-c", "echo x >>$FOLDER/runs; exit 3"), place))
time.sleep(60)
"""


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.003, 0.006, 0.012, 0.03])
def test_a_start_whose_caller_was_killed_in_it_happens_once_when_it_is_made_again(executor, tmp_path, delay):
    run = new_run(tmp_path)
    argv = [sys.executable, "-c", SERVICE, str(tmp_path), run.token, str(delay)]
    assert subprocess.run(argv, check=False, timeout=TIMEOUT).returncode == -signal.SIGKILL
    launch = Launch(("/bin/sh", "-c", "echo x >>$FOLDER/runs; exit 3"), {"FOLDER": str(folder_of(run))})
    if executor.observe([run])[run.token].state is RunState.ABSENT:
        from contextlib import suppress

        from nemo_helix_server.executors.base import AlreadyStartedError

        with suppress(AlreadyStartedError):
            executor.start(run, launch)
    assert over(executor, run).exit_status == 3
    assert (folder_of(run) / "runs").read_text() == "x\n"


def test_a_shim_loads_without_any_installed_package():
    source = Path(launcher.__file__).parents[2]
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from nemo_helix_server.executors import launcher; "
        "files = [getattr(module, '__file__', None) or '' for module in list(sys.modules.values())]; "
        "print([file for file in files if 'site-packages' in file])"
    )
    argv = [sys.executable, "-I", "-S", "-c", program, str(source)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=TIMEOUT)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("taken", "said"), [("executor", "must be a folder"), ("executor/wake", "must be a named pipe")]
)
def test_what_is_in_the_place_of_the_executors_folder_or_pipe_is_named_and_left_alone(tmp_path, taken, said):
    path = tmp_path / taken
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    with pytest.raises(StoreError, match=f"{path} {said}, and something else is there; move it away"):
        ProcessExecutor(JobStorage(tmp_path), tmp_path / "executor", UnlimitedCapacity())
    assert path.read_text() == "mine"


def test_a_command_that_is_over_at_once_leaves_its_output_and_its_end(executor, tmp_path):
    run = shell(executor, tmp_path, "echo one; echo two >&2; exit 3")
    seen = over(executor, run)
    assert (seen.exit_status, seen.stopped, sorted(said(run))) == (3, False, ["one", "two"])
    assert seen.started_at <= seen.ended_at


def test_a_command_that_is_over_at_once_and_left_somebody_behind_is_not_over_before_that_one_is(
    executor, tmp_path
):
    run = shell(executor, tmp_path, "(echo $$ >$FOLDER/pid; exec sleep 600) & echo left", grace_seconds=0.1)
    assert over(executor, run).exit_status == 0
    assert said(run) == ["left"]
    assert is_gone(pid_from(run, "pid"))
