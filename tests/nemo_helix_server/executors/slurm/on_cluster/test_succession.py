"""An allocation queues its successor, and the successor judges whether to run."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from nemo_helix_server.executors.slurm.on_cluster import folders, succession
from nemo_helix_server.executors.slurm.on_cluster.succession import (
    Fence,
    LateStartError,
    Predecessor,
    verdict,
)
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.run_files import next_token
from nemo_trainer import contract
from nemo_trainer.contract import generations

TOKEN = "task-" + "a" * 32
FREE = Fence(Path("/nowhere"), 0)
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
        (Predecessor(end=end(1), state="NODE_FAIL"), True),
        (Predecessor(end=end(5), state="NODE_FAIL"), False),
        (Predecessor(end=end(1, disk_full=True), state="NODE_FAIL"), False),
        (Predecessor(end=end(137, signal=9), state="OUT_OF_MEMORY"), False),
        (Predecessor(end=end(1)), False),
        (Predecessor(end=end(1), state="TIMEOUT"), False),
        (Predecessor(end=end(0)), False),
        (Predecessor(state="CANCELLED by 1000"), False),
        (Predecessor(end=end(75, stopped=True), state="CANCELLED by 1000"), True),
        (Predecessor(end=end(137, signal=9, stopped=True), state="CANCELLED by 1000"), True),
        (Predecessor(end=end(137, signal=9), state="CANCELLED by 1000"), False),
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
        "trainer": str(tmp_path / "jobs" / "j" / "storage" / "training"),
        "start": 3,
        "goes_on": True,
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
        succession.queue(run, order_of(run), 5, FREE, environ(scheduler))
    after = run.parent / next_token(TOKEN)
    calls = (scheduler / "calls").read_text().splitlines()
    assert [call.split()[0].rpartition("/")[2] for call in calls] == ["squeue", "sbatch"]
    assert f"--comment={after.name} --dependency=afternotok:99 -- {after}/job.sh" in calls[1]
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
    assert order["start"] == 4
    assert str(after) in (after / folders.SCRIPT).read_text()
    assert (after / folders.SECRETS).stat().st_mode & 0o777 == 0o600
    assert json.loads((after / folders.QUEUED).read_text())["job_id"] == "4711"


def test_an_allocation_without_budget_queues_none(run, scheduler):
    succession.queue(run, {**order_of(run), "chain": {**CHAIN, "left": 0}}, 5, FREE, environ(scheduler))
    succession.queue(run, {**order_of(run), "chain": None}, 5, FREE, environ(scheduler))
    assert not (scheduler / "calls").exists()


@pytest.mark.parametrize("said", ["", "12\n34\n", "queued!\n"])
def test_a_reply_that_names_no_single_job_is_said_and_ends_nothing(run, scheduler, capsys, said):
    (scheduler / "sbatch.out").write_text(said)
    succession.queue(run, order_of(run), 5, FREE, environ(scheduler))
    assert "its successor is not queued" in capsys.readouterr().err
    assert not (run.parent / next_token(TOKEN) / folders.QUEUED).exists()


def test_a_successor_that_is_not_needed_never_starts_and_its_job_is_cancelled(run, scheduler):
    succession.queue(run, order_of(run), 5, FREE, environ(scheduler))
    succession.give_up_successor(run, order_of(run), FREE)
    after = run.parent / next_token(TOKEN)
    assert run_files.read_claim(after).identity is None
    assert not (after / folders.SECRETS).exists()
    assert (scheduler / "calls").read_text().splitlines()[-1].endswith("scancel 4711")


def test_a_job_that_does_not_carry_the_token_is_left_alone(run, scheduler):
    succession.queue(run, order_of(run), 5, FREE, environ(scheduler))
    (scheduler / "squeue.out").write_text("somebody else's\n")
    succession.give_up_successor(run, order_of(run), FREE)
    assert "scancel" not in (scheduler / "calls").read_text()


@pytest.mark.parametrize(
    ("ended", "nodes", "final"),
    [
        (end(1), 1, True),
        (end(1), 2, False),
        (end(5), 2, True),
        (end(0), 2, True),
        (end(137, signal=9), 2, True),
        (end(143, signal=15, stopped=True), 1, False),
        (end(75), 1, False),
    ],
)
def test_a_successor_is_kept_until_it_is_known_whether_one_of_several_nodes_failed(run, ended, nodes, final):
    assert succession.is_final(ended, run, nodes) is final
    run_files.write_stop(run, run_files.StopRequest(5, False))
    assert succession.is_final(ended, run, nodes)


def test_a_pause_is_honoured_by_the_successor_too(run):
    (run.parent / next_token(TOKEN)).mkdir()
    contract.write_control(run / run_files.CONTROL, contract.Control(1, "pause", "ann", 1.0))
    order = {**order_of(run), "token": next_token(TOKEN), "predecessor": TOKEN}
    assert succession.judge(run.parent / next_token(TOKEN), order, 9) == "its job is paused"


def test_a_job_whose_reply_was_lost_is_found_by_its_token_and_no_second_one_is_queued(run, scheduler):
    (scheduler / "squeue.out").write_text(f"17 task-other\n18 site {next_token(TOKEN)}\n")
    succession.queue(run, order_of(run), 5, FREE, environ(scheduler))
    assert "sbatch" not in (scheduler / "calls").read_text()
    assert json.loads((run.parent / next_token(TOKEN) / folders.QUEUED).read_text())["job_id"] == "18"


def test_what_the_service_has_ordered_meanwhile_stays_as_it_is(run, scheduler):
    after = run.parent / next_token(TOKEN)
    after.mkdir()
    (after / folders.ORDER).write_text('{"start": 9}')
    succession.queue(run, order_of(run), 5, FREE, environ(scheduler))
    assert order_of(after) == {"start": 9}


@pytest.fixture
def trainer(run):
    folder = Path(order_of(run)["trainer"])
    folder.mkdir(parents=True)
    return folder


def another(run, number):
    """A start of the same job that was ordered as the so-manieth."""
    folder = run.parent / f"task-{number:032x}"
    folder.mkdir()
    (folder / folders.ORDER).write_text(json.dumps({**order_of(run), "token": folder.name, "start": number}))
    return folder


def test_a_start_claims_the_step_for_itself_and_every_earlier_one_loses_it(run, trainer):
    before = another(run, 2)
    old = succession.claim_generation(before, order_of(before), "job 1")
    assert old.holds()
    new = succession.claim_generation(run, order_of(run), "job 2")
    assert (old.holds(), new.holds(), new.number) == (False, True, 2)
    assert generations.newest(trainer).task == TOKEN
    assert generations.newest(trainer).by == "job 2"


@pytest.mark.parametrize("number", [3, 4, 70])
def test_a_start_that_comes_late_claims_nothing(run, trainer, number):
    later = another(run, number)
    fence = succession.claim_generation(later, order_of(later), "job 2")
    with pytest.raises(LateStartError, match=later.name):
        succession.claim_generation(run, order_of(run), "job 1")
    assert fence.holds()


def test_a_later_start_that_comes_between_the_look_and_the_claim_is_seen(run, trainer, monkeypatch):
    later = another(run, 4)
    create = generations._create

    def overtaken(place, data):
        monkeypatch.setattr(generations, "_create", create)
        succession.claim_generation(later, order_of(later), "job 2")
        create(place, data)

    monkeypatch.setattr(generations, "_create", overtaken)
    with pytest.raises(LateStartError):
        succession.claim_generation(run, order_of(run), "job 1")
    assert generations.newest(trainer).task == later.name


def test_the_name_of_a_successors_job_carries_its_own_token(run, trainer, scheduler):
    script = run / folders.SCRIPT
    script.write_text(f"{script.read_text()}#SBATCH --job-name=j-main-{folders.name_mark(TOKEN)}\n")
    fence = succession.claim_generation(run, order_of(run), "job 1")
    succession.queue(run, order_of(run), 5, fence, environ(scheduler))
    after = run.parent / next_token(TOKEN)
    text = (after / folders.SCRIPT).read_text()
    assert f"--job-name=j-main-{folders.name_mark(after.name)}\n" in text
    assert folders.name_mark(TOKEN) not in text


@pytest.mark.parametrize(("name", "found"), [("j-main-{mark}", "41"), ("j-main-0123456789ab", None)])
def test_a_successor_is_known_by_its_name_where_the_site_writes_over_comments(scheduler, name, found):
    shown = name.format(mark=folders.name_mark(TOKEN))
    program = scheduler / "squeue"
    program.write_text(f"#!/bin/sh\necho '41 {shown} charged to 42'\n")
    program.chmod(0o755)
    assert succession._job_of(TOKEN) == found


def test_a_start_goes_on_after_one_whose_number_is_not_known(run, trainer):
    generations.claim(trainer, task="task-" + "0" * 32)
    order = order_of(run)
    assert succession.claim_generation(run, order, "job 1").number == 2


def test_a_step_that_cannot_go_on_claims_nothing(run, trainer):
    order = {**order_of(run), "goes_on": False, "chain": None}
    assert succession.claim_generation(run, order, "job 1").holds()
    assert generations.newest(trainer) is None


def test_an_allocation_that_was_replaced_queues_and_cancels_nothing(run, trainer, scheduler):
    fence = succession.claim_generation(run, order_of(run), "job 1")
    succession.queue(run, order_of(run), 5, fence, environ(scheduler))
    later = another(run, 5)
    succession.claim_generation(later, order_of(later), "job 2")
    before = (scheduler / "calls").read_text()
    succession.give_up_successor(run, order_of(run), fence)
    assert not (run.parent / next_token(TOKEN) / run_files.CLAIM).exists()
    succession.queue(later, order_of(later), 5, fence, environ(scheduler))
    assert not (run.parent / next_token(later.name)).exists()
    assert (scheduler / "calls").read_text() == before


def test_an_allocation_whose_job_was_deleted_makes_no_folder_of_it_again(run, trainer, scheduler):
    fence, order = succession.claim_generation(run, order_of(run), "job 1"), order_of(run)
    shutil.rmtree(run.parents[1])
    succession.queue(run, order, 5, fence, environ(scheduler))
    assert not fence.holds()
    assert not run.parents[1].exists()


def test_starts_are_numbered_in_the_order_in_which_they_are_ordered(run):
    assert succession.next_start_number(run) == 3
    assert succession.next_start_number(run.parent / "task-new") == 4
    another(run, 7)
    assert succession.next_start_number(run.parent / "task-new") == 8


@pytest.mark.parametrize(("said", "goes_on"), [("Restarts=1", True), ("Restarts=0", False)])
def test_a_predecessor_that_was_put_back_into_the_queue_has_lost_its_place(run, scheduler, said, goes_on):
    program = scheduler / "scontrol"
    program.write_text(f"#!/bin/sh\necho JobId=7 JobState=FAILED {said}\n")
    program.chmod(0o755)
    (run / folders.NODE).write_text('{"job_id": "7"}')
    order = {**order_of(run), "token": next_token(TOKEN), "predecessor": TOKEN}
    assert (succession.judge(run.parent / next_token(TOKEN), order, 9) is None) is goes_on
