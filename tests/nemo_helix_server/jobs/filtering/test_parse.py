"""Three spellings of a filter, one tree; and a sentence for what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_helix_server.errors import MalformedRequestError
from nemo_helix_server.jobs.filtering import parse
from nemo_helix_server.jobs.filtering.parse import EVERYTHING, AllOf, AnyOf, Compare, Not, Operator

ERROR = Compare("status", Operator.EQUAL, "error")
LLAMA = Compare("name", Operator.LIKE, "llama")


def tree(*pairs: tuple[str, str]) -> parse.Tree:
    return parse.parse(pairs).tree


def test_three_spellings_are_one_tree() -> None:
    expected = AllOf((ERROR, LLAMA))
    assert tree(("filter[status]", "error"), ("filter[name][like]", "llama")) == expected
    assert tree(("filter", '{"status": "error", "name": {"$like": "llama"}}')) == expected
    assert tree(("filter", 'status:error name~"llama"')) == expected
    assert tree(("filter", "status:error AND name~llama")) == expected


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], EVERYTHING),
        ([("filter", "")], EVERYTHING),
        ([("filter", "{}")], EVERYTHING),
        ([("filter[status][in]", "error, paused")], Compare("status", Operator.IN, ("error", "paused"))),
        ([("filter[status][$nin]", "error")], Compare("status", Operator.NOT_IN, ("error",))),
        ([("filter[spec][batch][gte]", "4")], Compare("spec.batch", Operator.GREATER_OR_EQUAL, "4")),
        ([("filter[spec.batch]", "4")], Compare("spec.batch", Operator.EQUAL, "4")),
        ([("filter[name][not]", "a")], Not(Compare("name", Operator.EQUAL, "a"))),
        ([("filter[project][exists]", "false")], Compare("project", Operator.EXISTS, False)),
        (
            [("filter[created_at][gte]", "1970-01-01T00:00:01Z")],
            Compare("created_at", Operator.GREATER_OR_EQUAL, 10**6),
        ),
        ([("filter", '{"status": ["error"]}')], Compare("status", Operator.IN, ("error",))),
        ([("filter", '{"$or": [{"status": "error"}, {"name": {"$like": "llama"}}]}')], AnyOf((ERROR, LLAMA))),
        ([("filter", '{"name": {"$not": {"$like": "llama"}}}')], Not(LLAMA)),
        ([("filter", "-status:error")], Not(ERROR)),
        ([("filter", "name~llama OR status:error name~llama")], AnyOf((LLAMA, AllOf((ERROR, LLAMA))))),
        ([("filter", "(name~llama OR status:error) name~llama")], AllOf((AnyOf((LLAMA, ERROR)), LLAMA))),
        ([("filter", r'name:"a \"b\" (c)"')], Compare("name", Operator.EQUAL, 'a "b" (c)')),
        ([("filter", "project:null")], Compare("project", Operator.EQUAL, None)),
        (
            [("filter", "status NOT IN [error, paused]")],
            Compare("status", Operator.NOT_IN, ("error", "paused")),
        ),
        (
            [("filter", "created_at>=1970-01-01T00:00:01Z")],
            Compare("created_at", Operator.GREATER_OR_EQUAL, 10**6),
        ),
        (
            [("filter[name]", "5"), ("filter", "status:error")],
            AllOf((Compare("name", Operator.EQUAL, "5"), ERROR)),
        ),
    ],
)
def test_what_a_filter_means(pairs: list[tuple[str, str]], expected: Any) -> None:
    assert tree(*pairs) == expected


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("filter[nonsense]", "1", "jobs cannot be filtered by 'nonsense'"),
        ("filter[status]", "gone", "there is no status 'gone'"),
        ("filter[status][like]", "err", "a status can be compared by $eq, $in and $nin"),
        ("filter[created_at]", "2026-01-01", "created_at can be compared by $lt, $lte, $gt and $gte"),
        ("filter[created_at][gt]", "yesterday", "ISO 8601"),
        ("filter[name][$near]", "x", "there is no operator '$near'"),
        ("filter[na[me]", "x", "do not match"),
        ("filterx", "x", "write filter[<field>]"),
        ("filter[spec.a'b]", "x", "must be names of letters"),
        ("filter[project][exists]", "maybe", "takes true or false"),
        ("filter", "{", "not JSON"),
        ("filter", '{"$and": [], "name": "x"}', "$and cannot be combined with other keys"),
        ("filter", '{"$or": 5}', "$or takes a list"),
        ("filter", '{"name": {"$like": ["a"]}}', "takes one value"),
        ("filter", '{"name": {"$eq": {"a": 1}}}', "takes text, a number"),
        ("filter", '{"spec.n": 99999999999999999999}', "more than 64 bits"),
        ("filter", '{"spec.n": 9999999999999999999}', "too large"),
        ("filter", '{"spec.n": NaN}', "the filter holds NaN"),
        ("filter", '{"name": "a", "name": "b"}', "the filter has the key 'name' more than once"),
        ("filter", '{"name": {}}', "is empty"),
        ("filter", "name", "ends where a value or a field is missing"),
        ("filter", "name~ab", "takes 3 characters or more"),
        ("filter", "(name:a", "ends where"),
        ("filter", "name:a)", "cannot be read from ')' on"),
        ("filter", 'name:"a', "cannot be read"),
        ("filter", '"a":b', "where a field is missing"),
        ("filter", "name ( a", "write : ~ > >= < <= IN or NOT IN"),
        ("filter", "name:)", "where a value is missing"),
        ("filter", "name IN a", "where '[' is missing"),
        ("filter", "(" * 50, "nested deeper"),
        ("filter", "NOT " * 50 + "name:a", "nested deeper"),
        ("filter", '{"$not":' * 50 + "{}" + "}" * 50, "nested deeper"),
        ("filter", "x" * 20_000, "longer than"),
    ],
)
def test_what_cannot_be_read_is_said(key: str, value: str, sentence: str) -> None:
    with pytest.raises(MalformedRequestError) as refused:
        tree((key, value))
    assert sentence in refused.value.detail


def test_the_filter_is_given_back_as_it_came() -> None:
    assert parse.parse([("filter[spec][a][gte]", "1"), ("filter[name]", "x")]).echo == {
        "spec": {"a": {"gte": "1"}},
        "name": "x",
    }
    assert parse.parse([("filter", "name:a")]).echo == "name:a"
    assert parse.parse([]).echo is None


@given(
    st.text(max_size=60),
    st.sampled_from(["filter", "filter[name]", "filter[spec.x][in]", "filter[created_at][gt]"]),
)
def test_any_text_is_a_filter_or_a_bad_request(text: str, key: str) -> None:
    try:
        tree((key, text))
    except MalformedRequestError as error:
        assert error.detail  # noqa: PT017 - either way is right
