"""Evaluations as rows of the list of runs."""

from pathlib import Path

import pytest
from tests.evaluation_pages import look_again, observed, write_evaluation

from nemo_gym.pages.run_observer import SOURCE, show_evaluations
from nemo_pages.runs.table import RunTable
from nemo_pages.runs.view import RunsView


@pytest.fixture
def table() -> RunTable:
    return RunTable()


def test_each_benchmark_is_a_row_with_its_score_and_interval(tmp_path: Path, table: RunTable) -> None:
    write_evaluation(tmp_path / "a", [1.0, 0.0, 0.5, 1.0])
    index = observed(tmp_path, tables=tmp_path / "tables")
    show_evaluations(index, table)
    look_again(index)
    [row] = table.answer(RunsView()).rows
    assert (row.name, row.state, row.group, row.values["model"]) == ("a", "complete", "succeeded", "m")
    assert (row.measure.value, row.measure.is_share) == (0.625, True)
    assert row.measure.low < 0.625 < row.measure.high
    assert (row.progress.done, row.progress.total) == (4, 4)
    assert row.path == f"/evaluations/{row.run}"


def test_what_cannot_be_read_is_said_and_a_run_that_is_gone_leaves_the_table(
    tmp_path: Path, table: RunTable
) -> None:
    paths = write_evaluation(tmp_path / "a", [1.0])
    index = observed(tmp_path / "a", tables=tmp_path / "tables")
    show_evaluations(index, table)
    paths.manifest.write_text("{")
    look_again(index)
    index._known.clear()
    look_again(index)
    answer = table.answer(RunsView())
    assert [row.state for row in answer.rows] == ["no results"]
    assert "not a manifest" in next(source.problem for source in answer.sources if source.name == SOURCE)
    for path in paths.output.parent.iterdir():
        path.unlink()
    look_again(index)
    assert table.answer(RunsView()).rows == ()
