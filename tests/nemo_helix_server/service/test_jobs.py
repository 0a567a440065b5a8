"""The service as its users see it, on a real database."""

from __future__ import annotations

from typing import Any

import pytest
from tests.nemo_helix_server.worlds import ANNA, DOWNLOAD, TRAINING, UPLOAD, World, request, step

from nemo_helix_plugin.jobs.types import (
    CreateHelixJobResultRequest,
    HelixJobResponse,
    HelixJobStatusResponse,
    HelixJobStepStatusUpdate,
    HelixJobTaskUpdate,
    JobControl,
    UpdateHelixJobRequest,
)
from nemo_helix_plugin.jobs.types import HelixJobStatus as S
from nemo_helix_server.errors import ForbiddenError, InvalidError, StateConflictError, UnknownNameError
from nemo_helix_server.jobs.model import Caller, MetricPoint, SecretRow
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.jobs.status_change import StatusChange
from nemo_helix_server.service.lookups import checked
from nemo_helix_server.store.job_writer import JobWriter
from nemo_runs.clock import SECOND, wire

pytestmark = pytest.mark.services

DAY = 24 * 3600


def test_a_job_is_made_with_its_directories_and_can_be_found_by_name_or_id(world: World) -> None:
    made = world.create(workspace="default")
    assert (made["status"], made["fileset"]) == ("created", "job-fileset-job-1")
    assert world.directories.made == [("default", made["id"])]
    assert world.service.get("default", "job-1") == world.service.get("default", made["id"]) == made
    assert world.service.get("-", made["id"]) == made
    assert HelixJobResponse.model_validate(made).status is S.CREATED
    assert world.wakes == 1


def test_a_repeated_create_makes_nothing_new(world: World) -> None:
    first, new = world.service.create(ANNA, "default", request(None), client_token="key-1")
    again, not_new = world.service.create(ANNA, "default", request(None), client_token="key-1")
    assert (new, not_new, again["id"]) == (True, False, first["id"])
    with pytest.raises(StateConflictError, match="idempotency key was used before"):
        world.service.create(ANNA, "default", request(None, (DOWNLOAD,)), client_token="key-1")
    world.create("named")
    assert world.service.create(ANNA, "default", request("named"))[1] is False
    with pytest.raises(StateConflictError, match="a job named named exists already"):
        world.service.create(ANNA, "default", request("named", (DOWNLOAD,)))


def test_a_job_whose_directories_cannot_be_made_waits_for_the_controller(world: World) -> None:
    world.directories.broken = True
    assert world.create()["status"] == "creation_pending"
    assert world.move(StatusEvent.PREPARED).job.status is S.CREATED


