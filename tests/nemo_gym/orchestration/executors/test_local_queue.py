import os

import pytest

from nemo_gym.orchestration.executors.local_queue import MachineShare, QueueTurn
from nemo_runs.leases import machine_leases

pytestmark = pytest.mark.services


def test_turns_are_in_the_order_of_numbers_not_of_asking(tmp_path):
    third, first, second = (QueueTurn(tmp_path, number, 1) for number in (30, 1, 2))
    assert [third.take(), second.take()] == [False, False]
    assert first.take()
    assert first.take()
    assert [third.take(), second.take()] == [False, False]
    first.leave()
    assert [third.take(), second.take()] == [False, True]
    second.leave()
    assert third.take()
    third.leave()


def test_as_many_run_at_once_as_there_are_slots(tmp_path):
    turns = [QueueTurn(tmp_path, number, 2) for number in range(4)]
    assert [turn.take() for turn in turns] == [True, True, False, False]
    turns[1].leave()
    assert [turn.take() for turn in turns[2:]] == [True, False]
    for turn in turns:
        turn.leave()


def test_one_that_gives_up_waiting_holds_nobody_back(tmp_path):
    running, waiting, last = (QueueTurn(tmp_path, number, 1) for number in range(3))
    assert running.take()
    waiting.leave()
    running.leave()
    assert last.take()
    last.leave()


def test_what_a_killed_supervisor_left_behind_is_nobodys_turn(tmp_path):
    for name in ("waiting-000000000001", "running-0", "running0"):
        (tmp_path / name).touch()
    turn = QueueTurn(tmp_path, 2, 1)
    assert turn.take()
    turn.leave()


def test_a_turn_is_not_inherited_by_programs_that_are_started(tmp_path):
    turn = QueueTurn(tmp_path, 1, 1)
    assert turn.take()
    held = [fd for fd in map(int, os.listdir("/proc/self/fd")) if _opens(fd, tmp_path)]
    assert held
    assert not any(os.get_inheritable(fd) for fd in held)
    turn.leave()


def _opens(fd, folder):
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith(str(folder))
    except OSError:
        return False


@pytest.fixture
def environ(tmp_path):
    return {
        "NEMO_LEASES_DIR": str(tmp_path / "leases"),
        "NEMO_LEASES_SLOTS": "2",
        "CUDA_VISIBLE_DEVICES": "4,5",
    }


def share(environ, name, *, gpus=0, slots=1):
    return MachineShare(name, gpus=gpus, slots=slots, environ=environ)


def service_pool(environ):
    """What the Jobs service sees of the same machine."""
    return machine_leases.Pool(
        machine_leases.default_folder(environ), machine_leases.found_devices(environ), 2
    )


def step(name, **fields):
    return machine_leases.LeaseRequest(
        name=name, label="default", ticket=machine_leases.ticket(1.0), **fields
    )


def test_jobs_here_and_steps_of_the_jobs_service_see_each_other(environ):
    pool = service_pool(environ)
    assert pool.acquire(step("task-1", devices=1)) == machine_leases.Granted(("4",), 1)
    first, second = share(environ, "job/b/local-1", gpus=1), share(environ, "job/b/local-2", gpus=1)
    assert first.take()
    assert first.environment == {"NEMO_LEASE": "job/b/local-1", "CUDA_VISIBLE_DEVICES": "5"}
    assert not second.take()
    assert second.reason == (
        "waiting for 1 GPU device: 4 is held by default/task-1, 5 is held by gym/job/b/local-1"
    )
    assert isinstance(pool.acquire(step("task-2")), machine_leases.LeaseWaiting)
    pool.release("task-2")
    first.leave()
    assert second.take()
    second.leave()
    assert [holder.name for holder in pool.holders()] == ["task-1"]


def test_a_job_that_only_asks_others_takes_nothing(environ):
    pool = service_pool(environ)
    pool.acquire(step("task-1", slots=2))
    idle = share(environ, "a", slots=0)
    assert idle.take()
    assert idle.environment == {}
    idle.mark(("A", "b"))
    idle.leave()


def test_what_a_leased_job_starts_lives_on_its_lease(environ):
    outer = share({**environ, "NEMO_LEASES_SLOTS": "1"}, "outer")
    assert outer.take()
    assert share({**environ, "NEMO_LEASES_SLOTS": "1", **outer.environment}, "inner").take()
    assert not share({**environ, "NEMO_LEASES_SLOTS": "1"}, "beside").take()
    outer.leave()


def test_gpus_that_cannot_be_found_are_not_waited_for(environ):
    held = share({**environ, "CUDA_VISIBLE_DEVICES": ""}, "a", gpus=8)
    assert held.take()
    assert "CUDA_VISIBLE_DEVICES" not in held.environment
    held.leave()


def test_a_job_of_more_slots_than_there_are_takes_all(environ):
    assert share(environ, "a", slots=64).take()


def test_where_nothing_can_be_leased_a_job_runs_without_and_a_damaged_book_is_waited_for(
    environ, tmp_path, capsys
):
    (tmp_path / "file").touch()
    alone = share({**environ, "NEMO_LEASES_DIR": str(tmp_path / "file" / "leases")}, "a")
    assert alone.take()
    assert "nothing can be leased here" in capsys.readouterr().err
    alone.leave()
    assert share(environ, "b").take()
    next((tmp_path / "leases").glob("*.json")).write_text("{")
    waiting = share(environ, "c")
    assert not waiting.take()
    assert "is damaged" in waiting.reason
    waiting.leave()
    assert "is damaged" in capsys.readouterr().err
