"""Storage windows, deletion and pins, with a clock that is moved."""

import pytest
from tests.helix_workplace import Workplace, shell

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.executors.fake import FakeMachine, FakeStepExecutor
from nemo_helix_server.jobs.model import CheckpointRow
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.storage import checkpoints
from nemo_helix_server.storage.run_storage import LocalRunStorage
from nemo_runs.clock import MovableClock
from nemo_trainer import contract

pytestmark = pytest.mark.services

DAY = 24 * 3600


@pytest.fixture
def clock():
    return MovableClock()


@pytest.fixture
def place(tmp_path, clock):
    machine = FakeMachine(clock)
    place = Workplace(tmp_path / "data", clock=clock, executor=FakeStepExecutor(machine))
    yield place
    place.close()


def passes(place, count=6):
    for _ in range(count):
        place.clock.advance(0.5)
        place.controller.wake()
        place.controller._windows_due = 0.0
        place.controller.run_once()
        place.controller.background.run()


def storage_of(place, job):
    return place.storage.paths("default", job).storage


def paused_job(place, **changes):
    job = place.job(shell("true", name="training", pause=60), **changes)
    place.pause(job)
    passes(place, 1)
    place.pause(job)
    passes(place, 1)
    assert place.get(job).status is Status.PAUSED
    (storage_of(place, job) / "kept").touch()
    return job


def failed_job(place, **changes):
    job = place.job(shell("true"), **changes)
    passes(place, 2)
    token = place.step_of(job).task
    place.executor.machine.begin(token)
    place.executor.machine.end(token, 1)
    passes(place, 2)
    assert place.get(job).status is Status.ERROR
    return job


def test_a_paused_job_keeps_its_storage_for_its_window_and_is_then_cancelled_for_that_reason(place, clock):
    job = paused_job(place)
    clock.advance(7 * DAY - 60)
    passes(place)
    assert place.get(job).status is Status.PAUSED
    assert (storage_of(place, job) / "kept").exists()
    clock.advance(61)
    passes(place)
    ended = place.get(job)
    assert (ended.status, ended.reason) == (Status.CANCELLED, "pause_window_ended")
    assert ended.storage_reclaimed_at is not None
    assert not storage_of(place, job).exists()
    assert not list(place.storage.trash.iterdir())


def test_changing_the_window_does_not_restart_it(place, clock):
    job = paused_job(place)
    clock.advance(6 * DAY)
    passes(place)
    with place.store.write() as unit:
        unit.jobs.set_control(job, pause_ttl_seconds=8 * DAY, failed_ttl_seconds=None)
    clock.advance(2 * DAY - 60)
    passes(place)
    assert place.get(job).status is Status.PAUSED
    clock.advance(61)
    passes(place)
    assert place.get(job).status is Status.CANCELLED


def test_a_resume_before_the_window_ends_keeps_the_storage_and_one_after_it_is_refused(place, clock):
    early, late = paused_job(place), paused_job(place)
    clock.advance(7 * DAY + 1)
    assert place.ask(early, StatusEvent.RESUME_REQUESTED) is not None
    passes(place)
    assert (storage_of(place, early) / "kept").exists()
    assert place.ask(late, StatusEvent.RESUME_REQUESTED) is None
    assert place.get(late).status is Status.CANCELLED
    assert not storage_of(place, late).exists()


@pytest.mark.parametrize("jump", [-3600, 8 * DAY, -365 * DAY, 365 * DAY])
def test_a_clock_that_is_set_ends_no_window_and_prolongs_none(place, clock, jump):
    job = paused_job(place)
    clock.step(jump)
    passes(place)
    assert place.get(job).status is Status.PAUSED
    assert (storage_of(place, job) / "kept").exists()
    clock.advance(7 * DAY)
    passes(place)
    assert place.get(job).status is Status.CANCELLED
    clock.step(-30 * DAY)
    passes(place)
    assert place.history(job).count("cancelling>cancelled") == 1


def test_a_failed_job_loses_its_storage_after_its_window_and_stays_failed(place, clock):
    job, longer = failed_job(place), failed_job(place, failed_ttl_seconds=8 * 3600)
    clock.advance(4 * 3600 + 1)
    passes(place)
    assert place.get(job).status is Status.ERROR
    assert place.get(job).storage_reclaimed_at is not None
    assert not storage_of(place, job).exists()
    assert storage_of(place, longer).exists()
    clock.advance(4 * 3600)
    passes(place)
    assert not storage_of(place, longer).exists()


