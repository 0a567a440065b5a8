"""Watching: what is shown, and the exit status of each end."""

import json

import pytest
from tests.nemo_helix_plugin.stand_in import Service

from nemo_helix_plugin.cli.commands.jobs.deduplication import Deduplication
from nemo_helix_plugin.jobs.watch_types import JobLogEvent

pytestmark = pytest.mark.slow

PAUSED, ACTIVE, FAILED, DONE = "automodel-a1b2c3d4e5f6", "unsloth-0000000000aa", "rl-ffffffffffff", "done-1"


@pytest.fixture
def changing(service, monkeypatch):
    """Let a job take on one status after the other, each time that it is asked for."""

    def change(name, *statuses):
        left = list(statuses)
        answer = Service._one

        def one(self, method, found, body):
            if method == "GET" and found["name"] == name and left:
                found["status"] = left.pop(0)
            return answer(self, method, found, body)

        monkeypatch.setattr(Service, "_one", one)
        return left

    return change


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        (DONE, 0, ""),
        (FAILED, 1, f"job '{FAILED}' ended in error: CUDA ran out of memory; `nemo jobs rerun {FAILED} "),
        (PAUSED, 75, f"nemo: job '{PAUSED}' is paused; its storage is kept until 2099-01-01 00:00 UTC, "),
    ],
)
def test_the_exit_status_says_which_end_it_was(service, nemo, name, status, said):
    ran = nemo("jobs", "watch", name)
    assert ran.status == status
    assert said in ran.err
    assert "training | step 5 loss 0.200\n" in ran.out


def test_a_cancelled_job_ends_a_watch_with_its_reason(service, nemo):
    service.jobs[ACTIVE] |= {"status": "cancelled", "reason": "pause_window_ended"}
    ran = nemo("jobs", "watch", ACTIVE)
    assert (ran.status, ran.err) == (1, f"nemo: job '{ACTIVE}' ended in cancelled: pause window ended.\n")


def test_the_end_of_a_job_is_shown_with_its_own_time(service, nemo):
    service.jobs[DONE]["stopped_at"] = "2026-11-01T12:00:00Z"
    ran = nemo("jobs", "watch", DONE)
    assert [line.split()[:3] for line in ran.out.splitlines() if "completed" in line] == [
        ["2026-11-01T12:00:00Z", "✓", "completed"]
    ]


def test_every_status_is_a_line(service, nemo, changing):
    changing(ACTIVE, "queued", "active", "active", "completed")
    ran = nemo("jobs", "watch", ACTIVE, "--poll-interval", "0.1")
    assert [line.split()[2] for line in ran.out.splitlines() if line.startswith("20")] == [
        "queued",
        "active",
        "completed",
    ]
    assert ran.out.count("step 5 loss") == 1


def test_a_watch_ends_at_a_pause(service, nemo, changing):
    left = changing(PAUSED, "active", "pausing", "paused", "paused", "resuming", "completed")
    assert nemo("jobs", "watch", PAUSED, "--poll-interval", "0.1").status == 75
    assert left == ["resuming", "completed"]


@pytest.mark.slow
def test_with_follow_a_watch_goes_on_through_pause_and_rerun(service, nemo, changing):
    service.jobs[PAUSED]["storage_expires_at"] = "2099-01-01T00:00:00Z"
    changing(
        PAUSED, "active", "paused", "paused", "resuming", "error", "error", "error", "active", "completed"
    )
    ran = nemo("jobs", "watch", PAUSED, "--follow", "--poll-interval", "0.1")
    assert ran.status == 0
    assert f"job '{PAUSED}' waits to be resumed; its storage is kept until 2099-01-01" in ran.err
    assert f"job '{PAUSED}' waits to be rerun; its storage is kept until 2099-01-01" in ran.err
    assert ran.out.count("step 5 loss") == 1


