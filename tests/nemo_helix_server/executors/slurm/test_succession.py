"""An allocation queues its successor, and the successor judges whether to run."""

import json
import os
import stat

import pytest

from nemo_helix_server.executors.slurm import folders, succession
from nemo_helix_server.executors.slurm.succession import Predecessor, verdict
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.run_files import next_token
from nemo_trainer import contract

TOKEN = "task-" + "a" * 32
CHAIN = {"left": 3, "number": 1, "idle": 0, "newest": 0, "most_idle": 1}


def end(status=0, **more):
    values = {"exit_status": status, "signal": 0, "started_at": 1.0, "ended_at": 2.0, "out_of_memory": False}
    values |= {"timed_out": False, "stopped": False, "reason": f"exited with status {status}"}
    return run_files.ExitRecord(**{**values, **more})


@pytest.mark.parametrize(
    ("before", "goes_on"),
    [
        (Predecessor(end=end(75)), True),
        (Predecessor(end=end(143, signal=15, stopped=True)), True),
        (Predecessor(state="TIMEOUT"), True),
        (Predecessor(state="PREEMPTED"), True),
        (Predecessor(state="NODE_FAIL"), True),
        (Predecessor(end=end(137, signal=9), state="NODE_FAIL"), True),
        (Predecessor(end=end(137, signal=9), state="OUT_OF_MEMORY"), False),
        (Predecessor(end=end(1)), False),
        (Predecessor(end=end(1), state="TIMEOUT"), False),
        (Predecessor(end=end(0)), False),
        (Predecessor(state="CANCELLED by 1000"), False),
        (Predecessor(state="OUT_OF_MEMORY"), False),
        (Predecessor(state=""), False),
        (Predecessor(end=end(75), pause_wanted=True), False),
        (Predecessor(end=end(75), stop_asked=True), False),
        (Predecessor(state="NODE_FAIL", pause_wanted=True), False),
    ],
)
def test_only_a_place_that_was_taken_away_is_followed_by_another_one(before, goes_on):
    assert (verdict(before, CHAIN, 10) is None) is goes_on


def test_two_allocations_in_a_row_without_a_newer_checkpoint_are_the_last():
    taken = Predecessor(state="TIMEOUT")
    assert verdict(taken, {**CHAIN, "newest": 7, "idle": 0}, 7) is None
    assert "no newer checkpoint" in verdict(taken, {**CHAIN, "newest": 7, "idle": 1}, 7)
    assert verdict(taken, {**CHAIN, "newest": 7, "idle": 1}, 8) is None


def test_the_token_of_a_successor_follows_from_the_one_before():
    assert next_token(TOKEN) == next_token(TOKEN)
    assert len({TOKEN, next_token(TOKEN), next_token(next_token(TOKEN))}) == 3
    assert len(next_token(TOKEN)) == len(TOKEN)


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "jobs" / "j" / "runs" / TOKEN
    (folder / "config").mkdir(parents=True)
    order = {
        "token": TOKEN,
        "argv": ["python"],
        "environment": {"NEMO_JOB_TASK": TOKEN, "NEMO_JOB_CONTROL_FILE": f"{folder}/control.json"},
        "chain": CHAIN,
    }
    (folder / folders.ORDER).write_text(json.dumps(order))
    (folder / folders.SCRIPT).write_text(f"#!/bin/bash\n#SBATCH --chdir={folder}\n")
    (folder / folders.SECRETS).write_text('{"KEY": "value"}')
    (folder / "config" / run_files.CONFIG_FILE).write_text("{}")
    return folder


@pytest.fixture
def scheduler(tmp_path, monkeypatch):
    """A folder of programs: each notes its words, and prints a file."""
    place = tmp_path / "bin"
    place.mkdir()
    for name, said in {"sbatch": "4711\n", "squeue": f"site {next_token(TOKEN)}\n", "scancel": ""}.items():
        (place / f"{name}.out").write_text(said)
        program = place / name
        program.write_text(
            f'#!/bin/sh\necho "$0 $*" >>{place}/calls\nenv >{place}/{name}.env\ncat {place}/{name}.out\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    return place


def environ(scheduler):
    return {
        "PATH": f"{scheduler}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "99",
        "SLURM_MEM_PER_NODE": "1",
        "SLURM_CONF": "/c",
    }


def order_of(folder):
    return json.loads((folder / folders.ORDER).read_text())


def test_a_successor_is_queued_once_with_everything_that_it_reads(run, scheduler):
    for _ in range(2):
        succession.queue(run, order_of(run), 5, environ(scheduler))
    after = run.parent / next_token(TOKEN)
    calls = (scheduler / "calls").read_text().splitlines()
    assert len(calls) == 1
    assert f"--comment={after.name} --dependency=afternotok:99 -- {after}/job.sh" in calls[0]
    said = (scheduler / "sbatch.env").read_text()
    assert "SLURM_CONF=/c" in said
    assert "SLURM_MEM_PER_NODE" not in said
    order = order_of(after)
    assert (order["token"], order["predecessor"]) == (after.name, TOKEN)
    assert order["environment"] == {
        "NEMO_JOB_TASK": after.name,
        "NEMO_JOB_CONTROL_FILE": f"{after}/control.json",
    }
    assert order["chain"] == {**CHAIN, "left": 2, "number": 2, "newest": 5}
    assert str(after) in (after / folders.SCRIPT).read_text()
    assert (after / folders.SECRETS).stat().st_mode & 0o777 == 0o600
    assert json.loads((after / folders.QUEUED).read_text())["job_id"] == "4711"


def test_an_allocation_without_budget_queues_none(run, scheduler):
    succession.queue(run, {**order_of(run), "chain": {**CHAIN, "left": 0}}, 5, environ(scheduler))
    succession.queue(run, {**order_of(run), "chain": None}, 5, environ(scheduler))
    assert not (scheduler / "calls").exists()


@pytest.mark.parametrize("said", ["", "12\n34\n", "queued!\n"])
def test_a_reply_that_names_no_single_job_is_said_and_ends_nothing(run, scheduler, capsys, said):
    (scheduler / "sbatch.out").write_text(said)
    succession.queue(run, order_of(run), 5, environ(scheduler))
    assert "its successor is not queued" in capsys.readouterr().err
    assert not (run.parent / next_token(TOKEN) / folders.QUEUED).exists()


def test_a_successor_that_is_not_needed_never_starts_and_its_job_is_cancelled(run, scheduler):
    succession.queue(run, order_of(run), 5, environ(scheduler))
    succession.give_up_successor(run, order_of(run))
    after = run.parent / next_token(TOKEN)
    assert run_files.read_claim(after).identity is None
    assert not (after / folders.SECRETS).exists()
    assert (scheduler / "calls").read_text().splitlines()[-1].endswith("scancel 4711")


def test_a_job_that_does_not_carry_the_token_is_left_alone(run, scheduler):
    succession.queue(run, order_of(run), 5, environ(scheduler))
    (scheduler / "squeue.out").write_text("somebody else's\n")
    succession.give_up_successor(run, order_of(run))
    assert "scancel" not in (scheduler / "calls").read_text()


def test_a_pause_is_honoured_by_the_successor_too(run):
    (run.parent / next_token(TOKEN)).mkdir()
    contract.write_control(run / run_files.CONTROL, contract.Control(1, "pause", "ann", 1.0))
    order = {**order_of(run), "token": next_token(TOKEN), "predecessor": TOKEN}
    assert succession.judge(run.parent / next_token(TOKEN), order, 9) == "its job is paused"
