"""The table of runs: filters, order, counts, and what counts as a change."""

from __future__ import annotations

from dataclasses import replace

import pytest
from starlette.testclient import TestClient
from tests.browser.run_rows import many_rows, row, some_rows

from nemo_gym.pages.viewing import view_application
from nemo_pages.runs.rows import RunKind, StateGroup
from nemo_pages.runs.table import MOST_NAMES, RunTable, SourceState
from nemo_pages.runs.view import RunsView


@pytest.fixture
def table():
    made = RunTable()
    made.put("evaluations", some_rows(), complete=True)
    return made


def names(table, **view):
    return [row.name for row in table.answer(RunsView(**view)).rows]


def test_a_row_comes_back_as_it_went_in(table):
    assert {row.key: row for row in some_rows()} == {row.key: table.row(row.key) for row in some_rows()}
    assert table.row("nobody") is None


@pytest.mark.parametrize(
    ("view", "found"),
    [
        ({"text": "MATH"}, ["math_500"]),
        ({"text": "qwen gpqa"}, ["gpqa"]),
        ({"text": "cuda memory"}, ["humaneval"]),
        ({"text": "%"}, []),
        ({"groups": (StateGroup.RUNNING,), "kinds": (RunKind.JOB,)}, ["support-tone-dpo"]),
        ({"tags": ("team=eval", "nightly")}, ["arithmetic"]),
        ({"tags": ("team",)}, []),
    ],
)
def test_a_filter_leaves_rows_that_have_everything(table, view, found):
    assert names(table, **view) == found


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("measure", ["support-tone-dpo", "gpqa", "arithmetic", "math_500", "support-tone-sft"]),
        ("-measure", ["support-tone-sft", "math_500", "arithmetic", "gpqa", "support-tone-dpo"]),
        ("value:learning_rate", ["support-tone-dpo", "support-tone-sft"]),
        ("-value:learning_rate", ["support-tone-sft", "support-tone-dpo"]),
        ("-progress", ["math_500", "arithmetic", "support-tone-dpo"]),
        ("-cost", ["support-tone-dpo", "arithmetic", "math_500"]),
    ],
)
def test_rows_without_the_value_come_last_whichever_way_it_goes(table, sort, first):
    assert names(table, sort=sort)[: len(first)] == first


@pytest.mark.parametrize("sort", ["value:'); drop table run; --", 'value:a"b', "value:a.b[0]", "value:\\"])
def test_a_column_of_any_name_can_sort(table, sort):
    assert len(names(table, sort=sort)) == 8


def test_counts_are_of_the_filter_without_its_states(table):
    answer = table.answer(RunsView(groups=(StateGroup.FAILED,), kinds=(RunKind.EVALUATION,)))
    assert (answer.total, answer.everything) == (1, 8)
    assert answer.counts[StateGroup.RUNNING] == 1
    assert sum(answer.counts.values()) == 6


def test_only_what_changed_makes_another_version(table):
    version = table.version
    table.put("evaluations", some_rows(), complete=True)
    assert table.version == version
    table.put("evaluations", [replace(some_rows()[0], state="queued")])
    assert table.version != version
    assert len(names(table)) == 8


def test_a_complete_list_removes_what_is_not_in_it_and_leaves_other_sources_alone(table):
    table.put("jobs", [replace(some_rows()[0], key="job/x", name="x", tags=("own",))], complete=True)
    table.put("evaluations", some_rows()[:2], complete=True)
    assert sorted(names(table)) == ["arithmetic", "gpqa", "x"]
    table.remove(["job/x", "nobody"])
    assert sorted(names(table)) == ["arithmetic", "gpqa"]
    assert dict(table.tags()) == {"team=eval": 2, "nightly": 1}


def test_the_time_of_a_look_alone_is_no_change(table):
    table.observed(SourceState("evaluations", None))
    version = table.version
    table.observed(SourceState("evaluations", 5.0))
    seen = table.version
    assert seen != version
    table.observed(SourceState("evaluations", 6.0))
    assert table.version == seen
    assert table.answer(RunsView()).sources == (SourceState("evaluations", 6.0),)


def test_pages_follow_each_other_without_gap():
    table = RunTable()
    table.put("jobs", many_rows(230))
    found = [row.key for page in range(1, 7) for row in table.answer(RunsView(page=page)).rows]
    assert found == [row.key for row in many_rows(230)]


def test_of_very_many_names_of_values_the_page_offers_some_and_those_that_are_chosen() -> None:
    table = RunTable()
    table.put("jobs", [row("a", StateGroup.RUNNING, "active", values={f"k{at:04}": at for at in range(500)})])
    assert table.value_names() == [f"k{at:04}" for at in range(MOST_NAMES)]
    page = TestClient(view_application(table)).get("/?column=value:k0499&sort=-value:k0499").text
    assert 'value="value:k0499" checked' in page
    assert page.count('name="column"') < MOST_NAMES + 20
