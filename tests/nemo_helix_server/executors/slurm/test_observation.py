"""What a run on a cluster is doing, from what its files and the scheduler say."""

from dataclasses import replace

import pytest

from nemo_helix_server.executors.base import RunState
from nemo_helix_server.executors.slurm.observation import FILES_LAG, RunRecord, observe, observe_without_job
from nemo_helix_server.storage.run_files import ExitRecord
from nemo_slurm.cluster import JobLook, Witness
from nemo_slurm.records import SlurmJob
from nemo_slurm.states import read_state
from nemo_trainer.contract import Allocation

JOB = SlurmJob("7")
NOW = 1000.0


def look(state, *, settled=True, reason="", ended_at=NOW - 1, **more):
    return JobLook(
        JOB, Witness.CONTROLLER, read_state(state), settled, reason=reason, ended_at=ended_at, **more
    )


def end(status=0, **more):
    values = {"exit_status": status, "signal": 0, "started_at": 1.0, "ended_at": 2.0, "out_of_memory": False}
    values |= {"timed_out": False, "stopped": False, "reason": f"exited with status {status}"}
    return ExitRecord(**{**values, **more})


def test_nothing_on_record_is_absent_whatever_the_scheduler_says():
    assert observe(RunRecord(), None, NOW).state is RunState.ABSENT


def test_a_run_that_was_given_up_never_started():
    seen = observe(RunRecord(submitted=True, given_up=True), look("CANCELLED"), NOW)
    assert (seen.state, seen.never_started) == (RunState.LOST, True)


@pytest.mark.parametrize(
    ("state", "reason", "text"),
    [
        ("PENDING", "Priority", "Priority"),
        ("PENDING", "(AssocGrpGRES)", "AssocGrpGRES"),
        ("PENDING", "", ""),
        ("REQUEUED", "BeginTime", "BeginTime"),
    ],
)
def test_a_pending_job_is_queued_with_the_schedulers_reason(state, reason, text):
    seen = observe(RunRecord(submitted=True), look(state, settled=False, reason=reason), NOW)
    assert seen.state is RunState.QUEUED
    assert text in seen.reason


def test_a_running_job_is_starting_until_its_command_runs():
    running = look("RUNNING", settled=False, ended_at=None)
    assert observe(RunRecord(submitted=True), running, NOW).state is RunState.STARTING
    assert observe(RunRecord(submitted=True, claimed_at=4.0), running, NOW).state is RunState.STARTING
    started = observe(RunRecord(submitted=True, claimed_at=4.0, started_at=5.0), running, NOW)
    assert (started.state, started.started_at) == (RunState.RUNNING, 5.0)


def test_accounting_that_lags_behind_does_not_put_a_running_command_back_into_the_queue():
    lagging = look("PENDING", settled=False)
    assert (
        observe(RunRecord(submitted=True, claimed_at=4.0, started_at=5.0), lagging, NOW).state
        is RunState.RUNNING
    )


@pytest.mark.parametrize("seen", [None, JobLook(JOB, Witness.NOBODY, None, False)])
def test_silence_is_unknown_and_never_an_end(seen):
    found = observe(RunRecord(submitted=True, claimed_at=4.0, started_at=5.0), seen, NOW)
    assert (found.state, found.started_at) == (RunState.UNKNOWN, 5.0)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("TIMEOUT", "walltime"),
        ("PREEMPTED", "preempted"),
        ("NODE_FAIL", "node failed"),
        ("BOOT_FAIL", "did not boot"),
    ],
)
@pytest.mark.parametrize("claimed_at", [4.0, None])
def test_a_place_that_was_taken_away_is_an_interruption(state, text, claimed_at):
    seen = observe(RunRecord(submitted=True, claimed_at=claimed_at), look(state), NOW)
    assert seen.state is RunState.LOST
    assert text in seen.interrupted
    assert seen.never_started is (claimed_at is None)


def test_a_job_that_may_come_back_is_no_end():
    seen = observe(RunRecord(submitted=True, claimed_at=4.0), look("PREEMPTED", settled=False), NOW)
    assert seen.state is RunState.STARTING


