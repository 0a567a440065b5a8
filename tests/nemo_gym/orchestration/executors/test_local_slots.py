import os

from nemo_gym.orchestration.executors.local_slots import Turn


def test_turns_are_in_the_order_of_numbers_not_of_asking(tmp_path):
    third, first, second = (Turn(tmp_path, number, 1) for number in (30, 1, 2))
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
    turns = [Turn(tmp_path, number, 2) for number in range(4)]
    assert [turn.take() for turn in turns] == [True, True, False, False]
    turns[1].leave()
    assert [turn.take() for turn in turns[2:]] == [True, False]
    for turn in turns:
        turn.leave()


def test_one_that_gives_up_waiting_holds_nobody_back(tmp_path):
    running, waiting, last = (Turn(tmp_path, number, 1) for number in range(3))
    assert running.take()
    waiting.leave()
    running.leave()
    assert last.take()
    last.leave()


def test_what_a_killed_supervisor_left_behind_is_nobodys_turn(tmp_path):
    for name in ("waiting-000000000001", "running-0", "running0"):
        (tmp_path / name).touch()
    turn = Turn(tmp_path, 2, 1)
    assert turn.take()
    turn.leave()


def test_a_turn_is_not_inherited_by_programs_that_are_started(tmp_path):
    turn = Turn(tmp_path, 1, 1)
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
