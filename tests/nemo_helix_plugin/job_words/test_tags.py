"""Tags among the custom fields of a job."""

import pytest

from nemo_helix_plugin.job_words import tags


@pytest.mark.parametrize("fields", [None, {}, {"tags": "text"}, {"tags": None}, {"tags": [1, "", None]}])
def test_what_is_not_a_list_of_texts_has_no_tags(fields):
    assert tags.tags_of(fields) == ()


def test_tags_keep_their_order_and_other_fields_stay():
    fields = {"team": "red", "tags": ["a", "b"]}
    assert tags.changed(fields, ["c", "a"], ["b"]) == {"team": "red", "tags": ["a", "c"]}
    assert tags.changed(fields, [], ["a", "b", "nope"]) == {"team": "red"}
    assert fields == {"team": "red", "tags": ["a", "b"]}


def test_there_are_at_most_fifty():
    full = {"tags": [f"t{number}" for number in range(tags.MOST)]}
    assert tags.changed(full, ["t1"], [])["tags"] == full["tags"]
    with pytest.raises(ValueError, match="at most 50 tags, this would be 51"):
        tags.changed(full, ["more"], [])