def test_the_shims_record_counts_before_the_schedulers():
    seen = observe(RunRecord(submitted=True, claimed_at=4.0, end=end(3)), look("FAILED"), NOW)
    assert (seen.state, seen.exit_status, seen.interrupted) == (RunState.EXITED, 3, "")


def test_leaving_ahead_of_the_walltime_is_an_interruption():
    seen = observe(RunRecord(submitted=True, claimed_at=4.0, end=end(75)), look("FAILED"), NOW)
    assert (seen.exit_status, seen.interrupted) == (75, "it left its allocation before the end of its time")


NOTICE = Allocation(
    ends_at=NOW, notice="it is preempted", kind="preemption", noticed_at=NOW - 90, by="Slurm", at=NOW - 89
)
WARNED = "it was preempted with 1 min 30 s of notice"


@pytest.mark.parametrize(
    ("state", "said", "expected"),
    [
        ("FAILED", NOTICE, WARNED),  # it left within its grace
        ("PREEMPTED", NOTICE, WARNED),
        ("PREEMPTED", None, "it was preempted"),
        ("PREEMPTED", replace(NOTICE, noticed_at=None), "it was preempted"),
        ("NODE_FAIL", NOTICE, "its node failed"),  # before the grace was over
        ("FAILED", replace(NOTICE, kind="", notice=""), "it left its allocation before the end of its time"),
    ],
)
def test_a_notice_says_why_a_command_left(state, said, expected):
    files = RunRecord(submitted=True, claimed_at=4.0, end=end(75), allocation=said)
    seen = observe(files, look(state), NOW)
    assert seen.interrupted == expected
    assert seen.notice == (said if said and said.kind else None)


def test_a_notice_is_no_excuse_for_the_commands_own_failure_and_stays_on_record_of_a_lost_job():
    failed = observe(
        RunRecord(submitted=True, claimed_at=4.0, end=end(3), allocation=NOTICE), look("FAILED"), NOW
    )
    assert (failed.exit_status, failed.signal, failed.stopped) == (3, 0, False)
    lost = observe(RunRecord(submitted=True, claimed_at=4.0, allocation=NOTICE), look("PREEMPTED"), NOW)
    assert (lost.interrupted, lost.notice) == (WARNED, NOTICE)


def test_a_command_that_the_scheduler_ended_was_not_ended_by_us():
    ended = end(143, signal=15, stopped=True, reason="was stopped")
    seen = observe(RunRecord(submitted=True, claimed_at=4.0, end=ended), look("TIMEOUT"), NOW)
    assert (seen.stopped, seen.asked, seen.interrupted) == (True, False, "its walltime was over")
    asked = observe(
        RunRecord(submitted=True, claimed_at=4.0, end=ended, stop_asked=True), look("FAILED"), NOW
    )
    assert (asked.asked, asked.interrupted) == (True, "")


def test_the_files_of_a_job_that_has_ended_are_waited_for_and_then_no_more():
    files = RunRecord(submitted=True, claimed_at=4.0, started_at=5.0)
    assert observe(files, look("FAILED"), NOW).state is RunState.UNKNOWN
    late = observe(files, look("FAILED", ended_at=NOW - FILES_LAG - 1), NOW)
    assert late.state is RunState.LOST
    assert "FAILED" in late.reason


def test_a_batch_script_that_never_reached_its_command_says_its_last_line():
    files = RunRecord(
        submitted=True, scheduler_log="module: not found\n/x/job.sh: python9: command not found\n"
    )
    seen = observe(files, look("FAILED"), NOW)
    assert seen.reason.endswith("python9: command not found")


def test_a_job_that_somebody_else_cancelled_names_them():
    seen = observe(
        RunRecord(submitted=True, claimed_at=4.0),
        look("CANCELLED by 0", ended_at=1.0, author=0, owner=7),
        NOW,
    )
    assert (seen.state, seen.interrupted) == (RunState.LOST, "")
    assert "user 0 (an administrator" in seen.reason


