"""One contract for both databases: every test here runs on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text
from tests.nemo_helix_server.worlds import CONTROLLER, DOWNLOAD, TRAINING, UPLOAD, World

from nemo_helix_plugin.jobs.types import HelixJobStatus as S
from nemo_helix_server.errors import StateConflictError
from nemo_helix_server.jobs.filtering import parse, values
from nemo_helix_server.jobs.model import CheckpointRow, MetricPoint, SecretRow, Token, WorkspaceRow
from nemo_helix_server.jobs.orders import NewAttempt
from nemo_helix_server.jobs.states import StatusEvent, StatusReason
from nemo_helix_server.jobs.status_change import StatusChange
from nemo_helix_server.store.queries import JobQuery, StepQuery, TransitionQuery

pytestmark = pytest.mark.services


def _found(world: World, filter_: str) -> set[str]:
    """Names of the jobs that a filter finds; the count has to agree."""
    where = parse.parse([("filter", filter_)]).tree
    with world.store.read() as reader:
        page = reader.jobs.page(JobQuery(workspace="default", where=where, page_size=100))
    assert page.total == len(page.items)
    return {job.name for job in page.items}


def checkpoint(job_id: str, step: int, **more: Any) -> CheckpointRow:
    values: dict[str, Any] = {
        "id": f"ckpt-{step}",
        "job_id": job_id,
        "workspace": "default",
        "job": "job-1",
        "attempt_id": None,
        "step_name": "training",
        "task": None,
        "step": step,
        "size": 10,
        "reason": "periodic",
        "created_at": step,
        "verified_at": None,
        "problem": None,
        "present": True,
        "metrics": {"loss": 0.5},
        "pin_requested_at": None,
        "pin_requested_by": None,
        "pinned_at": None,
        "pinned_path": None,
    }
    return CheckpointRow(**{**values, **more})


def points(*steps: int, name: str = "loss") -> list[MetricPoint]:
    return [MetricPoint(step=step, epoch=step / 10, name=name, value=1.0 / step) for step in steps]


class TestMoving:
    def test_a_step_that_completes_makes_its_successor_and_the_job_stays_active(self, world: World) -> None:
        world.create(steps=(DOWNLOAD, TRAINING))
        world.bring_to(S.ACTIVE)
        moved = world.move(StatusEvent.FINISHED)
        assert (moved.step.status, moved.next_step and moved.next_step.name) == (S.COMPLETED, "training")
        assert (moved.attempt.status, world.job().status) == (S.ACTIVE, S.ACTIVE)
        assert world.move(StatusEvent.DEFERRED).job.status is S.QUEUED
        assert world.move(StatusEvent.ACCEPTED).job.status is S.ACTIVE
        world.move(StatusEvent.STARTED)
        assert world.move(StatusEvent.FINISHED).job.status is S.COMPLETED

    def test_a_write_that_expects_something_else_changes_nothing(self, world: World) -> None:
        world.create()
        step = world.step()
        with world.store.write() as writer:
            assert (
                writer.statuses.move(
                    step.id, StatusChange(StatusEvent.STARTED, expected=S.PENDING, **CONTROLLER)
                )
                is None
            )
            assert (
                writer.statuses.move(
                    step.id, StatusChange(StatusEvent.STARTED, expected={S.PENDING, S.QUEUED}, **CONTROLLER)
                )
                is None
            )
            assert (
                writer.statuses.move(
                    step.id, StatusChange(StatusEvent.STARTED, version=step.version + 1, **CONTROLLER)
                )
                is None
            )
            assert writer.statuses.move(step.id, StatusChange(StatusEvent.FINISHED, **CONTROLLER)) is None
            assert (
                writer.statuses.move(step.id, StatusChange(StatusEvent.DELETE_REQUESTED, **CONTROLLER))
                is None
            )
            assert writer.statuses.move("nobody", StatusChange(StatusEvent.STARTED, **CONTROLLER)) is None
        assert world.step() == step
        with world.store.read() as reader:
            assert reader.transitions.since(TransitionQuery())[-1].to is S.CREATED

    def test_every_transition_says_who_when_and_why(self, world: World) -> None:
        world.create()
        world.clock.advance(5)
        world.move(StatusEvent.DEFERRED, who="controller", why="both devices are taken by other/job")
        with world.store.read() as reader:
            step, job = reader.transitions.since(TransitionQuery())[-2:]
        assert (step.step, step.origin, step.to, step.reason) == (
            "training",
            S.CREATED,
            S.QUEUED,
            "waiting_for_capacity",
        )
        assert (job.step, job.origin, job.to) == (None, S.CREATED, S.QUEUED)
        assert (job.who, job.why, job.at) == (
            "controller",
            "both devices are taken by other/job",
            world.clock.now(),
        )
        assert job.seq == step.seq + 1 == world_last(world)

    def test_the_task_is_there_before_its_process_and_follows_the_step(self, world: World) -> None:
        world.create()
        world.move(StatusEvent.ACCEPTED, task="task-1")
        statuses = [task_status(world)]
        for event in (StatusEvent.STARTED, StatusEvent.PAUSE_REQUESTED, StatusEvent.CHECKPOINT_VERIFIED):
            world.move(event)
            statuses.append(task_status(world))
        assert statuses == [S.PENDING, S.ACTIVE, S.PAUSING, S.PAUSED]
        world.move(StatusEvent.RESUME_REQUESTED)
        world.move(StatusEvent.ACCEPTED, task="task-2")
        step = world.step()
        with world.store.read() as reader:
            tasks = reader.tasks.of_step(step.id)
        assert {task.name: task.status for task in tasks} == {"task-1": S.PAUSED, "task-2": S.PENDING}

    def test_a_step_of_an_earlier_attempt_or_of_a_job_being_removed_does_not_move(self, world: World) -> None:
        world.create()
        world.bring_to(S.ERROR)
        old = world.step()
        rerun(world)
        with world.store.write() as writer:
            assert (
                writer.statuses.move(old.id, StatusChange(StatusEvent.ACCEPTED, task="task-9", **CONTROLLER))
                is None
            )
        world.move(StatusEvent.CANCEL_REQUESTED)
        with world.store.write() as writer:
            job = world_job(writer)
            assert writer.statuses.move_job(job.id, StatusEvent.DELETE_REQUESTED, **CONTROLLER) is not None
            assert writer.statuses.move_job(job.id, StatusEvent.DELETE_REQUESTED, **CONTROLLER) is None
            assert writer.jobs.remove(job.id)
            assert not writer.jobs.remove(job.id)
            assert writer.jobs.by_id(job.id) is None
            assert writer.transitions.since(TransitionQuery(job_id=job.id))

    def test_an_error_is_the_steps_and_the_attempts(self, world: World) -> None:
        world.create()
        world.bring_to(S.ACTIVE)
        moved = world.move(
            StatusEvent.FAILED, error={"message": "no memory"}, reason=StatusReason.OUT_OF_MEMORY
        )
        assert moved.step.error_details == moved.job.error_details == {"message": "no memory"}
        assert (moved.job.reason, world.job().reason) == ("out_of_memory", "out_of_memory")
        assert world.job() == moved.job

    def test_what_is_returned_is_what_was_written(self, world: World) -> None:
        world.create(steps=(DOWNLOAD, TRAINING))
        world.bring_to(S.ACTIVE)
        moved = world.move(StatusEvent.FINISHED, details={"image_digest": "sha256:1"})
        with world.store.read() as reader:
            assert moved.job == reader.jobs.find("default", "job-1")
            assert moved.attempt == reader.attempts.by_id(moved.attempt.id)
            assert moved.step == reader.steps.by_id(moved.step.id)
            assert moved.next_step is not None
            assert moved.next_step == reader.steps.by_id(moved.next_step.id)

    def test_a_unit_that_fails_leaves_nothing(self, world: World) -> None:
        world.create()
        before = world.step(), world_last(world)
        with pytest.raises(StateConflictError), world.store.write() as writer:  # noqa: PT012 - the unit is the subject
            writer.statuses.move(
                world_job_step(writer), StatusChange(StatusEvent.CANCEL_REQUESTED, **CONTROLLER)
            )
            raise StateConflictError("changed its mind")
        assert (world.step(), world_last(world)) == before

    def test_units_are_not_nested(self, world: World) -> None:
        with world.store.write(), pytest.raises(RuntimeError, match="not nested"), world.store.read():
            pass


def world_last(world: World) -> int:
    with world.store.read() as reader:
        return reader.transitions.last()


def world_job(reader: Any) -> Any:
    return reader.jobs.find("default", "job-1")


def world_job_step(reader: Any) -> str:
    return str(reader.steps.current(world_job(reader).attempt_id).id)


def task_status(world: World) -> S:
    step = world.step()
    with world.store.read() as reader:
        return reader.tasks.of_step(step.id)[-1].status


def rerun(world: World) -> None:
    job = world.job()
    new = NewAttempt(
        id=f"attempt-{job.attempt_seq + 1}",
        step_id=f"step-{job.attempt_seq + 1}",
        created_by="anna",
        spec=job.spec,
        platform_spec=job.platform_spec,
        status_details={"rerun_warning": "too little memory"},
    )
    with world.store.write() as writer:
        assert writer.jobs.add_attempt(job.id, new, who="anna", why="again") is not None


class TestAttempts:
    def test_a_rerun_keeps_the_failed_attempt_with_its_series(self, world: World) -> None:
        job_id = world.create()["id"]
        with world.store.write() as writer:
            writer.series.add(job_id, "training", points(1, 2, 3))
        world.bring_to(S.ERROR)
        first = world.job().attempt_id
        rerun(world)
        with world.store.write() as writer:
            writer.series.truncate(job_id, "training", 2)
            writer.series.add(job_id, "training", points(3, 4))
        with world.store.read() as reader:
            old = reader.attempts.by_id(first)
            assert old is not None
            assert (old.status, old.metrics and [p["step"] for p in old.metrics["loss"]]) == (
                S.ERROR,
                [1, 2, 3],
            )
            assert [point["step"] for point in reader.series.documents(job_id)["loss"]] == [1, 2, 3, 4]
            assert [one.seq for one in reader.attempts.of_job(job_id).items] == [1, 0]
            assert reader.attempts.of_job(job_id, statuses=frozenset({S.ERROR})).total == 1
        assert (world.job().status, world.job().attempt_seq) == (S.CREATED, 1)

    def test_only_a_job_in_error_gets_a_new_attempt(self, world: World) -> None:
        world.create()
        job = world.job()
        new = NewAttempt(id="a", step_id="s", created_by="anna", spec={}, platform_spec=job.platform_spec)
        with world.store.write() as writer:
            assert writer.jobs.add_attempt(job.id, new, who="anna", why="again") is None

    def test_the_training_step_takes_over_digest_and_warning_not_the_first_step(self, world: World) -> None:
        world.create(steps=(DOWNLOAD, TRAINING, UPLOAD))
        world.bring_to(S.COMPLETED)
        world.bring_to(S.ACTIVE)
        world.move(StatusEvent.FAILED, details={"image_digest": "sha256:old"})
        rerun(world)
        assert "rerun_warning" not in world.step().status_details
        world.move(StatusEvent.OUTPUTS_VERIFIED)
        training = world.step()
        assert training.status_details == {
            "image_digest_at_save": "sha256:old",
            "rerun_warning": "too little memory",
        }
        with world.store.write() as writer:
            earlier = writer.steps.earlier(training)
            noted = writer.steps.note_image(training.id, "sha256:new", "the image trainer:1")
        assert earlier is not None
        assert earlier.status is S.ERROR
        assert noted is not None
        assert "it was sha256:old, it is sha256:new" in noted.status_details["image_digest_warning"]


class TestStorageWindows:
    def test_storage_is_reclaimed_once_and_only_from_jobs_that_do_not_want_it(self, world: World) -> None:
        job_id = world.create()["id"]
        world.bring_to(S.PAUSED)
        with world.store.write() as writer:
            writer.checkpoints.put(checkpoint(job_id, 5))
            writer.checkpoints.put(checkpoint(job_id, 6, pinned_at=1, pinned_path="pinned/6"))
            assert writer.jobs.reclaim_storage(job_id) is None
            assert [one.id for one in writer.jobs.settled({S.PAUSED})] == [job_id]
            assert writer.jobs.settled({S.ERROR}) == []
            writer.statuses.move(
                world_job_step(writer),
                StatusChange(StatusEvent.WINDOW_EXPIRED, who="retention", why="7 days are over"),
            )
            reclaimed = writer.jobs.reclaim_storage(job_id)
            assert writer.jobs.reclaim_storage(job_id) is None
            assert {one.id: one.present for one in writer.checkpoints.of_job(job_id)} == {"ckpt-6": False}
        assert reclaimed is not None
        assert reclaimed.storage_reclaimed_at == world.clock.now()
        assert world.move(StatusEvent.STOPPED).job.reason == "pause_window_ended"
        assert "storage_reclaimed_at" in world.job().status_details

    def test_sizes_are_added_up(self, world: World) -> None:
        first, second = world.create("job-1"), world.create("job-2")
        with world.store.write() as writer:
            writer.jobs.set_storage_bytes(first["id"], 10)
            writer.jobs.set_storage_bytes(second["id"], 5)
            assert (writer.jobs.storage_bytes("default"), writer.jobs.storage_bytes(None)) == (15, 15)
            assert writer.jobs.storage_bytes("other") == 0


class TestRecords:
    def test_a_point_is_there_once_however_often_it_is_written(self, world: World) -> None:
        job_id = world.create()["id"]
        with world.store.write() as writer:
            writer.series.add(job_id, "training", points(1, 2))
            writer.series.add(job_id, "training", [MetricPoint(step=2, epoch=None, name="loss", value=7.0)])
            writer.series.add(job_id, "training", [])
            writer.series.set_tail(job_id, "training/metrics.jsonl", 10)
            writer.series.set_tail(job_id, "training/metrics.jsonl", 20)
            assert [(p["step"], p["value"]) for p in writer.series.documents(job_id)["loss"]] == [
                (1, 1.0),
                (2, 7.0),
            ]
            assert (
                writer.series.tail(job_id, "training/metrics.jsonl"),
                writer.series.tail(job_id, "other"),
            ) == (20, 0)

    def test_a_pin_is_asked_for_and_answered(self, world: World) -> None:
        job_id = world.create()["id"]
        with world.store.write() as writer:
            writer.checkpoints.put(checkpoint(job_id, 5))
            writer.checkpoints.request_pin(job_id, "ckpt-5", by="anna", pin=True)
            writer.checkpoints.put(checkpoint(job_id, 5, verified_at=9))
            assert [one.id for one in writer.checkpoints.pin_requests()] == ["ckpt-5"]
            writer.checkpoints.set_pinned(job_id, "ckpt-5", "pinned/5")
            found = writer.checkpoints.find(job_id, "ckpt-5")
            assert found is not None
            assert (found.pinned_path, found.verified_at, writer.checkpoints.pin_requests()) == (
                "pinned/5",
                9,
                [],
            )
            writer.checkpoints.drop(job_id, keep=[])
            writer.checkpoints.request_pin(job_id, "ckpt-5", by="anna", pin=False)
            assert [one.id for one in writer.checkpoints.pin_requests()] == ["ckpt-5"]
            writer.checkpoints.set_pinned(job_id, "ckpt-5", None)
            assert writer.checkpoints.of_job(job_id) == []
            assert writer.checkpoints.request_pin(job_id, "ckpt-5", by="anna", pin=True) is None

    def test_a_pin_that_cannot_be_made_is_withdrawn_with_its_reason(self, world: World) -> None:
        job_id = world.create()["id"]
        with world.store.write() as writer:
            writer.checkpoints.put(checkpoint(job_id, 5))
            writer.checkpoints.request_pin(job_id, "ckpt-5", by="anna", pin=True)
            writer.checkpoints.set_pinned(job_id, "ckpt-5", None, problem="a file is damaged")
            assert writer.checkpoints.pin_requests() == []
            assert [one.problem for one in writer.checkpoints.of_job(job_id)] == ["a file is damaged"]

    def test_tokens_secrets_and_workspaces(self, world: World) -> None:
        token = Token(
            id="t1", name="ci", digest="d1", role="read", workspace=None, created_at=1, created_by="anna",
            expires_at=None, revoked_at=None, last_used_at=None,
        )  # fmt: skip
        secret = SecretRow(
            workspace="default", name="key", description=None, created_by="anna", created_at=1, updated_at=1
        )
        with world.store.write() as writer:
            writer.tokens.put(token)
            writer.tokens.touch("t1")
            assert writer.tokens.by_digest("d1") == replace(token, last_used_at=world.clock.now())
            assert writer.tokens.revoke("ci") == replace(
                token, last_used_at=world.clock.now(), revoked_at=world.clock.now()
            )
            assert writer.tokens.revoke("nobody") is None
            assert [one.id for one in writer.tokens.all()] == ["t1"]
            writer.secrets.put(secret)
            writer.secrets.put(replace(secret, updated_at=2, created_by="bert"))
            assert writer.secrets.find("default", "key") == replace(secret, updated_at=2)
            assert [
                len(writer.secrets.in_workspace("default")),
                len(writer.secrets.in_workspace(None)),
                len(writer.secrets.in_workspace("x")),
            ] == [
                1,
                1,
                0,
            ]
            assert (writer.secrets.remove("default", "key"), writer.secrets.remove("default", "key")) == (
                True,
                False,
            )
            other = WorkspaceRow(name="research", description="ours", created_at=1)
            assert (writer.workspaces.put(other), writer.workspaces.put(other)) == (True, False)
            assert [one.name for one in writer.workspaces.all()] == ["default", "research"]
            assert (writer.workspaces.remove("research"), writer.workspaces.remove("research")) == (
                True,
                False,
            )
        world.create()
        with pytest.raises(StateConflictError, match="has 1 job;"), world.store.write() as writer:
            writer.workspaces.remove("default")

    def test_results_are_named_once(self, world: World) -> None:
        job_id = world.create()["id"]
        with world.store.write() as writer:
            writer.results.put(job_id, "model", "fileset://a", "fileset")
            assert [
                one.name for one in writer.results.of_job(job_id, attempt_id=world_job(writer).attempt_id)
            ] == ["model"]
            assert writer.results.of_job(job_id, attempt_id="other") == []
        with (
            pytest.raises(StateConflictError, match="has a result named model"),
            world.store.write() as writer,
        ):
            writer.results.put(job_id, "model", "fileset://b", "fileset")


class TestLists:
    def test_pages_are_filtered_sorted_and_counted_by_the_database(self, world: World) -> None:
        for number in range(7):
            world.clock.advance(1)
            world.create(f"job-{number}", spec={"number": number}, source="a" if number % 2 else "b")
        world.clock.advance(1)
        world.move(StatusEvent.CANCEL_REQUESTED, "job-3")
        with world.store.read() as reader:

            def names(**query: Any) -> list[str]:
                return [
                    job.name for job in reader.jobs.page(JobQuery(**{"workspace": "default", **query})).items
                ]

            assert names(page_size=3) == ["job-6", "job-5", "job-4"]
            assert names(page_size=3, page=3) == ["job-0"]
            assert names(sort="created_at", page_size=2) == ["job-0", "job-1"]
            assert names(sort="-updated_at", page_size=1) == ["job-3"]
            assert set(names(sort="source", page_size=3)) == {"job-1", "job-3", "job-5"}
            assert reader.jobs.page(JobQuery(workspace="default", page=9)).total == 7
            assert reader.jobs.counts("default") == {S.CREATED: 6, S.CANCELLED: 1}
            assert reader.jobs.counts("other") == {}
            assert [job.name for job in reader.jobs.in_status(S.CANCELLED, 5)] == ["job-3"]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('{"spec.n": 2}', {"two"}),
            ("spec.n:2", {"two"}),
            ("spec.n>1", {"two"}),
            ("spec.n>=1", {"one", "two"}),
            ("spec.t:true", {"one"}),
            ("spec.t:false", {"two"}),
            ("spec.name:two", {"two"}),
            ('spec.name~"WO_%"', set()),
            ("spec.name~two", {"two"}),
            ("spec.deep.list.0:5", {"one"}),
            ('{"spec.deep.list": {"$elemMatch": 6}}', {"one"}),
            ('{"spec.deep": {"$hasKey": "list"}}', {"one"}),
            ('{"spec.deep": {"$exists": false}}', {"two", "none"}),
            ('{"spec.n": {"$nin": [1]}}', {"two", "none"}),
            ('{"spec.n": null}', {"none"}),
            ('{"spec.deep.list": {"$contains": "x"}}', {"one"}),
            ("spec.n>abc", set()),
            ('{"name": {"$startsWith": "t"}}', {"two"}),
            ('{"name": {"$endsWith": "E"}}', {"one", "none"}),
            ('{"name": {"$like": "%n%e"}}', {"one", "none"}),
            ('{"project": null}', {"one", "two", "none"}),
            ('{"project": {"$exists": true}}', set()),
            ("name IN [one, two] -name:one", {"two"}),
            ("NOT (name:one OR name:two)", {"none"}),
            ("name NOT IN [one]", {"two", "none"}),
            ("status:created created_at>2020-01-01", {"one", "two", "none"}),
            ("created_at<2020-01-01T00:00:00Z", set()),
            ('{"status": {"$in": ["error", "paused"]}}', set()),
            ('{"$or": [{"name": "one"}, {"$and": [{"name": "two"}, {"spec.n": "2"}]}]}', {"one", "two"}),
            ('{"$not": {"spec.n": 1}}', {"two", "none"}),
            ('{"spec.n": {"$lt": 9e307}}', {"one", "two"}),
        ],
    )
    def test_a_filter_finds_the_same_on_both_databases(
        self, world: World, text: str, expected: set[str]
    ) -> None:
        spec = {"n": 1, "t": True, "name": "one", "deep": {"list": [5, 6, "x"]}}
        world.create("one", spec=spec)
        world.create("two", spec={"n": 2.0, "t": False, "name": "two"})
        world.create("none", spec={})
        where = parse.parse([("filter", text)]).tree
        with world.store.read() as reader:
            page = reader.jobs.page(JobQuery(workspace=None, where=where))
        assert {job.name for job in page.items} == expected
        assert page.total == len(expected)

    def test_a_page_by_a_value_of_the_spec_is_ordered_and_counted_over_all_that_it_may_mean(
        self, world: World
    ) -> None:
        for number in range(9):
            world.clock.advance(1)
            world.create(f"job-{number}", spec={"a": {"n": "7" if number % 2 else 7}, "other": number})
        world.create("else", spec={"a": {"n": "seven"}, "n": 7})
        where = parse.parse([("filter[spec.a.n]", "7")]).tree

        def names(**query: Any) -> tuple[list[str], int]:
            with world.store.read() as reader:
                found = reader.jobs.page(JobQuery(**{"where": where, "page_size": 4, **query}))
            return [job.name for job in found.items], found.total

        for workspace in ("default", None):
            assert names(workspace=workspace) == (["job-8", "job-7", "job-6", "job-5"], 9)
            assert names(workspace=workspace, page=3) == (["job-0"], 9)
            assert names(workspace=workspace, sort="created_at")[0] == ["job-0", "job-1", "job-2", "job-3"]
            assert names(workspace=workspace, page=4) == ([], 9)
        assert names(workspace="other") == ([], 0)

    def test_what_the_index_of_specs_lacks_is_found_in_the_specs(self, world: World) -> None:
        long = "x" * 300
        many = {f"key-{number}": number for number in range(values.MOST + 1)}
        world.create("plain", spec={"n": 1, "long": long})
        world.create("many", spec={"n": 1, **many})
        world.create("other", spec={"n": 2, "deep": {"n": 1}})
        for text_, expected in (
            ("spec.n:1", {"plain", "many"}),
            ("spec.key-9:9", {"many"}),
            (f'{{"spec.long": "{long}"}}', {"plain"}),
            ("spec.deep.n:1", {"other"}),
            ("spec.n:1 AND name:many", {"many"}),
        ):
            assert _found(world, text_) == expected, text_

    def test_specs_from_before_the_index_are_found_before_and_after_they_are_put_in(
        self, world: World
    ) -> None:
        for number in range(5):
            world.create(f"job-{number}", spec={"n": number % 2})
        with world.store.engine.execution_options(writes=True).begin() as connection:
            connection.execute(text("DELETE FROM spec_values"))
            connection.execute(text("UPDATE jobs SET spec_indexed = 0"))
        for left in (True, True, False):  # each unit is as good as a start after a crash
            assert _found(world, "spec.n:1") == {"job-1", "job-3"}
            with world.store.write() as writer:
                assert writer.jobs.index_specs(2) is left
        assert _found(world, "spec.n:1") == {"job-1", "job-3"}
        with world.store.read() as reader:
            assert reader.session.connection.execute(text("SELECT count(*) FROM spec_values")).scalar() == 5

    def test_a_job_that_is_removed_leaves_the_index_of_specs(self, world: World) -> None:
        world.create("job-1", spec={"n": 1})
        world.move(StatusEvent.CANCEL_REQUESTED)
        with world.store.write() as writer:
            job = writer.jobs.find("default", "job-1")
            assert job is not None
            writer.statuses.move_job(job.id, StatusEvent.DELETE_REQUESTED, who="anna", why="asked")
            assert writer.jobs.remove(job.id)
        with world.store.read() as reader:
            found = reader.jobs.page(
                JobQuery(workspace="default", where=parse.parse([("filter", "spec.n:1")]).tree)
            )
        assert (found.items, found.total) == ((), 0)

    def test_steps_come_oldest_first_with_what_running_them_takes(self, world: World) -> None:
        world.create("job-1", steps=(DOWNLOAD, TRAINING))
        world.clock.advance(1)
        world.create("job-2")
        world.bring_to(S.ACTIVE, "job-2")
        with world.store.read() as reader:
            found = reader.steps.contexts(StepQuery())
            active = reader.steps.contexts(StepQuery(statuses=frozenset({S.ACTIVE}), source="tests", limit=1))
            assert reader.steps.contexts(StepQuery(workspace="other")).total == 0
        assert [context.job_name for context in found.items] == ["job-1", "job-2"]
        assert (found.items[0].planned_steps, found.items[0].is_current) == (2, True)
        assert (active.total, active.items[0].job_name) == (1, "job-2")

    def test_a_long_list_takes_as_many_statements_as_a_short_one(self, world: World) -> None:
        from sqlalchemy import event

        counted = []
        listener = lambda *args: counted.append(args[2])  # noqa: E731
        event.listen(world.store.engine, "before_cursor_execute", listener)
        numbers = []
        for count in (1, 9):
            while len(world.service.list_jobs("default", page_size=100)["data"]) < count:
                world.create(f"job-{world.clock.now()}-{len(counted)}")
            counted.clear()
            world.service.list_jobs("default", page_size=100)
            numbers.append(len(counted))
        event.remove(world.store.engine, "before_cursor_execute", listener)
        assert numbers[0] == numbers[1]


class TestThreads:
    def test_threads_write_and_read_at_once_without_an_error_and_without_losing_anything(
        self, world: World
    ) -> None:
        errors: list[BaseException] = []
        ids = [world.create(f"job-{number}")["id"] for number in range(4)]

        def write(number: int) -> None:
            try:
                for count in range(15):
                    with world.store.write() as writer:
                        before = writer.series.tail(ids[number % 4], "shared")
                        writer.series.set_tail(ids[number % 4], "shared", before + 1)
                    with world.store.read() as reader:
                        reader.jobs.page(JobQuery(workspace="default"))
                        assert reader.series.tail(ids[number % 4], "shared") > count
            except BaseException as error:  # noqa: BLE001
                errors.append(error)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        with world.store.read() as reader:
            assert [reader.series.tail(job_id, "shared") for job_id in ids] == [45] * 4

    def test_of_many_who_move_a_step_one_succeeds(self, world: World) -> None:
        world.create()
        step = world.step()
        won: list[StatusEvent] = []
        barrier = threading.Barrier(6)

        def move(event: StatusEvent) -> None:
            barrier.wait()
            with world.store.write() as writer:
                if writer.statuses.move(
                    step.id, StatusChange(event, version=step.version, who="x", why="race")
                ):
                    won.append(event)

        events = [StatusEvent.PAUSE_REQUESTED, StatusEvent.CANCEL_REQUESTED, StatusEvent.DEFERRED] * 2
        threads = [threading.Thread(target=move, args=(event,)) for event in events]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert world.step().version == step.version + 1


def test_series_are_documents_of_their_points_in_order(world: World) -> None:
    job_id = world.create()["id"]
    points = [MetricPoint(step=step, epoch=step / 3, name="train_loss", value=0.1 * step) for step in (2, 1)]
    with world.store.write() as writer:
        writer.series.add(
            job_id, "training", [*points, MetricPoint(step=1, epoch=None, name="lr", value=1e-9)]
        )
    with world.store.read() as reader:
        assert reader.series.documents(job_id) == {
            "lr": [{"step": 1, "epoch": None, "value": 1e-9}],
            "train_loss": [
                {"step": 1, "epoch": 1 / 3, "value": 0.1},
                {"step": 2, "epoch": 2 / 3, "value": 0.2},
            ],
        }


def test_what_has_changed_after_a_moment_is_found_in_each_workspace(world: World) -> None:
    first = world.create("one")["id"]
    then = world.clock.now()
    world.clock.advance(5)
    second = world.create("two")["id"]
    with world.store.write() as writer:
        writer.tasks.insert(writer.steps.current(writer.jobs.by_id(second).attempt_id), "task-1")
        writer.jobs.set_custom_fields(second, {"tags": ["a"]})
        writer.jobs.set_custom_fields(first, {})
    with world.store.read() as reader:
        jobs = reader.jobs
        assert jobs.changed_to() == {"default": world.clock.now()}
        assert set(jobs.changed_after("default", then)) == {first, second}
        assert jobs.changed_after("default", world.clock.now()) == []
        assert (jobs.ids(), jobs.number()) == ({first, second}, 2)
        found = {job.id: job.custom_fields for job in jobs.those([first, second, "nobody"])}
        assert found == {first: None, second: {"tags": ["a"]}}
        assert jobs.those([]) == []
        assert reader.tasks.details_of([first, second]) == {second: [{}]}
