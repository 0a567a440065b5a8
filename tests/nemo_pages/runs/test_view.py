"""A view of the list is its address, and back."""

from __future__ import annotations

import re

import pytest
from starlette.datastructures import QueryParams

from nemo_pages.errors import ViewError
from nemo_pages.links import query_text
from nemo_pages.runs.rows import RunKind, StateGroup
from nemo_pages.runs.view import RunsView

VIEW = RunsView(
    text="a b",
    groups=(StateGroup.FAILED, StateGroup.PAUSED),
    kinds=(RunKind.JOB,),
    tags=("team=x", "y"),
    sort="value:learning_rate",
    columns=("state", "value:learning_rate"),
    page=3,
    size=100,
)


def test_the_usual_view_has_no_query():
    assert query_text(RunsView().query()) == ""
    assert RunsView.read(QueryParams("")) == RunsView()


def test_a_view_comes_back_from_its_address():
    assert RunsView.read(QueryParams(query_text(VIEW.query(page=3))[1:])) == VIEW


def test_every_change_but_that_of_the_page_leads_to_the_first_one():
    assert VIEW.query(text="c")["page"] is None
    assert VIEW.paged(4)["page"] == 4


def test_a_column_sorts_falling_first_and_then_the_other_way_and_names_rise_first():
    by_cost = RunsView.read(QueryParams(query_text(RunsView().sorting("cost"))[1:]))
    assert by_cost.sort == "-cost"
    assert by_cost.sorting("cost")["sort"] == "cost"
    assert RunsView().sorting("name")["sort"] == "name"
    assert RunsView(sort="name").sorting("name")["sort"] == "-name"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("state=asleep", "state: 'asleep' is not one of running, waiting"),
        ("kind=x", "kind: 'x' is not one of evaluation, job"),
        ("sort=luck", "Runs cannot be sorted by 'luck'"),
        ("column=luck", "There is no column 'luck'"),
        ("page=0", "page: '0' is not a whole number from 1"),
        ("page=²", "page: '²'"),
        ("page=99999999999999999999", "page: "),
        ("size=7", "size: 7 is not one of 50, 100, 200"),
    ],
)
def test_a_part_of_an_address_that_means_nothing_is_named(query, said):
    with pytest.raises(ViewError, match=re.escape(said)):
        RunsView.read(QueryParams(query))
