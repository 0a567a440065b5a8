"""What servers say when they give no answer, in the shapes that were seen of them."""

import json

import pytest

from nemo_gym.rollouts.policy.provider_errors import inside, of_body, page_title


@pytest.mark.parametrize(
    ("body", "message", "code", "param"),
    [
        ({"error": {"message": "no", "type": "t", "code": "c", "param": "p"}}, "no", "c", "p"),
        ({"error": {"message": "no", "type": "t", "code": None, "param": None}}, "no", "t", ""),
        ({"error": "no"}, "no", "", ""),
        ([{"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}], "no", "400", ""),
        ({"object": "error", "message": "no", "type": "BadRequestError", "code": 400}, "no", "400", ""),
        ({"detail": "no"}, "no", "", ""),
        (
            {"detail": [{"loc": ["body", "seed"], "msg": "not permitted", "type": "extra"}]},
            "seed: not permitted",
            "extra",
            "seed",
        ),
        ({"error": {"message": "down", "code": 502, "metadata": {"raw": "gone"}}}, "down (gone)", "502", ""),
        ({"error": {"code": "x", "innererror": {"code": "Inner"}, "message": "no"}}, "no", "Inner", ""),
        ({"code": 500, "msg": "no"}, "no", "500", ""),
    ],
)
def test_the_words_code_and_parameter_of_an_error_are_found(body, message, code, param):
    found = of_body(json.dumps(body))
    assert (found.message, found.code, found.param) == (message, code, param)


@pytest.mark.parametrize("text", ["", "<html>", "[]", "4", "{}", "[" * 99_999])
def test_a_body_without_an_error_holds_none(text):
    assert of_body(text) is None


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("429", 429),
        ("rate_limit_exceeded", 429),
        ("server_error", 502),
        ("overloaded_error", 502),
        ("invalid_request_error", 400),
        ("context_length_exceeded", 400),
        ("invalid_api_key", 401),
        ("1305", None),
        ("", None),
    ],
)
def test_a_code_stands_for_a_status(code, status):
    assert inside({"error": {"message": "no", "code": code}}).status == status


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": None, "error": {"message": "lost", "code": 502}},
        {
            "choices": [{"message": {"content": "half"}, "finish_reason": "stop"}],
            "error": {"message": "lost"},
        },
        {"choices": [{"message": {"content": "half"}, "error": {"message": "lost"}}]},
        {"choices": [{"message": {"content": "half"}, "finish_reason": "error"}]},
        {"choices": [{"message": {"content": "half"}, "finish_reason": "abort"}]},
        {"status": "failed", "error": {"code": "server_error", "message": "lost"}, "output": []},
        {"status": "failed", "error": None, "output": []},
        {"status": "cancelled", "output": []},
        {"status": "queued", "output": []},
        {"detail": "lost"},
        [{"error": {"message": "lost"}}],
    ],
)
def test_an_error_inside_an_answer_is_seen(answer):
    assert inside(answer) is not None


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": [{"message": {"content": "4"}, "finish_reason": "stop", "error": None}], "error": None},
        {"status": "completed", "error": None, "output": []},
        {"choices": [{"message": {"content": "4"}}], "message": "done", "detail": "all"},
        {"choices": []},
        {"model": "m", "message": {"role": "assistant", "content": "4"}, "done": True},
        [],
        4,
    ],
)
def test_an_answer_without_an_error_has_none(answer):
    assert inside(answer) is None


@pytest.mark.parametrize(
    "error",
    [
        {
            "code": "content_filter",
            "message": "filtered",
            "innererror": {"code": "ResponsibleAIPolicyViolation"},
        },
        {"code": "data_inspection_failed", "message": "inappropriate"},
        {"code": 403, "message": "flagged", "metadata": {"reasons": ["x"], "flagged_input": "y"}},
        {"code": "invalid_prompt", "message": "Your prompt was flagged."},
    ],
)
def test_a_content_filter_is_told_from_other_refusals(error):
    assert of_body(json.dumps({"error": error})).withheld
    assert not of_body(
        json.dumps({"error": {**error, "code": "c", "innererror": {}, "metadata": {}}})
    ).withheld


def test_a_page_is_no_answer_and_its_title_tells_what_it_is():
    assert page_title("\n<!DOCTYPE html><head><title>Log  in</title>") == "Log in"
    assert page_title("<html>") == ""
    assert page_title('{"a": "<html>"}') is None
