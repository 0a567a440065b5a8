"""Which rollouts of an output are wanted, and where their rows are."""

from pathlib import Path

import pytest
from tests.result_rows import result, write_output

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.reading.located import LocatedRollouts, RolloutFilter, locate, planned_rows, selected


def timed(latency: float, **more: object) -> dict[str, object]:
    found = result(**more)
    found["ng_perf"]["total_latency_ms"] = latency
    return found


@pytest.fixture
def paths(tmp_path: Path) -> RolloutPaths:
    results = {
        (2, 0): timed(50.0, reward=0.0),
        (0, 0): timed(900.0),
        (0, 1): timed(20.0, reward=0.5),
        (1, 0): timed(700.0, reward=0.0, cut=True),
        (1, 1): timed(1.0, reward=0.0, mask_sample=True),
    }
    failures = [(0, 0, "model_call_failed"), (3, 0, "model_call_failed"), (3, 0, "agent_run_error")]
    return write_output(tmp_path, results, tasks=4, repeats=2, failures=failures)


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        (RolloutFilter(), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (3, 0)]),
        (RolloutFilter(failed=True), [(3, 0)]),
        (RolloutFilter(wrong=True), [(0, 1), (1, 0), (2, 0)]),
        (RolloutFilter(truncated=True), [(1, 0)]),
        (RolloutFilter(failed=True, truncated=True), [(1, 0), (3, 0)]),
        (RolloutFilter(task=1), [(1, 0), (1, 1)]),
        (RolloutFilter(task=1, wrong=True), [(1, 0)]),
        (RolloutFilter(limit=2), [(0, 0), (0, 1)]),
        (RolloutFilter(slow=True, limit=2), [(0, 0), (1, 0)]),
        (RolloutFilter(slow=True, wrong=True), [(1, 0), (2, 0), (0, 1)]),
        (RolloutFilter(task=9), []),
    ],
)
def test_rollouts_are_selected(
    paths: RolloutPaths, wanted: RolloutFilter, places: list[tuple[int, int]]
) -> None:
    assert selected(locate(paths), wanted) == places


def test_rows_are_found_where_they_are_and_the_first_result_counts(paths: RolloutPaths) -> None:
    lines = paths.output.read_bytes()
    first = lines.partition(b"\n")[0]
    second = lines.splitlines()[1]
    # a doubled row, rows that lost the line end between them, damage, and a tail that is still being written
    paths.output.write_bytes(
        b"{damage\n" + lines + first.replace(b"}", b"}", 1) + second + b"\n" + first[:40]
    )
    located = locate(paths)
    assert [place for place in located.known() if place in located.results] == [
        (0, 0), (0, 1), (1, 0), (1, 1), (2, 0),
    ]  # fmt: skip
    for place in located.results:
        row = located.result(place)
        assert row is not None
        assert (row["_ng_task_index"], row["_ng_rollout_index"]) == place
    assert located.result((3, 0)) is None
    assert [row["_ng_failure_class"] for row in located.failed_attempts((3, 0))] == [
        "model_call_failed",
        "agent_run_error",
    ]


def test_an_answer_that_waits_for_its_grade_is_found_until_it_has_one(paths: RolloutPaths) -> None:
    rows = paths.output.read_bytes().splitlines(keepends=True)
    paths.output.write_bytes(rows[0])
    paths.answers.write_bytes(b"".join(rows[:2]))
    located = locate(paths)
    assert (list(located.results), list(located.answers)) == ([(2, 0)], [(0, 0)])
    assert located.answer((0, 0)) is not None


def test_planned_rows_are_read_for_the_asked_rollouts_alone(paths: RolloutPaths) -> None:
    found = planned_rows(paths, [(3, 0)])
    assert [row["question"] for row in found.values()] == ["What is 3 + 0?"]


def test_an_output_without_files_has_no_rollouts(tmp_path: Path) -> None:
    located = locate(RolloutPaths(tmp_path / "rollouts.jsonl"))
    assert isinstance(located, LocatedRollouts)
    assert located.known() == []