def test_a_job_that_is_not_made_after_all_leaves_no_directories(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StateConflictError("somebody was faster")

    monkeypatch.setattr(JobWriter, "create", fails)
    with pytest.raises(StateConflictError, match="somebody was faster"):
        world.create()
    assert world.directories.made == []


def test_what_a_job_needs_has_to_be_there(world: World) -> None:
    with_secret = step(environment=[{"name": "TOKEN", "from_secret": {"name": "hub"}}])
    with pytest.raises(
        StateConflictError, match="`nemo secrets create hub --value host:VARIABLE --workspace default`"
    ):
        world.create(steps=(with_secret,))
    now = world.clock.now()
    with world.store.write() as writer:
        writer.secrets.put(
            SecretRow(
                workspace="default",
                name="hub",
                description=None,
                created_by="a",
                created_at=now,
                updated_at=now,
            )
        )
    world.create(steps=(with_secret,))
    foreign = step(environment=[{"name": "TOKEN", "from_secret": {"name": "other/hub"}}])
    with pytest.raises(ForbiddenError):
        world.service.create(Caller(name="b", workspace="default"), "default", request("job-2", (foreign,)))
    with pytest.raises(UnknownNameError, match="no workspace 'nowhere'"):
        world.create("job-3", workspace="nowhere")


def test_what_no_database_keeps_is_refused() -> None:
    for document in ({"n": 2**70}, {"text": "\ud800"}):
        with pytest.raises(InvalidError, match="the job cannot be kept"):
            checked(document, "the job")
    with pytest.raises(InvalidError, match="the job holds a NUL character"):
        checked({"text": "a\0b"}, "the job")


def test_the_pause_window_runs_from_the_pause_whatever_is_changed_later(world: World) -> None:
    world.create()
    world.bring_to(S.PAUSED)
    paused_at = world.clock.now()
    assert world.service.get("default", "job-1")["storage_expires_at"] == wire(paused_at + 7 * DAY * SECOND)
    world.clock.advance(DAY)
    changed = world.service.control(ANNA, "default", "job-1", JobControl(pause_ttl_seconds=14 * DAY))
    assert changed["storage_expires_at"] == wire(paused_at + 14 * DAY * SECOND)
    kept = world.service.control(ANNA, "default", "job-1", JobControl())
    assert kept["control"]["pause_ttl_seconds"] == 14 * DAY
    with pytest.raises(InvalidError, match=r"2592000 seconds at most \(30 d\)"):
        world.service.control(ANNA, "default", "job-1", JobControl(pause_ttl_seconds=31 * DAY))


@pytest.mark.parametrize("late", [False, True])
def test_a_resume_at_the_end_of_the_window_has_one_outcome(world: World, late: bool) -> None:
    world.create()
    world.bring_to(S.PAUSED)
    world.clock.advance(7 * DAY if late else 7 * DAY - 0.001)
    if late:
        with pytest.raises(StateConflictError, match="the pause window of job job-1 has ended"):
            world.service.resume(ANNA, "default", "job-1")
        world.move(StatusEvent.WINDOW_EXPIRED)
        with pytest.raises(StateConflictError, match="is being cancelled"):
            world.service.resume(ANNA, "default", "job-1")
    else:
        assert world.service.resume(ANNA, "default", "job-1")["status"] == "resuming"
        with world.store.write() as writer:
            done = writer.statuses.move(
                world_step(writer), StatusChange(StatusEvent.WINDOW_EXPIRED, who="retention", why="late")
            )
            assert done is None
            assert writer.jobs.reclaim_storage(world_id(writer)) is None


def world_id(reader: Any) -> str:
    return str(reader.jobs.find("default", "job-1").id)


def world_step(reader: Any) -> str:
    return str(reader.steps.current(reader.jobs.find("default", "job-1").attempt_id).id)


def test_a_clock_that_steps_back_opens_no_window_twice(world: World) -> None:
    """The end is shown by the clock as it is set now: when that shows it, the window ends."""
    world.create()
    world.bring_to(S.PAUSED)
    paused_at = world.clock.now()
    world.clock.step(-3600)
    shown = wire(paused_at + (7 * DAY - 3600) * SECOND)
    assert world.service.get("default", "job-1")["storage_expires_at"] == shown
    listed = world.service.list_jobs("default")
    assert listed["data"][0]["storage_expires_at"] == shown
    world.clock.advance(60)
    assert world.service.get("default", "job-1")["storage_expires_at"] == shown
    assert world.service.resume(ANNA, "default", "job-1")["storage_expires_at"] is None


def test_pausing_is_refused_while_the_model_is_downloading(world: World) -> None:
    world.create(steps=(DOWNLOAD, TRAINING))
    world.bring_to(S.ACTIVE)
    with pytest.raises(StateConflictError, match="step download of job job-1 cannot be paused") as refused:
        world.service.pause(ANNA, "default", "job-1")
    assert refused.value.headers == {"x-should-retry": "false"}


def test_a_resume_while_pausing_withdraws_the_pause(world: World) -> None:
    world.create()
    world.bring_to(S.ACTIVE)
    assert world.service.pause(ANNA, "default", "job-1")["status"] == "pausing"
    assert "pause_requested_at" in world.step().status_details
    assert world.service.resume(ANNA, "default", "job-1")["status"] == "active"
    assert "pause_requested_at" not in world.step().status_details
    assert world.step().control_seq == 2


def test_a_rerun_says_what_may_fail_again_and_keeps_how_far_it_got(world: World) -> None:
    job_id = world.create(steps=(DOWNLOAD, TRAINING))["id"]
    world.bring_to(S.COMPLETED)
    world.bring_to(S.ACTIVE)
    with world.store.write() as writer:
        writer.series.add(job_id, "training", [MetricPoint(step=1, epoch=0.5, name="train_loss", value=2.0)])
    details = {"step": 7, "train_loss": 2.0, "exit_code": 1, "resumable": False, "phase": "training"}
    world.service.merge_status_details(
        "default", "job-1", {**details, "non_resumable_reason": "no GPU memory"}
    )
    world.move(StatusEvent.FAILED)
    again = world.service.rerun(ANNA, "default", "job-1")
    assert again["status"] == "created"
    assert again["status_details"] == {
        "step": 7,
        "train_loss": 2.0,
        "phase": "training",
        "rerun_warning": "no GPU memory; a rerun uses the same configuration and may fail the same way",
        "metrics": {"train_loss": [{"step": 1, "epoch": 0.5, "value": 2.0}], "val_loss": []},
    }
    assert "rerun_warning" not in world.step().status_details
    world.move(StatusEvent.OUTPUTS_VERIFIED)
    assert "rerun_warning" in world.step().status_details
    attempts = world.service.attempts("default", "job-1")
    assert [(one["seq"], one["is_current"], one["status"]) for one in attempts["data"]] == [
        (1, True, "active"),
        (0, False, "error"),
    ]
    first = world.service.attempt("default", "job-1", "0")
    assert first["status_details"]["metrics"]["train_loss"] == [{"step": 1, "epoch": 0.5, "value": 2.0}]


def test_a_failed_job_can_be_run_again_for_four_hours(world: World) -> None:
    world.create()
    world.bring_to(S.ERROR)
    world.clock.advance(4 * 3600)
    with pytest.raises(StateConflictError, match="the storage of job job-1 was deleted"):
        world.service.rerun(ANNA, "default", "job-1")
    with pytest.raises(UnknownNameError, match="has no checkpoint 'ckpt-9'"):
        world.service.rerun(ANNA, "default", "job-1", checkpoint="ckpt-9")


def test_the_description_can_be_changed_and_the_definition_cannot(world: World) -> None:
    world.create()
    changed = world.service.update(ANNA, "default", "job-1", UpdateHelixJobRequest(description="mine"))
    assert changed["description"] == "mine"
    body = UpdateHelixJobRequest(spec={}, platform_spec=request().platform_spec)
    with pytest.raises(StateConflictError, match="create a new job instead"):
        world.service.update(ANNA, "default", "job-1", body)


def test_a_delete_is_acknowledged_and_can_be_repeated(world: World) -> None:
    world.create()
    with pytest.raises(StateConflictError, match="use `nemo jobs cancel job-1 --workspace default` first"):
        world.service.delete(ANNA, "default", "job-1")
    world.service.cancel(ANNA, "default", "job-1")
    world.service.delete(ANNA, "default", "job-1")
    world.service.delete(ANNA, "default", "job-1")
    assert world.service.get("default", "job-1")["status"] == "deletion_pending"
    with pytest.raises(StateConflictError, match="is being deleted"):
        world.service.cancel(ANNA, "default", "job-1")
    with pytest.raises(StateConflictError, match="still being deleted"):
        world.create()


def test_pausing_everything_says_what_could_not_be_paused(world: World) -> None:
    world.create("waits")
    world.create("trains")
    world.bring_to(S.ACTIVE, "trains")
    world.create("loads", steps=(DOWNLOAD,))
    world.create("ended")
    world.bring_to(S.COMPLETED, "ended")
    answer = world.service.pause_all(ANNA, "-", maintenance=True)
    assert sorted(answer["pausing"]) == ["trains", "waits"]
    assert [one["name"] for one in answer["refused"]] == ["loads"]
    assert "step download" in answer["refused"][0]["detail"]
    assert world.move(StatusEvent.CHECKPOINT_VERIFIED, "trains").job.reason == "paused_for_maintenance"


def test_the_tree_has_steps_and_tasks(world: World) -> None:
    world.create(steps=(DOWNLOAD, TRAINING))
    world.bring_to(S.COMPLETED)
    world.move(StatusEvent.ACCEPTED, task="task-7")
    body = HelixJobTaskUpdate(status=S.ACTIVE, status_details={"phase": "training", "step": 3})
    world.service.put_task(ANNA, "default", "job-1", "training", "task-7", body)
    tree = world.service.status("default", "job-1")
    read = HelixJobStatusResponse.model_validate(tree)
    assert [(one.name, one.status, len(one.tasks)) for one in read.steps] == [
        ("download", "completed", 1),
        ("training", "pending", 1),
    ]
    assert tree["status_details"] == {"phase": "training", "step": 3}
    assert world.service.tasks("default", "job-1", "training")["data"][0]["status"] == "active"
    assert world.service.task("default", "job-1", "training", "task-7")["name"] == "task-7"


def test_between_two_steps_nobody_is_at_100_percent(world: World) -> None:
    world.create(steps=(DOWNLOAD, TRAINING, UPLOAD))

    def say(**details: Any) -> dict[str, Any]:
        name = world.step().name
        update = HelixJobTaskUpdate(status=S.ACTIVE, status_details=details)
        world.service.put_task(ANNA, "default", "job-1", name, f"task-{name}", update)
        found: dict[str, Any] = world.service.get("default", "job-1")["status_details"]
        return found

    world.bring_to(S.ACTIVE)
    assert say(phase="downloading", progress_pct=100.0, total_files=3)["progress_pct"] == 100.0
    world.move(StatusEvent.FINISHED)
    between = world.service.get("default", "job-1")["status_details"]
    assert not {"progress_pct", "phase"} & between.keys()
    assert between["total_files"] == 3
    world.bring_to(S.ACTIVE)
    assert "progress_pct" not in say(phase="starting", step=0)
    say(phase="completed", step=50, max_steps=50, percentage_done=100.0, train_loss=0.5)
    world.move(StatusEvent.FINISHED)
    kept = world.service.get("default", "job-1")["status_details"]
    assert "percentage_done" not in kept
    assert (kept["step"], kept["train_loss"]) == (50, 0.5)


def test_a_transition_says_what_it_is_about(world: World) -> None:
    world.create()
    world.bring_to(S.ACTIVE)
    update = HelixJobTaskUpdate(status=S.ACTIVE)
    world.service.put_task(ANNA, "default", "job-1", "training", "task-of-its-own", update)
    found = world.service.transitions("default", "job-1")["data"]
    said = {(one["about"], one["from"], one["to"]) for one in found}
    assert {
        ("step", "pending", "active"),
        ("job", "pending", "active"),
        ("task", "pending", "active"),
    } <= said
    assert all(one["step"] is None for one in found if one["about"] == "job")
    assert [one["task"] for one in found if one["about"] == "task"] == ["task-of-its-own"]


def test_a_size_from_before_a_job_came_to_rest_is_not_shown_as_its_size(world: World) -> None:
    job = world.create()["id"]
    world.bring_to(S.ACTIVE)
    with world.store.write() as writer:
        writer.jobs.set_storage_bytes(job, 10)
    world.move(StatusEvent.PAUSE_REQUESTED)
    assert world.service.get("default", "job-1")["storage_bytes"] == 10
    world.move(StatusEvent.CHECKPOINT_VERIFIED)
    assert world.service.get("default", "job-1")["storage_bytes"] is None
    with world.store.write() as writer:
        writer.jobs.set_storage_bytes(job, 20)
    world.move(StatusEvent.RESUME_REQUESTED)
    assert world.service.get("default", "job-1")["storage_bytes"] == 20


def test_a_rerun_still_says_where_its_tracker_s_run_is(world: World) -> None:
    world.create()
    world.bring_to(S.ERROR)
    run = {"id": "r1", "url": "https://wandb.example/r1"}
    world.service.merge_status_details("default", "job-1", {"wandb_run": run, "progress_pct": 30})
    details = world.service.rerun(ANNA, "default", "job-1")["status_details"]
    assert details["wandb_run"] == run
    assert "progress_pct" not in details


def test_progress_after_an_error_is_kept_and_changes_no_status(world: World) -> None:
    world.create()
    world.bring_to(S.ERROR)
    task = world.step().task
    assert task is not None
    body = HelixJobTaskUpdate(status=S.ACTIVE, error_details={"message": "late"})
    late = world.service.put_task(ANNA, "default", "job-1", "training", task, body)
    assert (late["status"], late["error_details"]) == ("error", {"message": "late"})


def test_a_step_is_moved_by_name_of_status_only_where_the_table_allows_it(world: World) -> None:
    world.create()
    update = world.service.update_step_status
    body = HelixJobStepStatusUpdate(status=S.ACTIVE, status_details={"a": 1})
    assert update(ANNA, "default", "job-1", "training", body)["status"] == "active"
    assert update(ANNA, "default", "job-1", "training", body)["db_version"] == world.step().version
    with pytest.raises(StateConflictError, match="is active and cannot become queued"):
        update(ANNA, "default", "job-1", "training", HelixJobStepStatusUpdate(status=S.QUEUED))
    other = HelixJobStepStatusUpdate(status=S.COMPLETED, expected_step_id="another")
    with pytest.raises(StateConflictError, match="is another one by now"):
        update(ANNA, "default", "job-1", "training", other)
    with pytest.raises(StateConflictError, match="which is active, by now"):
        world.service.merge_status_details("default", "job-1", {}, expected_step_status="paused")


def test_results_steps_and_transitions_are_listed(world: World) -> None:
    world.create()
    result = CreateHelixJobResultRequest(artifact_url="fileset://x")
    made = world.service.create_result(ANNA, "default", "job-1", "model", result)
    assert world.service.result("default", "job-1", "model") == made
    assert world.service.results("default", "job-1", attempt="current")["data"] == [made]
    listed = world.service.list_steps("-", "-", statuses=frozenset({"created"}))
    assert (listed["pagination"]["total_results"], listed["data"][0]["job"]) == (1, "job-1")
    first = world.service.transitions("default", "job-1", limit=2)
    rest = world.service.transitions("default", "job-1", after=first["next"])
    assert [one["to"] for one in first["data"] + rest["data"]] == ["creation_pending"] * 2 + ["created"] * 2
    assert rest["data"][-1]["who"] == "service"


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda s: s.get("default", "nobody"), "there is no job 'nobody' in workspace 'default'"),
        (lambda s: s.get("nowhere", "job-1"), "there is no workspace 'nowhere'"),
        (lambda s: s.list_jobs("nowhere"), "there is no workspace 'nowhere'"),
        (lambda s: s.attempt("default", "job-1", "9"), "job 'job-1' has no attempt '9'"),
        (
            lambda s: s.step("default", "job-1", "upload"),
            "has no step 'upload' in attempt 0: its steps are training",
        ),
        (
            lambda s: s.task("default", "job-1", "training", "t"),
            "step 'training' of job 'job-1' has no task 't'",
        ),
        (lambda s: s.result("default", "job-1", "r"), "job 'job-1' has no result 'r'"),
    ],
)
def test_what_is_not_there_is_named(world: World, ask: Any, sentence: str) -> None:
    world.create()
    with pytest.raises(UnknownNameError) as missing:
        ask(world.service)
    assert sentence in str(missing.value)