def test_what_ended_while_the_service_slept_keeps_its_window_from_when_it_could_first_be_seen(place, clock):
    job = place.job(shell("true"))
    passes(place, 2)
    token = place.step_of(job).task
    place.executor.machine.begin(token)
    passes(place, 2)
    place.executor.machine.end(token, 1)
    clock.advance(30 * DAY)  # nobody looks
    passes(place)
    assert place.get(job).status is Status.ERROR
    assert storage_of(place, job).exists()
    clock.advance(4 * 3600 - 60)
    passes(place)
    assert storage_of(place, job).exists()
    clock.advance(120)
    passes(place)
    assert not storage_of(place, job).exists()


def test_storage_that_a_crash_left_after_it_was_recorded_as_deleted_is_removed_at_the_next_start(
    place, clock
):
    job = failed_job(place)
    with place.store.write() as unit:
        assert unit.jobs.reclaim_storage(job) is not None
    assert storage_of(place, job).exists()
    place.controller.background.reclaims.find()
    place.controller.background.run()
    assert not storage_of(place, job).exists()


class FilesOfACluster(LocalRunStorage):
    """Beside the data directory; it cannot be reached while it is away."""

    def __init__(self, place):
        super().__init__(place.storage)
        self.away, self.tries, self.meanwhile = True, [], lambda: None

    def reclaim(self, workspace, job_id):
        self.reached(job_id)

    def discard(self, workspace, job_id):
        self.reached(job_id)
        super().discard(workspace, job_id)

    def reached(self, job_id):
        self.tries.append(job_id)
        self.meanwhile()
        if self.away:
            raise OSError("the cluster cannot be asked")


@pytest.fixture
def cluster(place):
    files = FilesOfACluster(place)
    place.executor.files = lambda _run: files
    return files


def end_window(place, clock):
    job = failed_job(place)
    clock.advance(4 * 3600 + 1)
    place.controller.run_once()
    assert place.get(job).storage_reclaimed_at is not None
    return job


def test_storage_that_cannot_be_removed_now_is_tried_again_until_it_can(place, clock, cluster):
    job = end_window(place, clock)
    # the thread that decides does not do it
    assert not cluster.tries
    passes(place, 1)
    assert (len(cluster.tries), storage_of(place, job).exists()) == (1, True)
    assert any("the cluster cannot be asked" in one for one in place.controller.problems())
    passes(place, 2)
    assert len(cluster.tries) == 1
    clock.advance(5)
    passes(place, 1)
    assert len(cluster.tries) == 2
    clock.advance(3600)
    cluster.away = False
    passes(place, 4)
    assert (len(cluster.tries), storage_of(place, job).exists()) == (3, False)
    assert not place.controller.problems()


def test_jobs_on_a_cluster_that_is_away_are_deleted_when_it_is_back_and_hold_up_nothing(
    place, clock, cluster
):
    jobs = [failed_job(place) for _ in range(3)]
    with place.store.write() as unit:
        for job in jobs:
            unit.statuses.move_job(job, StatusEvent.DELETE_REQUESTED, who="ann", why="asked")
    for round_ in (1, 2, 3, 4):
        place.controller.background.run()
        # one a round: each may take as long as a connection that does not come
        assert len(cluster.tries) == min(round_, 3)
    assert sum("the cluster cannot be asked" in one for one in place.controller.problems()) == 3
    cluster.away = False
    clock.advance(5)
    place.controller.background.run()
    assert [place.get(job) for job in jobs] == [None] * 3
    assert not place.controller.background.error_isolation.waiting


def test_storage_on_a_cluster_that_a_crash_left_is_removed_there_by_the_next_service(place, clock, cluster):
    job = end_window(place, clock)
    place.controller.background.run()
    assert storage_of(place, job).exists()
    # the service after the crash remembers nothing
    place.controller.background.reclaims._wanted.clear()
    place.controller.background.error_isolation._retries.clear()
    cluster.away = False
    place.controller.background.reclaims.find()
    place.controller.background.run()
    assert (len(cluster.tries), storage_of(place, job).exists()) == (2, False)
    place.controller.background.reclaims.find()
    place.controller.background.run()
    assert len(cluster.tries) == 2


def test_a_job_that_is_to_run_again_before_its_storage_was_removed_keeps_it(place, clock, cluster):
    job = end_window(place, clock)
    place.rerun(job)
    clock.advance(3600)
    passes(place)
    assert not cluster.tries
    assert storage_of(place, job).exists()
    assert place.get(job).status is Status.PENDING


def test_a_job_does_not_start_while_its_earlier_storage_is_being_removed(place, clock, cluster):
    job, seen = end_window(place, clock), []

    def rerun_comes():
        place.rerun(job)
        clock.advance(0.5)
        place.controller.run_once()
        seen.append(place.step_of(job).task)

    cluster.meanwhile, cluster.away = rerun_comes, False
    place.controller.background.run()
    assert seen == [None]
    passes(place, 2)
    assert place.step_of(job).task in place.executor.machine.runs


