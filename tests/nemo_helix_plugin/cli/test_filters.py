"""Filters: dotted, JSON and text, and what is refused with what was meant."""

import click
import pytest

from nemo_helix_plugin.cli import filters


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        ([("status", "error")], {"status": "error"}),
        ([("status", "error"), ("status", "paused")], {"status": {"$in": ["error", "paused"]}}),
        ([("status", "error,paused")], {"status": {"$in": ["error", "paused"]}}),
        ([("source", "customization")], {"source": "customization"}),
        ([("spec.backend", "unsloth")], {"spec.backend": "unsloth"}),
        ([("spec.lora.rank", "16")], {"spec.lora.rank": {"$in": ["16", 16]}}),
        ([("created_at.gte", "2026-01-01")], {"created_at": {"$gte": "2026-01-01"}}),
        (
            [("created_at.$gte", "2026-01-01"), ("created_at.lt", "2026-02-01")],
            {"created_at": {"$gte": "2026-01-01", "$lt": "2026-02-01"}},
        ),
        ([("name.nin", "a, b")], {"name": {"$nin": ["a", "b"]}}),
        ([("project.exists", "false")], {"project": {"$exists": False}}),
    ],
)
def test_dotted_filters_become_one_tree(pairs, found):
    assert filters.tree(pairs) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"status": "error", "status": "paused"}', "--filter has the key 'status' more than once"),
        ('{"spec.rate": NaN}', "--filter holds NaN, which is not a number in JSON"),
        ('{"spec.seed": 99999999999999999999}', "--filter holds the whole number 9999"),
        ('{"status": ', "--filter begins like JSON, but is not JSON"),
    ],
)
def test_a_json_filter_is_read_as_strictly_as_a_body(text, said):
    with pytest.raises(click.UsageError, match=said):
        filters.combined(text, [])


def test_a_dotted_value_that_spells_no_number_of_json_is_text():
    assert filters.tree([("spec.rate", "NaN")]) == {"spec.rate": "NaN"}


def test_a_dotted_filter_wins_over_the_same_field_of_a_json_filter():
    found = filters.combined('{"status": "active", "source": "x"}', [("status", "error")])
    assert found == {"status": "error", "source": "x"}


def test_a_dotted_filter_narrows_a_text_filter():
    found = filters.combined(
        'name~"llama" OR name~"qwen"', [("status", "error"), ("created_at.gte", "2026-01-01")]
    )
    assert found == '(name~"llama" OR name~"qwen") AND status:"error" AND created_at>="2026-01-01"'


def test_without_filters_nothing_is_sent():
    assert filters.combined(None, []) is None


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--filter.stauts", "error"], "No such option: --filter.stauts (did you mean '--filter.status'?)"),
        (["--filter.status"], "Option '--filter.status' requires an argument."),
        (["--filter.spec", "x"], "--filter.spec needs a path, as in --filter.spec.backend."),
        (["--filter.created_at.gtee", "x"], "No such option: --filter.created_at.gtee (did you mean 'gte'?)"),
    ],
)
def test_a_filter_that_cannot_be_is_refused(args, sentence):
    command = filters.FilteringCommand("list", callback=lambda dotted: None)
    with pytest.raises(click.UsageError) as refused:
        command.make_context("list", args)
    assert refused.value.message.startswith(sentence)


@pytest.mark.parametrize(
    ("value", "meant"), [("eror", "error"), ("pasued", "paused"), ("Completed", "completed")]
)
def test_a_mistyped_status_is_refused_with_the_one_that_was_meant(value, meant):
    with pytest.raises(click.UsageError, match=rf"There is no status '{value}' \(did you mean '{meant}'\?\)"):
        filters.tree([("status", value)])


def test_a_filter_may_be_glued_to_its_value_and_stand_anywhere():
    seen = {}
    command = filters.FilteringCommand(
        "list", params=[click.Argument(["name"])], callback=lambda name, dotted: seen.update({name: dotted})
    )
    command.main(["--filter.status=error", "x", "--filter.spec.a=b=c"], standalone_mode=False)
    assert seen == {"x": [("status", "error"), ("spec.a", "b=c")]}