def test_out_of_memory_is_said_by_the_scheduler_where_nobody_else_can():
    assert observe(RunRecord(submitted=True), look("OUT_OF_MEMORY"), NOW).out_of_memory
    ended = end(137, signal=9)
    assert observe(
        RunRecord(submitted=True, claimed_at=4.0, end=ended), look("OUT_OF_MEMORY"), NOW
    ).out_of_memory


@pytest.mark.parametrize(
    ("reason", "parts"),
    [
        ("Priority", ["jobs of higher priority come first"]),
        ("JobHeldUser", ["your turn: job 7", "`scontrol release 7`"]),
        ("PartitionTimeLimit", ["your turn: job 7", "`scontrol update JobId=7 TimeLimit=TIME`"]),
        ("DependencyNeverSatisfied", ["your turn: job 7", "pause and resume it"]),
        ("BadConstraints", ["your turn: job 7", "execution profile"]),
        ("(ReqNodeNotAvail, UnavailableNodes:n3)", ["the site's turn: job 7", "`sinfo --list-reasons`"]),
        ("AssocGrpCPUMinutesLimit", ["the site's turn", "`sshare`"]),
    ],
)
def test_a_waiting_job_says_what_its_reason_means_whose_turn_it_is_and_what_helps(reason, parts):
    seen = observe(RunRecord(submitted=True), look("PENDING", settled=False, reason=reason), NOW)
    assert [part for part in parts if part not in seen.reason] == []
    if "Priority" in reason:
        assert "turn" not in seen.reason


@pytest.mark.parametrize(
    ("state", "nodes", "named"),
    [
        ("NODE_FAIL", "n3", ("n3",)),
        ("BOOT_FAIL", "n3", ("n3",)),
        ("NODE_FAIL", "n[1-2]", ()),
        ("NODE_FAIL", "n1,n2", ()),
        ("NODE_FAIL", "", ()),
        ("TIMEOUT", "n3", ()),
    ],
)
@pytest.mark.parametrize("ended", [None, end(137, signal=9)])
def test_the_node_that_failed_is_named_where_there_was_one(state, nodes, named, ended):
    files = RunRecord(submitted=True, claimed_at=4.0, nodes=nodes, end=ended)
    assert observe(files, look(state), NOW).failed_nodes == named


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "COMPLETED"])
def test_a_job_that_was_put_back_into_the_queue_has_lost_its_place_however_its_next_run_ends(state):
    files = RunRecord(submitted=True, claimed_at=4.0, started_at=5.0)
    seen = observe(files, look(state, restarts=1), NOW)
    assert (seen.state, seen.interrupted) == (RunState.LOST, "its job was put back into the queue")


@pytest.mark.parametrize(
    ("files", "gone", "long_ago", "state"),
    [
        ({}, True, False, RunState.UNKNOWN),
        ({}, True, True, RunState.ABSENT),
        ({}, False, True, RunState.ABSENT),
        ({"claimed_at": NOW - 5}, True, True, RunState.UNKNOWN),
        ({"claimed_at": NOW - FILES_LAG - 5}, True, True, RunState.LOST),
        ({"claimed_at": NOW - FILES_LAG - 5}, False, True, RunState.UNKNOWN),
        ({"claimed_at": NOW - 5, "end": end(0)}, True, True, RunState.EXITED),
        ({"claimed_at": NOW - 5, "given_up": True}, True, True, RunState.LOST),
    ],
)
def test_a_run_whose_reply_was_lost_is_never_unknown_for_good(files, gone, long_ago, state):
    record = RunRecord(submitted=True, **files)
    assert observe_without_job(record, NOW, gone=gone, asked_long_ago=long_ago).state is state


def test_a_job_that_waits_again_after_its_start_was_made_has_lost_its_place():
    waits = look("PENDING", settled=False, restarts=1, ended_at=None)
    seen = observe(RunRecord(submitted=True, claimed_at=4.0, started_at=5.0), waits, NOW)
    assert (seen.state, seen.interrupted) == (RunState.LOST, "its job was put back into the queue")
    assert observe(RunRecord(submitted=True), waits, NOW).state is RunState.QUEUED