def test_with_follow_a_job_whose_storage_is_gone_is_not_waited_for(service, nemo):
    service.jobs[FAILED]["status_details"] = {"storage_reclaimed_at": "2026-11-02T00:00:00Z"}
    ran = nemo("jobs", "watch", FAILED, "--follow")
    assert ran.status == 1
    assert "its storage was deleted 2026-11-02 00:00 UTC." in ran.err


def test_time_runs_out_with_a_sentence(service, nemo):
    ran = nemo("jobs", "watch", ACTIVE, "--timeout", "0.3", "--poll-interval", "0.1")
    assert ran.status == 1
    assert f"{ACTIVE} did not end within 0.3 seconds; it is active" in ran.err


def test_json_is_the_job_at_the_end_and_nothing_else(service, nemo):
    assert nemo("jobs", "watch", DONE, "--json").document["status"] == "completed"


def test_stream_is_one_record_for_every_status_and_line(service, nemo):
    kinds = [json.loads(line)["kind"] for line in nemo("jobs", "watch", DONE, "--stream").out.splitlines()]
    assert kinds == ["log"] * 5 + ["status"]


def test_create_and_wait_ends_as_the_job_does(service, nemo, changing):
    step = {"name": "training", "executor": {"provider": "subprocess", "command": ["true"]}}
    body = json.dumps({"source": "s", "spec": {}, "platform_spec": {"steps": [step]}})
    changing("new-1", "active", "error")
    ran = nemo("jobs", "create", "new-1", "--input-data", body, "--wait", "--poll-interval", "0.1")
    assert (ran.status, ran.document["name"], ran.document["status"]) == (1, "new-1", "error")
    assert "created job 'new-1'; waiting for its end" in ran.err
    assert "step 1" not in ran.err


def line(text, second=0):
    stamp = f"2026-11-01T10:00:{second:02}Z"
    return JobLogEvent(job_name="j", timestamp=stamp, step_id="s", task_id="t", message=text)


def test_a_second_round_brings_only_what_is_new_equal_lines_included():
    fresh = Deduplication()
    fresh.begin()
    assert [fresh.takes(line("a")), fresh.takes(line("a")), fresh.takes(line("b"))] == [True, True, True]
    fresh.begin()
    again = [fresh.takes(found) for found in (line("a"), line("a"), line("b"), line("b"), line("c"))]
    assert again == [False, False, False, True, True]


def test_history_that_nobody_asked_for_stays_away_in_later_rounds():
    fresh = Deduplication(since=line("", 30).timestamp)
    fresh.begin()
    fresh.begin()
    assert [fresh.takes(line("old", 29)), fresh.takes(line("new", 31))] == [False, True]


RERUN = f"`nemo jobs rerun {FAILED} --workspace default`"


@pytest.mark.parametrize(
    ("helps", "said"),
    [
        (f"free space and use {RERUN}", "; the rerun goes on from its checkpoint of step 120."),
        # the rerun without a checkpoint goes on from the one that cannot be used
        (f"name another one: {RERUN[:-1]} --checkpoint ID`", "--checkpoint ID`."),
    ],
)
def test_what_helps_first_and_what_the_rerun_then_does_are_said_where_a_rerun_alone_does_not_help(
    service, nemo, helps, said
):
    service.jobs[FAILED]["error_details"] = {
        "message": "the disk is full",
        "advice": helps,
        "rerun": "goes on from its checkpoint of step 120",
        "rerun_after_change": True,
    }
    ran = nemo("jobs", "watch", FAILED)
    assert ran.status == 1
    assert f"; {helps}" in ran.err
    assert ran.err.rstrip().endswith(said)


def test_where_a_rerun_never_helps_nothing_is_said_of_one(service, nemo):
    service.jobs[FAILED]["error_details"] = {"advice": "halve the batch in a new job", "rerun": None}
    assert nemo("jobs", "watch", FAILED).err.rstrip().endswith("; halve the batch in a new job.")
