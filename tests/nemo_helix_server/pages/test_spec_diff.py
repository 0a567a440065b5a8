"""A configuration beside that of another job."""

from nemo_helix_server.pages import spec_diff
from nemo_helix_server.pages.spec_diff import SpecEntry


def test_every_leaf_has_its_dotted_key():
    spec = {"a": {"b": 1, "c": []}, "list": [1, 2], "steps": [{"name": "x"}], "none": None}
    assert [(one.key, one.value) for one in spec_diff.entries(spec)] == [
        ("a.b", "1"),
        ("a.c", "[]"),
        ("list", "[1, 2]"),
        ("steps[0].name", "x"),
        ("none", "null"),
    ]


def test_what_differs_or_is_missing_is_marked():
    found = spec_diff.entries({"same": 1, "other": 1, "mine": 2}, {"same": 1, "other": "1", "theirs": 3})
    assert found == [
        SpecEntry("same", "1", "1", differs=False),
        SpecEntry("other", "1", "1", differs=True),
        SpecEntry("mine", "2", None, differs=True),
        SpecEntry("theirs", None, "3", differs=True),
    ]


def test_of_several_documents_only_what_differs_is_shown_with_each_value():
    documents = [{"a": 1, "b": {"c": [1, 2]}}, {"a": 1, "b": {"c": [1, 3]}}, {"a": 1, "b": {}}]
    found, same = spec_diff.differing(documents)
    assert found == [("b.c", ["[1, 2]", "[1, 3]", None]), ("b", [None, None, "{}"])]
    assert same == 1
    assert spec_diff.differing([{"a": 1}, {"a": True}]) == ([("a", ["1", "true"])], 0)
