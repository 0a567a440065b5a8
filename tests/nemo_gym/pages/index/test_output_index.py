"""A table of rollouts that follows the files of an output, whatever happens to them."""

import os
import sqlite3
from pathlib import Path

import pytest
from tests.result_rows import result, write_output

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.pages.index import rollout_query as queries
from nemo_gym.pages.index.output_index import OutputIndex, RolloutGoneError
from nemo_gym.pages.index.rollout_query import RolloutQuery
from nemo_gym.rollouts.output.rows import encode_row
from nemo_gym.rollouts.reading.located import RolloutFilter, locate, selected

NOW = 1_800_000_000.0


def timed(latency: float, **more: object) -> dict[str, object]:
    found = result(**more)
    found["ng_perf"]["total_latency_ms"] = latency
    return found


RESULTS = {
    (2, 0): timed(50.0, reward=0.0),
    (0, 0): timed(900.0),
    (0, 1): timed(20.0, reward=0.5),
    (1, 0): timed(700.0, reward=0.0, cut=True),
    (1, 1): timed(1.0, reward=0.0, mask_sample=True),
    (2, 1): timed(2.0, reward=None),
}
FAILURES = [(0, 0, "model_call_failed"), (3, 0, "model_call_failed"), (3, 0, "agent_run_error")]


@pytest.fixture
def paths(tmp_path: Path) -> RolloutPaths:
    return write_output(tmp_path / "run", RESULTS, tasks=4, repeats=2, failures=FAILURES)


@pytest.fixture
def index(paths: RolloutPaths, tmp_path: Path) -> OutputIndex:
    return read(OutputIndex(paths, tmp_path / "cache", ["level"]))


def read(index: OutputIndex, now: float = NOW) -> OutputIndex:
    while not index.read_on(now):
        pass
    return index


def found(index: OutputIndex, **wanted: object) -> list[tuple[int, int]]:
    return [entry.place for entry in index.ask(queries.page_of, RolloutQuery(**wanted)).entries]


def outcomes(index: OutputIndex) -> dict[tuple[int, int], str]:
    return {entry.place: entry.outcome for entry in index.ask(queries.page_of, RolloutQuery()).entries}


@pytest.mark.parametrize("kinds", [(), ("failed",), ("wrong",), ("truncated",), ("failed", "truncated")])
@pytest.mark.parametrize("task", [None, 1, 9])
def test_filters_find_what_the_terminal_finds(
    paths: RolloutPaths, index: OutputIndex, kinds: tuple[str, ...], task: int | None
) -> None:
    shown = selected(locate(paths), RolloutFilter(**dict.fromkeys(kinds, True), task=task))
    assert found(index, kinds=frozenset(kinds), task=task) == shown


def test_the_slowest_are_those_of_the_terminal(paths: RolloutPaths, index: OutputIndex) -> None:
    slow = selected(locate(paths), RolloutFilter(slow=True))
    assert found(index, order="slow")[: len(slow)] == slow


def test_outcomes_are_those_of_the_reader(index: OutputIndex) -> None:
    for entry in index.ask(queries.page_of, RolloutQuery()).entries:
        shown = index.rollout(entry)
        assert (shown.outcome, shown.reward) == (entry.outcome, entry.reward)
    assert index.ask(queries.counts).outcomes == {
        "right": 1,
        "partly right": 1,
        "wrong": 2,
        "masked": 1,
        "not scored": 1,
        "failed": 1,
    }


