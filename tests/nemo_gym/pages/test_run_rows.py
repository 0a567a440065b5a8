"""Evaluations as rows of the list of runs."""

from pathlib import Path

import pytest
from tests.evaluation_pages import look_again, observed, write_evaluation

from nemo_gym.orchestration.results.bill import OWNERS, Bill, LinkBill
from nemo_gym.orchestration.results.bill_costs import BenchmarkCosts
from nemo_gym.pages.run_observer import SOURCE, show_evaluations
from nemo_gym.pages.run_rows import _cost
from nemo_pages.runs.rows import RunCost
from nemo_pages.runs.table import RunTable
from nemo_pages.runs.view import RunsView


def priced(amount: float | None, currency: str) -> BenchmarkCosts:
    return BenchmarkCosts(
        currency=currency,
        gpu_hours=16.0,
        core_hours=None,
        tokens=None,
        gpu_cost=amount,
        unknown=() if amount is not None else ("GPUs",),
    )


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


@pytest.mark.parametrize(
    ("gpus", "costs", "shown"),
    [
        (8, None, RunCost(amount=16.0, unit="GPU h")),
        (None, None, RunCost(amount=2.0, unit="node h")),
        (8, priced(12.5, "EUR"), RunCost(amount=12.5, unit="EUR")),
        (8, priced(None, "EUR"), RunCost(amount=16.0, unit="GPU h")),
    ],
)
def test_the_cost_is_money_where_all_has_a_price_and_hours_else(gpus, costs, shown) -> None:
    two_hours = dict.fromkeys(OWNERS, 0) | {"useful": 7_200_000}
    link = LinkBill(name="1.0", start=0, end=1, ended=True, queue=0, owners=two_hours)
    assert _cost(Bill(gym_job_id="run", benchmark="a", gpus=gpus, links=[link], costs=costs)) == shown


def test_before_anything_was_allocated_there_is_no_cost() -> None:
    assert _cost(Bill(gym_job_id="run", benchmark="a", gpus=8, links=[])) is None
