"""References to variables, and values that must not be seen."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from nemo_runs.secret_refs import (
    Reference,
    SecretReferenceError,
    SecretText,
    looks_secret,
    parse_reference,
    redact,
    resolve_host,
)

CANARY = "sk-canary-4711"


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("host:HF_TOKEN", "host", "HF_TOKEN"),
        ("runtime:_x1", "runtime", "_x1"),
        ("lit:host:HF_TOKEN", "lit", "host:HF_TOKEN"),
        ("lit:", "lit", ""),
        ("", "lit", ""),
        ("http://localhost:80", "lit", "http://localhost:80"),
        ("HOST:x", "lit", "HOST:x"),
        ("hosts:x", "lit", "hosts:x"),
        (" host:A", "lit", " host:A"),
        ("host", "lit", "host"),
        ("a:b:host:C", "lit", "a:b:host:C"),
    ],
)
def test_only_three_prefixes_mean_something(value: str, kind: str, text: str) -> None:
    reference = parse_reference(value, where="x")
    assert (reference.kind, reference.text) == (kind, text)


@pytest.mark.parametrize("name", ["", "1A", "a-b", "A B", " A", "A\n", "A:B", "Ä", "$A", "A=B"])
@pytest.mark.parametrize("prefix", ["host", "runtime"])
def test_a_bad_name_is_refused_with_its_place(prefix: str, name: str) -> None:
    with pytest.raises(SecretReferenceError, match=r"^driver\.env\.X: ") as error:
        parse_reference(f"{prefix}:{name}", where="driver.env.X")
    assert repr(name) in str(error.value) or not name


def test_a_secret_written_in_place_of_its_name_is_not_repeated_in_full() -> None:
    with pytest.raises(SecretReferenceError) as error:
        parse_reference("host:sk-0123456789abcdefghijklmnop", where="x")
    assert "0123" not in str(error.value)


def test_a_value_is_taken_as_it_is_and_never_parsed_again() -> None:
    environ = {"A": "host:B", "B": "wrong", "EMPTY": ""}
    assert resolve_host(Reference("host", "A"), environ, where="x").reveal() == "host:B"
    assert resolve_host(Reference("host", "EMPTY"), environ, where="x").reveal() == ""


def test_an_unset_variable_is_named_with_its_place() -> None:
    with pytest.raises(SecretReferenceError, match=r"^driver\.env\.X: .*HF_TOKEN"):
        resolve_host(Reference("host", "HF_TOKEN"), {"OTHER": CANARY}, where="driver.env.X")


@pytest.mark.parametrize("kind", ["lit", "runtime"])
def test_only_host_references_have_a_value_here(kind: str) -> None:
    with pytest.raises(ValueError, match="no value on this machine"):
        resolve_host(Reference(kind, "A"), {"A": "x"}, where="x")  # type: ignore[arg-type]


def test_a_secret_shows_nowhere_by_itself() -> None:
    secret = SecretText(CANARY)
    seen = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret:>20}",
        f"{secret!r}",
        f"{secret}",
        repr([secret]),
    ]
    assert not any("canary" in text for text in seen)
    assert secret.reveal() == CANARY


def test_a_secret_is_neither_pickled_nor_dumped() -> None:
    with pytest.raises(TypeError, match="reveal"):
        pickle.dumps(SecretText(CANARY))
    with pytest.raises(TypeError):
        json.dumps(SecretText(CANARY))


def test_a_secret_can_be_copied_and_compared() -> None:
    secret = SecretText(CANARY)
    assert copy.deepcopy({"a": secret}) == {"a": SecretText(CANARY)}
    assert copy.copy(secret) is secret
    assert secret != SecretText("other")
    assert secret != CANARY
    assert len({secret, SecretText(CANARY)}) == 1


@pytest.mark.parametrize(
    "key",
    [
        "api_key",
        "HF_TOKEN",
        "apiKey",
        "API-KEY",
        "policy.api_key",
        "HFToken",
        "secret",
        "db password",
        "token2",
        "OPENAI_API_KEY",
        "clientSecretName",
        "apikey",
    ],
)
def test_a_key_with_a_secret_word_looks_secret(key: str) -> None:
    assert looks_secret(key)


@pytest.mark.parametrize(
    "key",
    ["max_output_tokens", "num_tokens", "keyboard", "monkey", "secretary", "tokenizer", "", "keys"],
)
def test_other_keys_do_not_look_secret(key: str) -> None:
    assert not looks_secret(key)


def test_values_are_redacted_longest_first_and_taken_literally() -> None:
    text = "a=abcd b=abcdef c=a.cd"
    assert redact(text, ["abcd", "abcdef"]) == "a=*** b=*** c=a.cd"
    assert redact(text, ["a.cd"]) == "a=abcd b=abcdef c=***"


def test_short_values_are_not_redacted() -> None:
    assert redact("the cat sat", ["a", "", "cat"]) == "the cat sat"
    assert redact("four", ["four"]) == "***"
    assert redact("x", []) == "x"
