"""Addresses of model servers, as people paste them."""

import pytest

from nemo_gym.rollouts.run_config.values import base_address


@pytest.mark.parametrize(
    ("given", "api", "address"),
    [
        ("http://h:8000/v1", "chat", "http://h:8000/v1"),
        ("http://h:8000/v1/", "chat", "http://h:8000/v1"),
        (" http://h:8000/v1 ", "chat", "http://h:8000/v1"),
        ("http://h:8000/v1/chat/completions", "chat", "http://h:8000/v1"),
        ("http://h:8000/v1/chat/completions/", "chat", "http://h:8000/v1"),
        ("http://h:8000/v1/completions", "completions", "http://h:8000/v1"),
        ("https://h/api/v1/responses", "responses", "https://h/api/v1"),
        ("http://h:8000/v1/models", "chat", "http://h:8000/v1"),
        ("http://h:8000/v1/models", "responses", "http://h:8000/v1"),
        ("https://h/v1beta/openai/", "chat", "https://h/v1beta/openai"),
        ("http://h", "chat", "http://h"),
    ],
)
def test_the_route_of_the_api_is_cut_off(given, api, address):
    assert base_address(given, api) == address


@pytest.mark.parametrize(
    ("given", "api", "words"),
    [
        ("http://h/v1/responses", "chat", "write http://h/v1, with policy_api=responses"),
        ("http://h/v1/completions", "chat", "write http://h/v1, with policy_api=completions"),
        ("http://h/v1/chat/completions", "responses", "write http://h/v1, with policy_api=chat"),
        ("http://h/v1?api-version=3", "chat", "must not hold a query.*write http://h/v1"),
        (
            "http://h/v1/chat/completions?key=secret",
            "chat",
            "must not hold a query or a fragment; write http://h/v1$",
        ),
        (
            "https://me.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2024-10-21",
            "chat",
            r"write https://me\.openai\.azure\.com/openai/v1, .* deployment's name as policy_model_name$",
        ),
        (
            "https://me.openai.azure.com/openai?api-version=3",
            "chat",
            r"write https://me\.openai\.azure\.com/openai/v1,",
        ),
        ("http://h/v1#top", "chat", "write http://h/v1"),
        ("localhost:8000", "chat", "write http://localhost:8000/v1$"),
        ("h.example:8000/v1/models", "chat", "write http://h.example:8000/v1$"),
        ("ftp://h/v1", "chat", "must look like"),
        ("http://", "chat", "must look like"),
        ("", "chat", "must look like"),
        ("http://me:pw@h/v1", "chat", "must not hold a password"),
    ],
)
def test_what_is_no_such_address_is_refused_with_the_right_one(given, api, words):
    with pytest.raises(ValueError, match=words) as caught:
        base_address(given, api)
    assert "secret" not in str(caught.value)
    assert "pw" not in str(caught.value)
