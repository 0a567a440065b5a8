"""Turns of unfinished rollouts: there for the next attempt, gone with the result, never a guess."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.errors import ResumeRefusedError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.store import OutputStore
from nemo_gym.rollouts.run_config.identity import Identity
from nemo_gym.types import Task
from nemo_runs.clock import MovableClock

FIRST, SECOND = Task(0, 0, {}), Task(1, 0, {})


@pytest.fixture
def paths(tmp_path: Path) -> RolloutPaths:
    return RolloutPaths(tmp_path / "rollouts.jsonl")


def rows() -> Iterator[bytes]:
    for task in range(2):
        yield b'{"_ng_task_index":%d,"_ng_rollout_index":0}' % task


def opened(paths: RolloutPaths, *, resume: bool = True) -> OutputStore:
    given: dict[str, Any] = {"num_tasks": 2, "num_repeats": 1, "max_attempts": 3, "allow_unsafe": False}
    return OutputStore.open(
        paths,
        identity=Identity({"a": 1}, {}),
        rows=rows,
        resume=resume,
        link={},
        clock=MovableClock(),
        **given,
    )


def test_entries_outlive_the_process_and_go_with_the_result(paths: RolloutPaths) -> None:
    with opened(paths) as store:
        store.add_turn(FIRST, {"response": 1})
        store.add_turn(SECOND, {"response": 2})
        store.add_turn(FIRST, {"results": 1})
        assert list(store.turns(FIRST)) == [{"response": 1}, {"results": 1}]
    with opened(paths) as store:
        assert list(store.turns(FIRST)) == [{"response": 1}, {"results": 1}]
        store.record(FIRST, {"reward": 1.0})
        assert list(store.turns(FIRST)) == []
        store.add_turn(SECOND, {"results": 2})
    with opened(paths) as store:
        assert list(store.turns(FIRST)) == []
        assert list(store.turns(SECOND)) == [{"response": 2}, {"results": 2}]
        assert len(paths.turns.read_bytes().splitlines()) == 2
        store.answer(SECOND, {"response": {}})
        store.tick()
    assert paths.answers.exists()
    assert not paths.turns.exists()


def test_turns_alone_are_recorded_work(paths: RolloutPaths) -> None:
    with opened(paths) as store:
        store.add_turn(FIRST, {"response": 1})
    with pytest.raises(ResumeRefusedError, match="holds rollouts already"):
        opened(paths, resume=False)


def test_a_torn_or_damaged_entry_ends_what_counts_of_its_rollout(paths: RolloutPaths) -> None:
    with opened(paths) as store:
        for number in range(4):
            store.add_turn(FIRST, {"response": number})
        store.add_turn(SECOND, {"response": 9})
    lines = paths.turns.read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b"response", b"resqonse")
    paths.turns.write_bytes(b"\n".join(lines)[:-9])
    with opened(paths) as store:
        assert list(store.turns(FIRST)) == [{"response": 0}, {"response": 1}]
        assert list(store.turns(SECOND)) == []
        assert len(store.opened.repaired) == 2
        store.add_turn(FIRST, {"response": 5})
    with opened(paths) as store:
        assert list(store.turns(FIRST)) == [{"response": 0}, {"response": 1}, {"response": 5}]


def test_a_run_that_stores_no_turns_has_no_such_file(paths: RolloutPaths) -> None:
    with opened(paths) as store:
        store.record(FIRST, {"reward": 1.0})
        store.tick()
        assert not paths.turns.exists()