def test_a_failed_rollout_has_its_prompt_without_a_search(
    index: OutputIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = index.ask(queries.entry_at, (3, 0))
    monkeypatch.setattr("nemo_gym.rollouts.reading.located.planned_rows", None)
    shown = index.rollout(entry)
    assert shown.prompt == [{"role": "user", "content": "What is 3 + 0?"}]
    assert [failure.failure_class for failure in shown.failures] == ["model_call_failed", "agent_run_error"]


def test_only_what_is_new_is_read(
    index: OutputIndex, paths: RolloutPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []
    monkeypatch.setattr(
        "nemo_gym.pages.index.output_index.scan",
        lambda path, start, **more: starts.append(start) or scan(path, start, **more),
    )
    from nemo_gym.pages.index.row_scan import scan

    size = paths.output.stat().st_size
    read(index, NOW + 1)
    assert starts == []
    with paths.output.open("ab") as file:
        file.write(encode_row(3, 1, result()) + b"\n")
    read(index, NOW + 2)
    assert starts == [size]
    assert (3, 1) in outcomes(index)
    assert index.state().seen_at == NOW + 2


def test_a_table_is_kept_and_opened_again(index: OutputIndex, paths: RolloutPaths, tmp_path: Path) -> None:
    before = outcomes(index)
    index.close()
    again = OutputIndex(paths, tmp_path / "cache")
    assert outcomes(again) == before
    assert again.state().seen_at == NOW


def test_a_replaced_file_is_read_again(index: OutputIndex, paths: RolloutPaths) -> None:
    regraded = {place: {**fields, "reward": 1.0} for place, fields in RESULTS.items()}
    other = write_output(paths.output.parent / "new", regraded, tasks=4, repeats=2)
    os.replace(other.output, paths.output)
    read(index)
    assert found(index, kinds=frozenset({"wrong"})) == []
    assert outcomes(index)[3, 0] == "failed"


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_file_that_was_cut_is_read_again(index: OutputIndex, paths: RolloutPaths, kept: int) -> None:
    lines = paths.output.read_bytes().splitlines(keepends=True)
    os.truncate(paths.output, len(b"".join(lines[:kept])))
    read(index)
    assert sum(outcome not in ("failed",) for outcome in outcomes(index).values()) == kept


def test_a_file_that_was_written_over_in_its_place_is_read_again(
    index: OutputIndex, paths: RolloutPaths
) -> None:
    data = paths.output.read_bytes()
    with paths.output.open("r+b") as file:
        file.write(data.replace(b'"reward":0.0', b'"reward":0.5'))
    os.utime(paths.output, ns=(1, 1))
    read(index)
    assert found(index, kinds=frozenset({"wrong"})) == [(0, 1)]  # the checksums of the others are wrong now


def test_a_stored_answer_waits_for_its_grade_and_then_has_it(index: OutputIndex, paths: RolloutPaths) -> None:
    answer = {key: value for key, value in result().items() if key not in ("reward", "extracted_answer")}
    paths.answers.write_bytes(encode_row(3, 0, answer) + b"\n" + encode_row(0, 0, answer) + b"\n")
    read(index)
    assert outcomes(index)[3, 0] == "not graded yet"
    assert outcomes(index)[0, 0] == "right"
    assert index.rollout(index.ask(queries.entry_at, (3, 0))).answer == "4"
    with paths.output.open("ab") as file:
        file.write(encode_row(3, 0, result()) + b"\n")
    paths.answers.write_bytes(b"")
    read(index)
    assert outcomes(index)[3, 0] == "right"


def test_an_answer_that_is_gone_leaves_its_failures(index: OutputIndex, paths: RolloutPaths) -> None:
    answer = {key: value for key, value in result().items() if key not in ("reward", "extracted_answer")}
    paths.answers.write_bytes(encode_row(3, 0, answer) + b"\n" + encode_row(3, 1, answer) + b"\n")
    read(index)
    paths.answers.unlink()
    read(index)
    assert outcomes(index)[3, 0] == "failed"
    assert (3, 1) not in outcomes(index)


def test_the_first_of_two_results_counts(index: OutputIndex, paths: RolloutPaths) -> None:
    with paths.output.open("ab") as file:
        file.write(encode_row(0, 0, result(reward=0.0)) + b"\n")
    read(index)
    assert outcomes(index)[0, 0] == "right"


def test_a_rollout_whose_row_is_gone_is_not_called_failed(index: OutputIndex, paths: RolloutPaths) -> None:
    entry = index.ask(queries.entry_at, (0, 0))
    paths.output.write_bytes(b"")
    with pytest.raises(RolloutGoneError):
        index.rollout(entry)


def test_small_slices_read_the_same(paths: RolloutPaths, index: OutputIndex) -> None:
    small = OutputIndex(paths, None)
    steps = 0
    while not small.read_on(NOW, most=1):
        assert small.state().seen_at == 0
        steps += 1
    assert steps > len(RESULTS)
    assert outcomes(small) == outcomes(index)


def test_a_damaged_table_is_made_again(index: OutputIndex, paths: RolloutPaths, tmp_path: Path) -> None:
    before = outcomes(index)
    index.close()
    table = next((tmp_path / "cache").glob("*.sqlite"))
    table.write_bytes(b"no database at all" * 100)
    again = OutputIndex(paths, tmp_path / "cache")
    assert again.state().seen_at == 0
    assert outcomes(read(again)) == before


def test_a_table_of_another_version_is_made_again(
    index: OutputIndex, paths: RolloutPaths, tmp_path: Path
) -> None:
    index.close()
    database = sqlite3.connect(next((tmp_path / "cache").glob("*.sqlite")))
    database.execute("pragma user_version = 99")
    database.close()
    again = OutputIndex(paths, tmp_path / "cache")
    assert again.state().seen_at == 0


def test_without_a_place_to_write_the_table_is_in_memory(paths: RolloutPaths, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert len(outcomes(read(OutputIndex(paths, tmp_path / "file" / "cache")))) == 7


def test_two_processes_share_a_table(index: OutputIndex, paths: RolloutPaths, tmp_path: Path) -> None:
    other = OutputIndex(paths, tmp_path / "cache", ["level"])
    with paths.failures.open("ab") as file:
        file.write(encode_row(3, 1, {"_ng_failure_class": "skipped"}) + b"\n")
    read(other)
    read(index)
    assert index.ask(queries.entry_at, (3, 1)).failed_attempts == 1


def test_groups_and_neighbours(index: OutputIndex) -> None:
    assert index.ask(queries.group_values) == {"level": ["3"]}
    assert len(found(index, group=("level", "3"))) == 7
    assert found(index, group=("level", "4")) == []
    wrong = RolloutQuery(kinds=frozenset({"wrong"}))
    assert index.ask(queries.neighbours, wrong, (0, 1)) == (None, (1, 0))
    assert index.ask(queries.neighbours, wrong, (1, 1)) == ((1, 0), (2, 0))
    assert index.ask(queries.failure_classes) == [("agent_run_error", 1)]


def test_pages_and_tasks(paths: RolloutPaths, index: OutputIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "PAGE", 3)
    pages = [index.ask(queries.page_of, RolloutQuery(page=page)) for page in (1, 3, 9)]
    assert [(len(each.entries), each.page, each.pages, each.total) for each in pages] == [
        (3, 1, 3, 7),
        (1, 3, 3, 7),
        (1, 3, 3, 7),
    ]
    scores, _ = index.ask(queries.task_scores)
    assert [(task.task, task.mean, task.rollouts, task.failed) for task in scores] == [
        (0, 0.75, 2, 0),
        (1, 0.0, 2, 0),
        (2, 0.0, 2, 0),
        (3, None, 1, 1),
    ]
    assert index.ask(queries.measured_tasks) == {0: (0.75, 0), 1: (0.0, 0), 2: (0.0, 0)}
