"""Answers that are to be JSON of a schema."""

import pytest
from tests.verifier_answers import verdicts

from nemo_gym.errors import ConfigError
from nemo_gym.verifiers.json_schema import grader, json_text
from nemo_gym.verifiers.registry import load_verifier

SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
SPEC = {"type": "json_schema", "json_schema": SCHEMA}


@pytest.mark.parametrize(
    ("text", "fenced", "found"),
    [
        ('{"a": 1}', True, '{"a": 1}'),
        ('Here:\n```json\n{"a": 1}\n```\nDone.', True, '{"a": 1}'),
        ("```\n1\n```\nor\n```\n2\n```", True, "2"),
        ("```\n1\n```", False, "```\n1\n```"),
    ],
)
def test_the_json_is_in_the_last_code_block_or_the_whole_text(text, fenced, found):
    assert json_text(text, fenced=fenced) == found


@pytest.mark.slow
def test_answers_are_parsed_and_compared_with_the_schema():
    answers = ['```json\n{"age": 3}\n```', '{"age": "3"}', "age: 3", '{"age": NaN}', ""]
    found = verdicts(SPEC, [({}, answer) for answer in answers])
    assert [one.reward for one in found] == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert [one.metrics["parses"] for one in found] == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert found[1].fields == {"schema_errors": ["$.age: '3' is not of type 'integer'"]}
    assert (found[0].extracted_answer, found[2].extracted_answer) == ('{"age": 3}', None)


@pytest.mark.slow
def test_each_row_may_have_its_own_schema_as_an_object_or_as_text():
    rows = [({"json_schema": {"type": "array"}}, "[1]"), ({"json_schema": '{"type": "array"}'}, "{}")]
    assert [one.reward for one in verdicts({"type": "json_schema"}, rows)] == [1.0, 0.0]


def test_references_to_other_addresses_are_not_followed():
    grade = grader(check_formats=False)
    with pytest.raises(Exception, match=r"Unresolvable|unresolvable|PointerToNowhere"):
        grade({}, {"$ref": "http://127.0.0.1:9/schema.json"})


def test_formats_are_checked_where_that_is_asked_for():
    schema = {"type": "string", "format": "ipv4"}
    assert grader(check_formats=False)("no address", schema) == []
    assert grader(check_formats=True)("no address", schema) == ["$: 'no address' is not a 'ipv4'"]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({}, "no 'json_schema'"),
        ({"json_schema": "{"}, "neither an object nor the text of one"),
        ({"json_schema": {"type": "objekt"}}, "is not a JSON schema: 'objekt' is not valid"),
        ({"json_schema": {"type": "object"}}, None),
    ],
)
def test_rows_need_a_schema_that_is_one(row, problem):
    found = load_verifier({"type": "json_schema"}).check_row(row)
    assert (found is None) if problem is None else (problem in found)


def test_a_schema_of_the_config_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="json_schema is not a JSON schema"):
        load_verifier({"type": "json_schema", "json_schema": {"type": 3}})
