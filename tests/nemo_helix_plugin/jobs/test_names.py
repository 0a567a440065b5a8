"""Which names are allowed, and the sentence for each that is not."""

from __future__ import annotations

import pytest

from nemo_helix_plugin.jobs import names


@pytest.mark.parametrize("name", ["ab", "a" * 63, "a1-b2", "llama@3.1+x_y", "automodel-a1b2c3d4e5f6", "a.."])
def test_a_name_that_is_allowed(name: str) -> None:
    assert names.problem_with(name) is None
    assert names.entity_name(name) == name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "has 0 characters; 2 to 63"),
        ("a", "has 1 character;"),
        ("a" * 64, "has 64 characters"),
        ("1ab", "must start with a lowercase letter"),
        ("-ab", "must start with a lowercase letter"),
        ("Äb", "must start with a lowercase letter"),
        ("aB", "may hold only lowercase"),
        ("a/b", "may hold only lowercase"),
        ("a b", "may hold only lowercase"),
        ("ab\n", "may hold only lowercase"),
        ("a--b", "double hyphen"),
        ("ab-", "end in a hyphen"),
    ],
)
def test_a_name_that_is_not(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        names.entity_name(name)


@pytest.mark.parametrize(
    ("variable", "reserved"),
    [
        ("NEMO_JOB_ID", True),
        ("NEMO_JOB_CONTROL_FILE", True),
        ("NHX_BASE_URL", True),
        ("NHX_JOBS_URL", True),
        ("NHX_ACCESS_TOKEN", True),
        ("NHX_PRINCIPAL", True),
        ("NEMO_JOB_PERSISTENT_JOB_STORAGE_PATH", False),
        ("NHX_RL_MULTINODE_SHARED_STORAGE_PATH", False),
        ("LOG_LEVEL", False),
        ("PATH", False),
    ],
)
def test_which_variables_are_the_platforms(variable: str, reserved: bool) -> None:
    assert names.is_reserved(variable) is reserved


@pytest.mark.parametrize("variable", ["", "1A", "A=B", "A B", "A\0", "Ä"])
def test_a_variable_that_no_process_can_have(variable: str) -> None:
    with pytest.raises(ValueError, match="may hold only letters"):
        names.environment_name(variable)


@pytest.mark.parametrize("reference", ["wandb-key", "team/wandb-key"])
def test_a_secret_is_named_alone_or_with_its_workspace(reference: str) -> None:
    assert names.secret_reference(reference) == reference


@pytest.mark.parametrize("reference", ["", "/a", "team/", "a/b/c", "Team/key"])
def test_a_secret_that_cannot_be(reference: str) -> None:
    with pytest.raises(ValueError, match="the name"):
        names.secret_reference(reference)
