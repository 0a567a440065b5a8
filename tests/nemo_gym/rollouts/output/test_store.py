"""The store: rows are whole, present once, and belong to what was asked; all else is said and kept aside."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.errors import BusyError, ConfigError, DataError, GymError, ResumeRefusedError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.rows import check_line, decode_row, encode_row
from nemo_gym.rollouts.output.store import OutputStore, SupersededError
from nemo_gym.rollouts.run_config.identity import Identity
from nemo_gym.types import Task
from nemo_runs.clock import MovableClock
from nemo_runs.counts import counted

IDENTITY = Identity({"temperature": 0.0, "num_repeats": 2}, {"verifier": "match"})
Open = Callable[..., OutputStore]


def materialized(tasks: int, repeats: int, text: str = "?") -> Iterator[bytes]:
    for task in range(tasks):
        for rollout in range(repeats):
            yield b'{"_ng_task_index":%d,"_ng_rollout_index":%d,"question":"%s"}' % (
                task,
                rollout,
                text.encode(),
            )


@pytest.fixture
def paths(tmp_path: Path) -> RolloutPaths:
    return RolloutPaths(tmp_path / "rollouts.jsonl")


@pytest.fixture
def open_store(paths: RolloutPaths) -> Iterator[Open]:
    """Opens the output of four tasks with two repeats; what is still open is closed at the end."""
    opened: list[OutputStore] = []

    def open_it(
        *, resume: bool = True, identity: Identity = IDENTITY, tasks: int = 4, **changes: Any
    ) -> OutputStore:
        given: dict[str, Any] = {
            "rows": lambda: materialized(tasks, 2),
            "num_tasks": tasks,
            "num_repeats": 2,
            "max_attempts": 3,
            "allow_unsafe": False,
            "link": {},
            "clock": MovableClock(),
        }
        store = OutputStore.open(paths, identity=identity, resume=resume, **{**given, **changes})
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        store.close()


def record(store: OutputStore, *identities: tuple[int, int], reward: float = 1.0) -> None:
    for task_index, rollout_index in identities:
        store.record(Task(task_index, rollout_index, {}), {"reward": reward})


def fail(store: OutputStore, task_index: int, rollout_index: int, **changes: Any) -> None:
    given: dict[str, Any] = {"failure_class": "agent_request_failed", "failure_type": "transport_timeout"}
    store.fail(Task(task_index, rollout_index, {}), message="no answer", **{**given, **changes})


def identities(tasks: Iterator[Task]) -> list[tuple[int, int]]:
    return [(task.task_index, task.rollout_index) for task in tasks]


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1]


def recorded(paths: RolloutPaths) -> list[tuple[int, int] | None]:
    return [check_line(line) for line in lines(paths.output)]


def pretend_owner_elsewhere(paths: RolloutPaths) -> None:
    """Make the newest claim look like one of a host that has been silent for a minute."""
    claim = max(paths.lock.glob("*.json"))
    values = json.loads(claim.read_bytes())
    values["process"] |= {"host": "other", "boot_id": "other"}
    values["state"] = "held"
    claim.write_text(json.dumps(values))
    os.utime(claim, (0, claim.stat().st_mtime - 60))


def test_a_fresh_output_has_everything_pending_in_order(open_store: Open, paths: RolloutPaths) -> None:
    store = open_store(resume=False)
    tasks = list(store.pending())
    assert identities(iter(tasks)) == [(task, rollout) for task in range(4) for rollout in range(2)]
    assert tasks[3].row == {"_ng_task_index": 1, "_ng_rollout_index": 1, "question": "?"}
    assert (store.opened.fresh, store.opened.pending, store.opened.recorded, store.expected) == (
        True,
        8,
        0,
        8,
    )
    assert paths.materialized_inputs.read_bytes() == b"".join(line + b"\n" for line in materialized(4, 2))
    assert paths.output.read_bytes() == b""


def test_resume_runs_exactly_the_expected_identities_minus_the_recorded_ones(open_store: Open) -> None:
    with open_store(resume=False) as store:
        record(store, (3, 1), (0, 1), (2, 0))
        assert (store.new, store.recorded, store.remaining) == (3, 3, 5)
    store = open_store()
    assert identities(store.pending()) == [(0, 0), (1, 0), (1, 1), (2, 1), (3, 0)]
    assert (store.opened.recorded, store.opened.pending, store.opened.fresh, store.new) == (3, 5, False, 0)
    assert [store.opened.done[index] for index in range(8)] == [0, 1, 0, 0, 1, 0, 0, 1]


def test_nothing_is_pending_when_all_is_recorded(open_store: Open, paths: RolloutPaths) -> None:
    with open_store(resume=False) as store:
        record(store, *identities(store.pending()))
    store = open_store(rows=lambda: pytest.fail("the inputs are there already"))
    assert identities(store.pending()) == []
    assert store.remaining == 0


def test_resume_without_anything_there_is_a_fresh_start(open_store: Open) -> None:
    assert open_store(resume=True).opened.fresh


def test_existing_results_without_resume_are_refused_and_left_alone(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0))
    before = paths.output.read_bytes()
    with pytest.raises(
        GymError,
        match=r"add --resume \(resume_from_cache: true\) to go on with them, or choose another --output",
    ):
        open_store(resume=False)
    assert paths.output.read_bytes() == before
    assert open_store().recorded == 1  # the refused opener let its claim go


def test_inputs_of_an_output_without_results_may_be_replaced_without_resume(open_store: Open) -> None:
    open_store(resume=False).close()
    changed = dataclasses.replace(IDENTITY, generation={"temperature": 1.0})
    store = open_store(resume=False, identity=changed, rows=lambda: materialized(4, 2, "new"))
    assert next(store.pending()).row["question"] == "new"
    assert store.manifest.generation == {"temperature": 1.0}


def test_a_second_result_for_the_same_rollout_is_dropped(open_store: Open, paths: RolloutPaths) -> None:
    store = open_store(resume=False)
    record(store, (0, 0), reward=1.0)
    record(store, (0, 0), reward=0.0)
    assert [decode_row(line)["reward"] for line in lines(paths.output)] == [1.0]
    assert store.new == 1


def test_a_rollout_that_is_not_planned_cannot_be_recorded(open_store: Open) -> None:
    with pytest.raises(IndexError, match="task 4, rollout 0 is not planned here"):
        record(open_store(), (4, 0))


def test_failures_are_kept_with_their_class_and_retried_up_to_the_cap(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False) as store:
        fail(store, 1, 0, http_status=503, response_body="x" * 3000)
        fail(store, 1, 0)
        assert identities(store.retryable()) == [(1, 0)]
    with open_store() as store:  # counted across resumes
        assert store.opened.attempts[2] == 2
        fail(store, 1, 0)
        assert (store.failed, store.exhausted, store.remaining) == (1, 1, 7)
        assert identities(store.retryable()) == []
    store = open_store()
    assert (1, 0) not in identities(store.pending())
    assert (store.opened.exhausted, store.opened.pending) == (1, 7)
    first = decode_row(lines(paths.failures)[0])
    assert first.pop("_ng_failure_response_body") == "x" * 2000
    assert first == {
        "_ng_task_index": 1,
        "_ng_rollout_index": 0,
        "_ng_failure_class": "agent_request_failed",
        "_ng_failure_type": "transport_timeout",
        "_ng_failure_message": "no answer",
        "_ng_failure_http_status": 503,
    }


def test_a_terminal_failure_is_the_last_one(open_store: Open) -> None:
    with open_store(resume=False) as store:
        fail(store, 0, 0, terminal=True)
        assert identities(store.retryable()) == []
        assert store.exhausted == 1
    assert (0, 0) not in identities(open_store(max_attempts=200).pending())


def test_a_failure_that_is_not_counted_costs_no_attempt(open_store: Open) -> None:
    with open_store(resume=False) as store:
        for _ in range(5):
            fail(store, 0, 0, counted=False)
        assert identities(store.retryable()) == [(0, 0)]
    store = open_store()
    assert store.opened.attempts[0] == 0
    assert (0, 0) in identities(store.pending())


def test_the_words_of_a_failure_cannot_make_it_terminal(open_store: Open) -> None:
    with open_store(resume=False) as store:
        store.fail(Task(0, 0, {}), failure_class="c", failure_type="t", message='"_ng_failure_terminal":true')
    assert open_store().opened.attempts[0] == 1


def test_a_result_after_failures_says_how_many_there_were(open_store: Open, paths: RolloutPaths) -> None:
    store = open_store(resume=False)
    fail(store, 0, 0)
    fail(store, 0, 0)
    record(store, (0, 0), (0, 1))
    assert [decode_row(line).get("_ng_attempt_index") for line in lines(paths.output)] == [2, None]
    assert identities(store.retryable()) == []


def test_a_torn_tail_is_put_aside_at_every_byte_of_the_last_row(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0), (0, 1))
    whole = paths.output.read_bytes()
    first, _ = lines(paths.output)
    for cut in {*range(len(first) + 2, len(whole) - 1, 7), len(whole) - 2}:
        paths.output.write_bytes(whole[:cut])
        with open_store() as store:
            assert (0, 1) in identities(store.pending())
            (said,) = store.opened.repaired
            lost = counted(cut - len(first) - 1, "byte was", "bytes were")
            assert f"its last {lost} not a whole row" in said
            record(store, (3, 1))
        assert recorded(paths) == [(0, 0), (3, 1)]
        newest = max(paths.output.parent.glob("rollouts.jsonl.torn-*"), key=lambda path: int(path.suffix[6:]))
        assert newest.read_bytes() == whole[len(first) + 1 : cut]


def test_a_torn_tail_is_put_aside_on_a_fresh_start_too(open_store: Open, paths: RolloutPaths) -> None:
    paths.output.write_bytes(b'{"_ng_task_index":0,')
    paths.failures.write_bytes(b"{")
    with open_store(resume=False) as store:
        record(store, (0, 0))
        fail(store, 0, 1)
        assert len(store.opened.repaired) == 2
    assert recorded(paths) == [(0, 0)]
    assert [check_line(line) for line in lines(paths.failures)] == [(0, 1)]


def test_a_damaged_middle_line_is_named_put_aside_and_collected_again(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0), (0, 1), (1, 0))
    good = lines(paths.output)
    bad = good[1].replace(b'"reward":1.0', b'"reward":0.0')
    paths.output.write_bytes(b"\n".join([good[0], bad, good[2]]) + b"\n")
    store = open_store()
    (said,) = store.opened.repaired
    assert said == (
        f"{paths.output}: line 2 is damaged; set aside in rollouts.jsonl.damaged-000002, "
        "what is missing is collected again."
    )
    assert recorded(paths) == [(0, 0), (1, 0)]
    assert (0, 1) in identities(store.pending())
    assert paths.output.with_name("rollouts.jsonl.damaged-000002").read_bytes() == bad + b"\n"


def test_a_damaged_failure_line_is_put_aside_and_not_counted(open_store: Open, paths: RolloutPaths) -> None:
    with open_store(resume=False) as store:
        fail(store, 0, 0)
        fail(store, 0, 0)
    first, second = lines(paths.failures)
    paths.failures.write_bytes(first[:-9] + b"\n" + second + b"\n")
    store = open_store()
    assert store.opened.attempts[0] == 1
    assert "line 1 is damaged" in store.opened.repaired[0]


def test_of_duplicates_the_first_wins_and_later_ones_are_set_aside(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0), (0, 1))
    with paths.output.open("ab") as file:
        file.write(encode_row(0, 0, {"reward": 0.0}) + b"\n")
    store = open_store()
    assert [decode_row(line)["reward"] for line in lines(paths.output)] == [1.0, 1.0]
    assert recorded(paths) == [(0, 0), (0, 1)]
    assert "line 3 is of a rollout that has a result already; set aside in" in store.opened.repaired[0]


def test_line_separators_inside_strings_do_not_split_rows(open_store: Open) -> None:
    with open_store(resume=False) as store:
        store.record(Task(0, 0, {}), {"answer": "a\u2028b\u2029c\x85d\r\n"})
    store = open_store()
    assert (store.recorded, store.opened.repaired) == (1, [])


def test_a_changed_setting_that_affects_answers_is_refused_with_a_readable_difference(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0))
    before = {path: path.read_bytes() for path in paths.output.parent.glob("rollouts*") if path.is_file()}
    changed = dataclasses.replace(IDENTITY, generation={"temperature": 0.7, "num_repeats": 2})
    with pytest.raises(ResumeRefusedError) as caught:
        open_store(identity=changed)
    assert str(caught.value) == (
        f"{paths.output}: the recorded rollouts belong to something else than what is asked now:\n"
        "  temperature: 0.0 → 0.7\n"
        "Undo the change, choose another --output, or add +allow_unsafe_resume=true to use the recorded "
        "rollouts all the same."
    )
    assert {path: path.read_bytes() for path in before} == before


def test_an_unsafe_resume_goes_on_with_new_inputs_and_is_recorded(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0))
    changed = dataclasses.replace(IDENTITY, generation={"temperature": 0.7, "num_repeats": 2})
    with open_store(identity=changed, allow_unsafe=True, rows=lambda: materialized(4, 2, "new")) as store:
        assert store.recorded == 1
        assert next(store.pending()).row["question"] == "new"
        (unsafe,) = store.manifest.unsafe_resumes
        assert (unsafe["differences"], unsafe["recorded"]) == (["temperature: 0.0 → 0.7"], 1)
    kept = paths.output.with_name("rollouts_materialized_inputs.jsonl.superseded-000002")
    assert kept.read_bytes() == b"".join(line + b"\n" for line in materialized(4, 2))
    store = open_store(identity=changed)  # from now on it is what was asked
    assert len(store.manifest.unsafe_resumes) == 1
    assert len(store.manifest.links) == 3


def test_a_changed_verifier_leads_to_reverify(open_store: Open) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0))
    changed = dataclasses.replace(IDENTITY, scoring={"verifier": "other"})
    with pytest.raises(ResumeRefusedError, match="`gym eval reverify` grades the recorded answers again"):
        open_store(identity=changed)


def test_another_number_of_tasks_is_a_change(open_store: Open) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0))
    with pytest.raises(ResumeRefusedError, match="num_tasks: 4 → 5"):
        open_store(tasks=5)


def sized(tasks: int, repeats: int, **more: Any) -> dict[str, Any]:
    """A plan of the first tasks of one data set."""
    digests = {"dataset_sha256": f"first {tasks}", "limit": tasks, "num_repeats": repeats}
    return {
        "identity": dataclasses.replace(IDENTITY, generation={"temperature": 0.0, **digests, **more}),
        "rows": lambda: materialized(tasks, repeats),
        "tasks": tasks,
        "num_repeats": repeats,
        "first_sha256": "first 2",
    }


@pytest.mark.parametrize(("tasks", "repeats"), [(4, 2), (2, 5), (6, 3)])
def test_more_tasks_and_more_repeats_keep_what_is_recorded(
    open_store: Open, paths: RolloutPaths, tasks: int, repeats: int
) -> None:
    with open_store(resume=False, **sized(2, 2)) as store:
        record(store, (1, 0), (0, 1))
        fail(store, 1, 1)
    before = lines(paths.output)
    store = open_store(**sized(tasks, repeats))
    assert store.recorded == 2
    planned = f"2 tasks with 2 repeats were planned, now {tasks} tasks with {repeats} repeats are"
    assert planned in store.opened.repaired[0]
    missing = [(t, r) for t in range(tasks) for r in range(repeats) if (t, r) not in [(1, 0), (0, 1)]]
    assert identities(store.pending()) == missing
    assert store.opened.attempts[repeats + 1] == 1
    record(store, *missing)
    store.close()
    assert lines(paths.output)[:2] == before
    assert paths.materialized_inputs.read_bytes() == b"".join(
        line + b"\n" for line in materialized(tasks, repeats)
    )
    again = open_store(**sized(tasks, repeats))
    assert (again.recorded, again.opened.repaired) == (tasks * repeats, [])
    assert (again.manifest.num_tasks, again.manifest.num_repeats) == (tasks, repeats)
    assert again.manifest.generation["limit"] == tasks
    assert again.manifest.unsafe_resumes == []


def test_a_run_that_grows_is_whole_again_after_a_crash_between_inputs_and_manifest(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False, **sized(2, 2)) as store:
        record(store, (0, 0))
    manifest = paths.manifest.read_bytes()
    open_store(**sized(4, 2)).close()
    paths.manifest.write_bytes(manifest)
    for tasks in (4, 2):  # whichever of both is asked for next
        inputs = paths.materialized_inputs.read_bytes()
        with open_store(**sized(tasks, 2)) as store:
            assert store.recorded == 1
        paths.manifest.write_bytes(manifest)
        paths.materialized_inputs.write_bytes(inputs)


@pytest.mark.parametrize(
    "changes",
    [
        sized(1, 2),
        sized(2, 1),
        sized(1, 5),
        {**sized(4, 2), "first_sha256": "others"},
        {**sized(4, 2), "first_sha256": None},
        sized(4, 2, temperature=0.7),
    ],
    ids=["fewer-tasks", "fewer-repeats", "fewer-and-more", "other-rows", "unknown-rows", "other-sampling"],
)
def test_a_run_grows_by_what_is_asked_on_top_and_not_otherwise(
    open_store: Open, paths: RolloutPaths, changes: dict[str, Any]
) -> None:
    with open_store(resume=False, **sized(2, 2)) as store:
        record(store, (0, 0))
    before = paths.materialized_inputs.read_bytes()
    with pytest.raises(ResumeRefusedError):
        open_store(**changes)
    assert paths.materialized_inputs.read_bytes() == before
    assert open_store(**sized(2, 2)).recorded == 1


def test_a_run_does_not_grow_over_rows_that_are_not_made_as_they_were(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False, **sized(2, 2)) as store:
        record(store, (0, 0))
    before = paths.materialized_inputs.read_bytes()
    with pytest.raises(ResumeRefusedError, match="do not hold those that the recorded rows were"):
        open_store(**{**sized(4, 2), "rows": lambda: materialized(4, 2, "other")})
    assert paths.materialized_inputs.read_bytes() == before


def test_rows_outside_of_a_smaller_plan_are_set_aside_when_that_is_allowed(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0), (3, 1))
        fail(store, 3, 0)
    store = open_store(tasks=2, allow_unsafe=True)
    assert recorded(paths) == [(0, 0)]
    assert store.recorded == 1
    assert lines(paths.failures) == []
    assert ["line 2 is of no planned rollout" in said for said in store.opened.repaired] == [True, False]


def test_a_resume_that_could_reuse_nothing_stops_and_leaves_the_rows(
    open_store: Open, paths: RolloutPaths
) -> None:
    paths.output.write_bytes(b'{"id": 1, "reward": 1}\n{"id": 2, "reward": 0}\n')
    with pytest.raises(ResumeRefusedError, match="none of its 2 rows is of a rollout"):
        open_store(allow_unsafe=True)
    assert len(lines(paths.output)) == 2


def test_foreign_rows_without_manifest_need_to_be_allowed_and_then_count(
    open_store: Open, paths: RolloutPaths
) -> None:
    rows = [{"reward": 1.0, "_ng_task_index": index, "_ng_rollout_index": 0} for index in range(3)]
    paths.output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ResumeRefusedError, match="there is no manifest"):
        open_store()
    store = open_store(allow_unsafe=True)
    assert identities(store.pending()) == [(0, 1), (1, 1), (2, 1), (3, 0), (3, 1)]
    record(store, (0, 1))
    assert recorded(paths) == [(0, 0), (1, 0), (2, 0), (0, 1)]


def test_a_damaged_manifest_is_an_error_that_can_be_overridden(open_store: Open, paths: RolloutPaths) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0))
    paths.manifest.write_text("{")
    with pytest.raises(DataError, match="not a manifest"):
        open_store()
    assert open_store(allow_unsafe=True).recorded == 1


@pytest.mark.parametrize("damage", ["missing", "short", "changed"])
def test_inputs_that_are_not_sound_are_made_again_from_the_same_data(
    open_store: Open, paths: RolloutPaths, damage: str
) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0))
    whole = paths.materialized_inputs.read_bytes()
    paths.materialized_inputs.unlink()
    if damage == "short":
        paths.materialized_inputs.write_bytes(whole[:-20])
    if damage == "changed":
        paths.materialized_inputs.write_bytes(whole.replace(b"?", b"!"))
    with open_store() as store:
        assert len(identities(store.pending())) == 7
    assert paths.materialized_inputs.read_bytes() == whole


def test_inputs_that_cannot_be_made_again_as_they_were_are_refused(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0))
    paths.materialized_inputs.unlink()
    with pytest.raises(ResumeRefusedError, match="the inputs made again differ"):
        open_store(rows=lambda: materialized(4, 2, "other"))
    assert open_store(rows=lambda: materialized(4, 2, "other"), allow_unsafe=True).recorded == 1


def test_sound_inputs_are_not_made_again_even_in_a_copied_folder(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0))
    os.utime(paths.materialized_inputs, (1, 1))
    store = open_store(rows=lambda: pytest.fail("made again"))
    assert len(identities(store.pending())) == 7


def test_too_few_rows_are_an_error_that_leaves_nothing_behind(open_store: Open, paths: RolloutPaths) -> None:
    with pytest.raises(DataError, match="8 rows are planned, but the data set gave 6"):
        open_store(rows=lambda: materialized(3, 2))
    assert sorted(path.name for path in paths.output.parent.iterdir()) == ["rollouts.lock"]


def test_a_row_in_the_wrong_place_is_named_with_file_and_line(open_store: Open, paths: RolloutPaths) -> None:
    rows = list(materialized(4, 2))
    rows[1], rows[2] = rows[2], rows[1]
    store = open_store(rows=lambda: iter(rows))
    with pytest.raises(DataError) as caught:
        list(store.pending())
    assert str(caught.value) == (
        f"{paths.materialized_inputs}:2: task 0, rollout 1 belongs here, found 1, 0."
    )


def test_a_crash_at_any_point_of_the_creation_can_be_started_again(
    open_store: Open, paths: RolloutPaths
) -> None:
    open_store(resume=False).close()
    created = [paths.failures, paths.output, paths.manifest, paths.materialized_inputs]
    for count in range(len(created) + 1):
        for resume in (True, False):
            for path in created[:count]:
                path.unlink(missing_ok=True)
            with open_store(resume=resume) as store:
                assert len(identities(store.pending())) == 8


def test_a_second_opener_is_turned_away_while_the_first_is_at_work(open_store: Open) -> None:
    open_store(resume=False)
    with pytest.raises(BusyError, match=f"process {os.getpid()} on this machine is collecting into it"):
        open_store()


def test_late_rows_of_an_owner_that_was_taken_over_do_not_touch_the_new_file(
    open_store: Open, paths: RolloutPaths
) -> None:
    zombie = open_store(resume=False)
    record(zombie, (0, 0), (0, 1))
    fail(zombie, 1, 0)
    zombie.tick()
    pretend_owner_elsewhere(paths)
    with paths.output.open("ab") as file:
        file.write(b'{"_ng_task_index":1,"_ng_')  # in the middle of a write
    successor = open_store()
    record(zombie, (1, 0))
    fail(zombie, 2, 0)
    record(successor, (1, 1))
    assert recorded(paths) == [(0, 0), (0, 1), (1, 1)]
    assert [check_line(line) for line in lines(paths.failures)] == [(1, 0)]
    assert (1, 0) in identities(successor.pending())
    assert [said.partition(": ")[2][:30] for said in successor.opened.repaired] == [
        "its last 25 bytes were not a w",
        "its last writer cannot be seen",
        "its last writer cannot be seen",
    ]
    with pytest.raises(SupersededError, match="another collector has taken this output over"):
        zombie.tick()
    zombie.close()
    successor.tick()
    assert paths.output.with_name("rollouts.jsonl.superseded-000002").exists()
    successor.close()
    assert open_store().opened.repaired == []  # one copy was enough


def test_an_opener_that_is_taken_over_while_it_opens_gives_way(open_store: Open, paths: RolloutPaths) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0))
    paths.materialized_inputs.unlink()
    successor: list[OutputStore] = []

    def slow_rows() -> Iterator[bytes]:
        pretend_owner_elsewhere(paths)
        successor.append(open_store())
        yield from materialized(4, 2)

    with pytest.raises(SupersededError):
        open_store(rows=slow_rows)
    claims = [link["claim"] for link in json.loads(paths.manifest.read_bytes())["links"]]
    assert claims == [1, 3]
    record(successor[0], (1, 1))
    successor[0].tick()
    assert recorded(paths) == [(0, 0), (1, 1)]


def test_a_zombie_notices_by_the_file_alone_when_the_claim_cannot_be_seen(
    open_store: Open, paths: RolloutPaths
) -> None:
    zombie = open_store(resume=False)
    record(zombie, (0, 0))
    paths.output.with_name("copy").write_bytes(paths.output.read_bytes())
    paths.output.with_name("copy").replace(paths.output)
    with pytest.raises(SupersededError):
        zombie.tick()


def test_a_tick_beats_about_once_a_second(open_store: Open, paths: RolloutPaths) -> None:
    clock = MovableClock()
    store = open_store(clock=clock)
    claim = paths.lock / "000001.json"
    os.utime(claim, (5, 5))
    store.tick()
    assert claim.stat().st_mtime == 5
    clock.advance(1.0)
    store.tick()
    assert claim.stat().st_mtime > 5


def test_the_attempts_cap_has_bounds(open_store: Open) -> None:
    for wrong in (0, 255):
        with pytest.raises(ConfigError, match=f"max_rollout_attempts: from 1 to 254, found {wrong}"):
            open_store(max_attempts=wrong)


def test_each_start_is_listed_in_the_manifest(open_store: Open) -> None:
    open_store(resume=False, link={"job_id": "17", "gym_version": "9", "gym_commit": "abc"}).close()
    manifest = open_store(link={"job_id": "18"}).manifest
    assert [link["job_id"] for link in manifest.links] == ["17", "18"]
    assert (manifest.gym_version, manifest.gym_commit) == ("9", "abc")
    assert manifest.links[0]["at"] == "2027-01-15T08:00:00.000Z"


def test_what_an_earlier_start_learnt_about_the_model_is_kept(open_store: Open) -> None:
    known = {"name": "m", "fingerprint": "f"}
    with open_store(identity=Identity({"model": known}, {}, known)) as store:
        record(store, (0, 0))
    with open_store(identity=Identity({}, {}, None)) as store:
        assert store.manifest.model == known
    with pytest.raises(ResumeRefusedError, match=r'model\.fingerprint: "f" → "g"'):
        open_store(identity=Identity({"model": {"name": "m", "fingerprint": "g"}}, {}, None))


@pytest.mark.parametrize(
    "frame",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"", 1),
        lambda data: data[:-1],
        lambda data: data.replace(b"\n", b""),
        lambda data: data + bytes(512),
        lambda data: data.replace(b"\n", b"\n" + bytes(512) + b"\n"),
    ],
)
def test_rows_are_kept_whatever_their_framing_and_written_as_they_should_be(
    open_store: Open, paths: RolloutPaths, frame: Callable[[bytes], bytes]
) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0), (0, 1), (2, 0))
        fail(store, 1, 0)
        fail(store, 1, 0)
        store.answer(Task(3, 1, {}), {"response": {}})
        store.answer(Task(3, 0, {}), {"response": {}})
    files = (paths.output, paths.failures, paths.answers)
    before = [path.read_bytes() for path in files]
    for path in files:
        path.write_bytes(frame(path.read_bytes()))
    with open_store() as store:
        assert (store.recorded, store.opened.attempts[2], store.ungraded) == (3, 2, 2)
        assert not any(
            "collected again" in said for said in store.opened.repaired if "whole row;" not in said
        )
        assert [path.read_bytes() for path in files] == before
        record(store, (1, 1))
    assert recorded(paths) == [(0, 0), (0, 1), (2, 0), (1, 1)]


def test_a_row_glued_to_a_torn_one_is_kept_and_the_torn_one_put_aside(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0), (0, 1), (2, 0))
    first, second, third = lines(paths.output)
    paths.output.write_bytes(first + b"\n" + second[:30] + third + b"\n")
    with open_store() as store:
        assert recorded(paths) == [(0, 0), (2, 0)]
        assert (0, 1) in identities(store.pending())
    aside = paths.output.with_name("rollouts.jsonl.damaged-000002")
    assert aside.read_bytes() == second[:30] + b"\n"


@pytest.mark.parametrize(
    "encode", [lambda data: data.decode().encode("utf-16"), lambda data: bytes(b ^ 7 for b in data)]
)
def test_a_file_of_which_nothing_can_be_read_is_not_asked_again_without_a_word(
    open_store: Open, paths: RolloutPaths, encode: Callable[[bytes], bytes]
) -> None:
    with open_store(resume=False) as store:
        record(store, (0, 0), (0, 1), (2, 0))
    data = paths.output.read_bytes()
    paths.output.write_bytes(encode(data).replace(b"\r", b"\n") + b"\nx\n")
    before = paths.output.read_bytes()
    with pytest.raises(ResumeRefusedError, match="can be read as a row, so nothing could be reused"):
        open_store()
    assert paths.output.read_bytes() == before
    paths.output.write_bytes(data)
    assert open_store().recorded == 3


def answer(store: OutputStore, *identities: tuple[int, int]) -> None:
    for task_index, rollout_index in identities:
        store.answer(Task(task_index, rollout_index, {}), {"response": {"n": task_index}})


def answered(store: OutputStore) -> list[tuple[int, int]]:
    return [(task, rollout) for task, rollout, _ in store.answered()]


def test_a_stored_answer_is_not_asked_for_again_and_waits_for_its_grade(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False) as store:
        answer(store, (0, 0), (1, 1), (3, 0))
        record(store, (1, 1))
        assert (store.ungraded, store.to_ask, store.remaining) == (2, 5, 7)
    with open_store() as store:  # as after kill -9: nothing was said about a grade
        assert (store.ungraded, store.to_ask, store.remaining, store.recorded) == (2, 5, 7, 1)
        assert [(*identity, row["response"]) for *identity, row in store.answered()] == [
            (0, 0, {"n": 0}),
            (3, 0, {"n": 3}),
        ]
        assert not {(0, 0), (3, 0), (1, 1)} & set(identities(store.pending()))
        assert [check_line(line) for line in lines(paths.answers)] == [(0, 0), (3, 0)]
        record(store, (0, 0), (3, 0))
        assert answered(store) == []
    assert not paths.answers.exists()
    assert sorted(path.name for path in paths.output.parent.glob("*answers*")) == []
    assert open_store().recorded == 3


def test_a_failed_grading_keeps_the_answer_and_uses_up_no_attempt(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False, max_attempts=2) as store:
        answer(store, (0, 0), (0, 1))
        for _ in range(2):
            assert answered(store) == [(0, 0), (0, 1)]
            fail(store, 0, 0, failure_class="verifier_error")
        assert answered(store) == [(0, 1)]  # as often as one run may
        assert (store.ungradable, store.exhausted, store.opened.attempts[0]) == (1, 0, 0)
    assert [decode_row(line)["_ng_failure_counted"] for line in lines(paths.failures)] == [False, False]
    with open_store(max_attempts=2) as store:  # with a verifier that was mended, perhaps
        assert answered(store) == [(0, 0), (0, 1)]
        record(store, (0, 0))
        assert (store.ungraded, store.exhausted, store.failed) == (1, 0, 0)


def test_an_answer_that_can_never_be_graded_is_kept_and_counts_as_final(
    open_store: Open, paths: RolloutPaths
) -> None:
    with open_store(resume=False) as store:
        answer(store, (0, 0))
        fail(store, 0, 0, failure_class="skipped", terminal=True)
        assert (store.ungraded, store.exhausted, store.final) == (0, 1, 1)
        assert answered(store) == []
    with open_store() as store:
        assert (store.ungraded, store.exhausted, store.final) == (0, 1, 1)
        assert (0, 0) not in identities(store.pending())
    assert [check_line(line) for line in lines(paths.answers)] == [(0, 0)]


def test_answers_of_an_owner_that_was_taken_over_are_graded_by_its_successor(
    open_store: Open, paths: RolloutPaths
) -> None:
    zombie = open_store(resume=False)
    answer(zombie, (0, 0), (0, 1))
    record(zombie, (0, 0))
    zombie.tick()
    pretend_owner_elsewhere(paths)
    successor = open_store()
    answer(zombie, (1, 0))
    record(zombie, (0, 1), (1, 0))
    assert answered(successor) == [(0, 1)]
    with pytest.raises(SupersededError):
        zombie.tick()
    zombie.close()
    assert answered(successor) == [(0, 1)]
    record(successor, (0, 1))
    successor.close()
    assert recorded(paths) == [(0, 0), (0, 1)]


def test_graded_answers_go_once_their_results_are_on_the_disk(
    open_store: Open, paths: RolloutPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemo_gym.rollouts.output.store._WORTH_EMPTYING", 1)
    store = open_store(resume=False)
    answer(store, (0, 0), (0, 1))
    record(store, (0, 0))
    store.tick()
    assert len(lines(paths.answers)) == 2
    record(store, (0, 1))
    store.tick()
    assert paths.answers.read_bytes() == b""
    answer(store, (1, 0))
    assert answered(store) == [(1, 0)]
    assert [check_line(line) for line in lines(paths.answers)] == [(1, 0)]


def test_answers_alone_are_something_to_resume(open_store: Open) -> None:
    with open_store(resume=False) as store:
        answer(store, (0, 0))
    with pytest.raises(GymError, match="add --resume"):
        open_store(resume=False)
    changed = dataclasses.replace(IDENTITY, generation={"temperature": 0.7})
    with pytest.raises(ResumeRefusedError, match="temperature"):
        open_store(identity=changed)


def test_why_rows_stay_unpublished_is_written_down_and_kept_by_every_resume(
    open_store: Open, paths: RolloutPaths
) -> None:
    open_store(resume=False).close()
    assert "unpublished" not in json.loads(paths.manifest.read_text())
    open_store(unpublished="a secret").close()
    open_store().close()
    assert json.loads(paths.manifest.read_text())["unpublished"] == "a secret"
