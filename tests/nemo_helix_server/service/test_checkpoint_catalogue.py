"""A pin is a promise from its answer on: neither the trainer nor a storage window removes what it names."""

import contextlib
import threading

import pytest
from tests.helix_workplace import Workplace, shell, training
from tests.nemo_helix_server.storage.test_checkpoints import save

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.errors import StateConflictError, UnknownNameError
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.service.checkpoint_catalogue import CheckpointCatalogue
from nemo_helix_server.storage import checkpoints
from nemo_helix_server.storage.trainer_files import LocalTrainerFiles
from nemo_trainer import contract, retention

pytestmark = pytest.mark.services

ANN = Caller(name="ann")


def catalogue_of(place):
    return CheckpointCatalogue(place.store, place.executors.files, place.controller.wake)


def job_with_checkpoints(place, *steps):
    """A failed job whose storage has these checkpoints, and they are in the store."""
    job = place.job(shell("true"))
    for step in steps:
        save(place.trainer(job, "main"), step)
    place.controller.run_once()
    place.controller.run_once()
    place.executor.machine.begin(place.step_of(job).task)
    place.executor.machine.end(place.step_of(job).task, 1)
    while place.get(job).status is not Status.ERROR:
        place.controller.run_once()
    return job, catalogue_of(place).all("default", job)["data"]


def prune(place, job):
    paths = contract.TrainerPaths(place.trainer(job, "main"))
    return retention.prune(paths, keep=2, best=None, verified=lambda _: True)


def test_what_is_asked_to_be_pinned_is_not_pruned_any_more(place):
    job, found = job_with_checkpoints(place, 1, 2, 3, 4)
    oldest = found[-1]
    catalogue_of(place).pin(ANN, "default", job, oldest["id"])
    assert prune(place, job) == [2]
    place.controller.background.run()
    shown = catalogue_of(place).get("default", job, oldest["id"])
    assert shown["pinned"]
    assert contract.verify(place.folder / shown["location"], deep=True) == []


def test_what_is_gone_by_now_cannot_be_pinned(place):
    job, found = job_with_checkpoints(place, 1, 2, 3)
    assert prune(place, job) == [1]
    with pytest.raises(StateConflictError, match="not in the storage"):
        catalogue_of(place).pin(ANN, "default", job, found[-1]["id"])
    assert catalogue_of(place).get("default", job, found[-1]["id"])["pinned"] is False


def test_whoever_is_told_that_a_checkpoint_is_held_finds_it_later(place):
    """The trainer prunes at the very same moment, many times over."""
    job, _ = job_with_checkpoints(place, 1)
    trainer = place.trainer(job, "main")
    step_id = place.step_of(job).id
    with place.store.read() as unit:
        context = unit.steps.context(step_id)
    for first in range(10, 210, 5):
        for step in range(first, first + 4):
            save(trainer, step)
        rows = [
            row
            for row in checkpoints.scan(context, LocalTrainerFiles(trainer, trainer.parent), 0)
            if row.step == first
        ]
        pruning = threading.Thread(target=prune, args=(place, job))
        pruning.start()
        held = checkpoints.hold(place.storage, rows[0])
        pruning.join()
        assert (checkpoints.folder_of(place.storage, rows[0]) is not None) is held


def test_a_look_at_the_folder_does_not_forget_what_is_to_be_pinned(place):
    job, found = job_with_checkpoints(place, 1, 2)
    catalogue_of(place).pin(ANN, "default", job, found[-1]["id"])
    with place.store.write() as unit:
        unit.checkpoints.drop(job, keep=[])
        assert [row.id for row in unit.checkpoints.of_job(job)] == [found[-1]["id"]]
    place.controller.background.run()
    assert catalogue_of(place).get("default", job, found[-1]["id"])["pinned"]


def test_a_storage_window_waits_for_a_pin_that_is_being_made(place, clock):
    job, found = job_with_checkpoints(place, 1)
    catalogue_of(place).pin(ANN, "default", job, found[0]["id"])
    clock.advance(5 * 3600)
    place.controller.windows.run()
    assert place.get(job).storage_reclaimed_at is None
    place.controller.background.run()
    place.controller.windows.run()
    assert place.get(job).storage_reclaimed_at is not None
    assert catalogue_of(place).get("default", job, found[0]["id"])["pinned"]


def test_a_checkpoint_that_a_link_leads_to_is_none(place, tmp_path):
    job, found = job_with_checkpoints(place, 3)
    own, elsewhere = place.trainer(job, "main"), tmp_path / "elsewhere"
    own.rename(elsewhere)
    own.symlink_to(elsewhere)
    with pytest.raises(StateConflictError):
        catalogue_of(place).pin(ANN, "default", job, found[0]["id"])
    assert not (elsewhere / "checkpoints" / "3" / contract.PINNED).exists()
    with pytest.raises(checkpoints.PinError), place.store.read() as unit:
        checkpoints.pin(place.storage, unit.checkpoints.find(job, found[0]["id"]))


def test_a_mark_is_made_where_the_checkpoint_is_and_nowhere_else(place, tmp_path):
    job, found = job_with_checkpoints(place, 3)
    mark = place.trainer(job, "main") / "checkpoints" / "3" / contract.PINNED
    mark.symlink_to(tmp_path / "planted")
    with contextlib.suppress(StateConflictError):
        catalogue_of(place).pin(ANN, "default", job, found[0]["id"])
    assert not (tmp_path / "planted").exists()


@pytest.mark.e2e
@pytest.mark.slow
def test_a_checkpoint_of_a_running_training_is_pinned_while_others_come_and_go(tmp_path):
    place = Workplace(tmp_path / "data").start()
    try:
        job = place.job(training(150, 0.02, "--save-every", 2))
        catalogue = catalogue_of(place)
        promised = []

        def pinned_three():
            for found in catalogue.all("default", job)["data"]:
                if found["id"] not in promised and len(promised) < 3:
                    with contextlib.suppress(StateConflictError, UnknownNameError):
                        catalogue.pin(ANN, "default", job, found["id"])
                        promised.append(found["id"])
            return len(promised) == 3

        place.wait_for(pinned_three, lambda: promised)
        place.until(job, Status.COMPLETED)
        place.wait_for(lambda: all(catalogue.get("default", job, name)["pinned"] for name in promised))
        for name in promised:
            copy = place.folder / catalogue.get("default", job, name)["location"]
            assert contract.verify(copy, deep=True) == []
    finally:
        place.close()
