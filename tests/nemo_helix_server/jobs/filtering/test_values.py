"""Which values of a spec are in the index of the lists, and under what."""

from __future__ import annotations

import pytest

from nemo_helix_server.jobs.filtering import values


def test_plain_values_stand_under_their_paths() -> None:
    spec = {"n": 1, "deep": {"lr": 1e-5, "on": True}, "list": [1, {"n": 2}], "none": None, "empty": {}}
    assert values.indexed(spec) == {"n": "n:1.0", "deep.lr": "n:1e-05", "deep.on": "b:True"}


def test_a_key_with_a_dot_is_not_taken_for_a_path() -> None:
    assert values.indexed({"a.b": 1, "a": {"b": 2}}) == {"a.b": "n:2.0"}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (0.0, -0.0, True),
        (1, True, False),
        (1, "1", False),
        ("true", True, False),
        ("a", "A", False),
    ],
)
def test_entries_are_the_same_for_equal_values_of_one_kind(one: object, other: object, same: bool) -> None:
    assert (values.entry_of(one) == values.entry_of(other)) is same  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, "x" * 201, "a\0b"])
def test_what_cannot_be_an_entry_is_none(value: str | None) -> None:
    assert values.entry_of(value) is None


@pytest.mark.parametrize(("path", "is_one"), [("a.b", True), ("a.0", False), ("a.b" * 70, False)])
def test_parts_of_lists_and_very_long_paths_are_not_in_the_index(path: str, is_one: bool) -> None:
    assert values.is_path(path) is is_one


def test_a_spec_with_too_many_values_is_left_out_whole() -> None:
    assert values.indexed({str(number) + "k": number for number in range(values.MOST)}) is not None
    assert values.indexed({str(number) + "k": number for number in range(values.MOST + 1)}) is None