def test_a_command_that_failed_has_failed_though_its_job_was_put_back_before_it():
    files = RunRecord(submitted=True, claimed_at=4.0, end=end(3))
    assert observe(files, look("FAILED", restarts=1), NOW).interrupted == ""


@pytest.mark.parametrize("seen", [None, look("FAILED"), look("CANCELLED by 0", author=0)])
def test_what_a_replaced_process_ends_with_is_no_failure_of_the_step(seen):
    files = RunRecord(submitted=True, claimed_at=4.0, replaced=True, end=end(1))
    found = observe(files, seen, NOW)
    assert found.interrupted == "a later allocation of its step has taken over"
    # else its own exit status would count, which says only that it found itself replaced
    assert (found.state, found.exit_status, found.ended_at) == (RunState.LOST, None, 2.0)
    done = observe(RunRecord(submitted=True, claimed_at=4.0, replaced=True, end=end(0)), seen, NOW)
    assert (done.state, done.exit_status) == (RunState.EXITED, 0)


@pytest.mark.parametrize("nodes", ["n[1-2]", "n1,n2", "n1"])
@pytest.mark.parametrize("status", [1, 143])
def test_a_command_that_fails_together_with_a_node_has_lost_its_place(nodes, status):
    files = RunRecord(submitted=True, claimed_at=4.0, nodes=nodes, end=end(status))
    seen = observe(files, look("NODE_FAIL"), NOW)
    assert (seen.state, seen.interrupted, seen.ended_at) == (RunState.LOST, "its node failed", 2.0)


@pytest.mark.parametrize(
    "own",
    [
        end(0),
        *(end(status) for status in (2, 3, 4, 5, 75)),
        end(1, disk_full=True),
        end(137, signal=9, out_of_memory=True),
    ],
)
def test_what_says_why_it_ended_counts_also_where_a_node_failed(own):
    files = RunRecord(submitted=True, claimed_at=4.0, nodes="n[1-2]", end=own)
    seen = observe(files, look("NODE_FAIL"), NOW)
    assert (seen.state, seen.exit_status) == (RunState.EXITED, own.exit_status)


RUNNING, COMPLETING = (look(state, settled=False, ended_at=None) for state in ("RUNNING", "COMPLETING"))


@pytest.mark.parametrize("seen", [None, RUNNING, COMPLETING])
def test_why_one_of_several_nodes_left_is_not_known_before_the_job_is_over(seen):
    failed = RunRecord(submitted=True, claimed_at=4.0, nodes="n[1-2]", end=end(1, ended_at=NOW - 5))
    assert observe(failed, seen, NOW).state is RunState.UNKNOWN
    assert observe(failed, look("FAILED"), NOW).state is RunState.EXITED
    assert observe(failed, seen, NOW + FILES_LAG).state is RunState.EXITED
    assert observe(replace(failed, nodes="n1"), seen, NOW).state is RunState.EXITED
    for own in (end(5, ended_at=NOW - 5), end(143, stopped=True, ended_at=NOW - 5)):
        assert observe(replace(failed, end=own), seen, NOW).state is RunState.EXITED


@pytest.mark.parametrize("claimed_at", [None, 4.0])
def test_an_allocation_that_found_no_room_for_its_end_says_so_by_its_exit_status(claimed_at):
    files = RunRecord(submitted=True, claimed_at=claimed_at)
    long_ago = NOW - FILES_LAG - 1
    seen = observe(files, look("FAILED", exit_status=28, ended_at=long_ago), NOW)
    assert (seen.state, seen.disk_full) == (RunState.LOST, True)
    assert seen.reason.endswith("ended since no space is left on the storage of its cluster")
    assert not observe(files, look("FAILED", exit_status=27, ended_at=long_ago), NOW).disk_full


def test_a_command_of_its_own_may_exit_with_that_status():
    ended = RunRecord(submitted=True, claimed_at=4.0, end=end(28))
    assert not observe(ended, look("FAILED", exit_status=28), NOW).disk_full
    late = RunRecord(submitted=True, claimed_at=4.0)
    assert observe(late, look("FAILED", exit_status=28), NOW).state is RunState.UNKNOWN