def test_a_deleted_job_goes_with_its_folder_and_leaves_its_pins(place, clock):
    job = failed_job(place)
    folder = place.trainer(job, "main") / "checkpoints" / "3"
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"12345")
    entry = contract.FileEntry(
        "weights", 5, "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5"
    )
    contract.write_manifest(folder, contract.Manifest(step=3, files=(entry,), job="job", created_at=1.0))
    with place.store.read() as unit:
        (context,) = [
            found
            for found in [unit.steps.context(unit.steps.current(unit.jobs.by_id(job).attempt_id).id)]
            if found is not None
        ]
    place.controller.progress_ingestion.catalogue(context)
    with place.store.write() as unit:
        (known,) = unit.checkpoints.of_job(job)
        unit.checkpoints.request_pin(job, known.id, by="ann", pin=True)
    passes(place, 1)
    with place.store.read() as unit:
        pinned = unit.checkpoints.find(job, known.id)
    assert pinned.pinned_path == f"pinned/default/{known.id}"
    with place.store.write() as unit:
        unit.statuses.move_job(job, StatusEvent.DELETE_REQUESTED, who="ann", why="asked")
    passes(place, 1)
    assert place.get(job) is None
    assert not place.storage.paths("default", job).folder.exists()
    copy = place.folder / pinned.pinned_path
    assert contract.verify(copy, deep=True) == []
    assert isinstance(pinned, CheckpointRow)
    assert checkpoints.folder_of(place.storage, pinned) == copy
    with place.store.write() as unit:
        unit.checkpoints.request_pin(job, known.id, by="ann", pin=False)
    passes(place, 1)
    assert not copy.exists()


def test_a_damaged_checkpoint_is_not_pinned_and_says_why(place, clock):
    job = failed_job(place)
    folder = place.trainer(job, "main") / "checkpoints" / "3"
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(b"12345")
    contract.write_manifest(
        folder,
        contract.Manifest(
            step=3, files=(contract.FileEntry("weights", 5, "0" * 64),), job="j", created_at=1.0
        ),
    )
    with place.store.read() as unit:
        context = unit.steps.context(unit.steps.current(unit.jobs.by_id(job).attempt_id).id)
    place.controller.progress_ingestion.catalogue(context)
    with place.store.write() as unit:
        (known,) = unit.checkpoints.of_job(job)
        unit.checkpoints.request_pin(job, known.id, by="ann", pin=True)
    passes(place, 1)
    with place.store.read() as unit:
        found = unit.checkpoints.find(job, known.id)
    assert found.pinned_path is None
    assert "digest" in found.problem


def test_too_little_space_starts_nothing_and_says_so(tmp_path, clock):
    place = Workplace(
        tmp_path / "data",
        clock=clock,
        executor=FakeStepExecutor(FakeMachine(clock)),
        storage={"minimum_free_bytes": 2**60},
    )
    job = place.job(shell("true"))
    passes(place, 2)
    assert place.get(job).status is Status.QUEUED
    assert "waits for disk space" in place.step_of(job).status_details["message"]
    place.close()


def test_a_machine_that_was_restarted_goes_on_with_trainings_and_fails_the_rest(place, clock):
    trains = place.job(shell("true", name="training", pause=60))
    other = place.job(shell("true"))
    passes(place, 2)
    tokens = {job: place.step_of(job).task for job in (trains, other)}
    for token in tokens.values():
        place.executor.machine.begin(token)
    passes(place, 1)
    for token in tokens.values():
        place.executor.machine.lose(token, interrupted="the machine was restarted")
    passes(place, 3)
    assert (place.get(other).status, place.get(other).reason) == (Status.ERROR, "lost")
    assert place.step_of(trains).status is Status.PENDING
    assert place.get(trains).status is Status.ACTIVE
    assert place.step_of(trains).task != tokens[trains]
    assert "active>resuming" in place.history(trains)
    with place.store.read() as unit:
        assert len(unit.attempts.of_job(trains).items) == 1


def test_an_executor_that_cannot_start_now_is_asked_again_until_the_time_is_over(place, clock):
    place.executor.fail_to_start = "no more processes"
    job = place.job(shell("true"))
    passes(place, 3)
    assert place.get(job).status is Status.PENDING
    says = "its start is tried again: no more processes"
    assert place.step_of(job).status_details["executor_problem"] == says
    assert place.get(job).status_details["executor_problem"] == says
    clock.advance(1801)
    passes(place, 3)
    assert (place.get(job).status, place.get(job).reason) == (Status.ERROR, "start_failed")
