"""Which client errors are alike, and what helps against them."""

import json

import pytest

from nemo_gym.rollouts.policy.errors import of_status
from nemo_gym.rollouts.policy.refusals import Refusals, refusal_of


def refusal(words, status=400, param=None, code=None):
    body = json.dumps({"error": {"message": words, "param": param, "code": code}})
    return refusal_of(of_status("http://h/v1/chat/completions", status, body, None, now=0.0))


@pytest.mark.parametrize(
    ("words", "param", "remedy"),
    [
        (
            "Unsupported value: 'temperature' does not support 0.2 with this model.",
            "temperature",
            "temperature=null",
        ),
        ("Unsupported parameter: 'top_p' is not supported with this model.", None, "top_p=null"),
        ("Unsupported parameter: 'max_tokens'", "max_tokens", "max_output_tokens=null"),
        ("reasoning_effort is not known", "reasoning_effort", "reasoning=null"),
        (
            "Unsupported value: 'messages[0].role' does not support 'system'",
            "messages[0].role",
            "policy_system_role",
        ),
        ("Unexpected message role.", None, "policy_system_role"),
        ("System role not supported", None, "policy_system_role"),
        ("Conversation roles must alternate user/assistant", None, "policy_system_role"),
        ("maximum context length is 4096 tokens", None, "lower max_output_tokens"),
        ("the request exceeds the available context size", None, "lower max_output_tokens"),
        ("something else", None, None),
    ],
)
def test_the_way_out_is_named_where_there_is_one(words, param, remedy):
    found = refusal(words, param=param).remedy
    assert found == "" if remedy is None else remedy in found


def test_an_address_without_such_a_route_is_told_as_one():
    found = refusal("Not Found", status=404)
    assert "policy_base_url" in found.remedy
    assert not found.lasting


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_an_address_that_only_points_to_another_is_told_with_where(status):
    location = "https://me:pw@h/v1/chat/completions?token=secret"
    error = of_status("http://h/v1/chat/completions", status, "", None, now=0.0, location=location)
    found = refusal_of(error)
    assert found.message.endswith(f"answered {status}: it points to https://h/v1/chat/completions")
    assert "set policy_base_url" in found.remedy
    assert not found.lasting


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_what_other_rules_cover_is_no_refusal_of_a_request(status):
    assert refusal("no", status=status) is None


def test_numbers_and_ids_do_not_make_refusals_different():
    first = refusal("bad value 0.5 (request req_011CSHoE, 2024-05-01T10:00:00)")
    second = refusal("bad value 0.25 (request req_99ZZ, 2025-06-02T11:01:01)")
    assert first.words == second.words
    assert first.words != refusal("worse value 0.5").words
    assert first.words != refusal("bad value 0.5", status=422).words


def test_rows_count_and_repeats_of_one_row_do_not():
    watch = Refusals()
    assert [watch.note(7, refusal("no")) for _ in range(50)] == [None] * 50
    verdicts = [watch.note(number, refusal("no")) for number in range(4)]
    assert verdicts[:3] == [None] * 3
    assert verdicts[3].startswith("5 different rows were refused with the same client error")
    assert "400" in verdicts[3]


def test_a_run_of_one_row_is_told_in_the_singular():
    watch = Refusals()
    watch.note(0, refusal("no"))
    assert watch.conclude().startswith("the only row was refused and")


def test_different_words_are_no_verdict():
    watch = Refusals()
    watch.note(0, refusal("one thing"))
    watch.note(1, refusal("another thing"))
    assert watch.conclude() is None
