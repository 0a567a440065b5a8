"""What is said of a body that does not fit."""

import re

import click
import pytest

from nemo_helix_plugin.cli.inputs import JsonObject, body, validated
from nemo_helix_plugin.customization.types import RlJobInput

DPO = {"type": "dpo", "finetuning_type": "lora"}


@pytest.mark.parametrize(
    ("training", "said"),
    [
        (
            {**DPO, "learning_rat": 1},
            r"^training.learning_rat: there is no such field \(did you mean 'learning_rate'\?\)\.$",
        ),
        ({**DPO, "lora": {"rank": "x"}}, r"^training.lora.rank: "),
        (
            {**DPO, "lora": {"rnk": 1, "alfa": 1}},
            r"^2 problems:\n  training.lora.rnk: .*\n  training.lora.alfa: .*\.$",
        ),
    ],
)
def test_a_field_is_named_as_it_stands_in_the_file(training, said):
    with pytest.raises(click.UsageError) as caught:
        validated(RlJobInput, {"name": "x", "model": "/m", "dataset": "/d", "training": training})
    assert re.search(said, caught.value.message)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"name": "a",\n "spec": {"x": 1, "x": 2}}', "line 2 .*: the key x is here a second time"),
        ("name: a\nspec: {}\nname: b\n", "line 3 .*: the key name is here a second time"),
        ("name: a\nspec: {x: [{y: 1, y: 1}]}\n", "line 2 .*: the key y is here a second time"),
    ],
)
def test_a_key_that_a_body_has_twice_is_refused_with_its_line(tmp_path, text, said):
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(click.UsageError, match=said):
        body(str(tmp_path / "job.json"), None, {})
    with pytest.raises(click.UsageError, match=said):
        body(None, text, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"spec": {"rate": NaN}}', "--input-data holds NaN, which is not a number in JSON"),
        ('{"seed": 123456789012345678901234567890}', "--input-data holds the whole number 1234"),
        ('{"name": "\\ud800"}', "--input-data holds half of a character"),
        ("spec: {rate: .nan}", "--input-data holds NaN"),
        ("spec: {rate: -.inf}", "--input-data holds -Infinity"),
        ("seed: 123456789012345678901234567890", "--input-data holds the whole number 1234"),
        ("data: !!binary aGk=", "--input-data holds a value that JSON does not have"),
        ("a: &a [*a]", "--input-data holds a list or an object that contains itself"),
    ],
)
def test_a_value_that_json_does_not_have_is_refused(tmp_path, text, said):
    with pytest.raises(click.UsageError, match=said):
        body(None, text, {})
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(click.UsageError, match=said.removeprefix("--input-data")):
        body(str(tmp_path / "job.yaml"), None, {})


def test_one_key_in_several_objects_and_merged_ones_are_taken(tmp_path):
    text = "a: &a {x: 1}\nb: {<<: *a, x: 2}\nc: [{x: 1}, {x: 1}]\n"
    assert body(None, text, {}) == {"a": {"x": 1}, "b": {"x": 2}, "c": [{"x": 1}, {"x": 1}]}


def test_an_option_that_is_an_object_has_each_key_once():
    with pytest.raises(click.UsageError, match="has the key 'a' more than once"):
        JsonObject().convert('{"a": 1, "a": 2}', None, None)
