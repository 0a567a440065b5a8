"""Sentences for callers: arguments where a command has options, and everything else as it was."""

from __future__ import annotations

import pytest

from nemo_gym.api.errors_in_python import in_python, in_words_of_python
from nemo_gym.errors import GymError
from nemo_runs.errors import RunsError


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("--benchmark: there is no benchmark sumz.", "questions: there is no benchmark sumz."),
        (
            "add --resume (resume_from_cache: true), or choose another --output.",
            "add resume=True (resume_from_cache: true), or choose another output.",
        ),
        ("missing policy_base_url (--model-url)", "missing policy_base_url (model_url)"),
        ("lower --max-output-tokens.", "lower max_output_tokens."),
        ("`gym eval reverify` grades again", "nemo_gym.reverify grades again"),
        ("`--resume` puts it aside", "`resume=True` puts it aside"),
    ],
)
def test_options_become_arguments(said: str, shown: str) -> None:
    assert in_python(said) == shown


@pytest.mark.parametrize(
    "said",
    [
        "/runs/of--model/a--output/rollouts.jsonl: it cannot be read.",
        "/runs/--model/rows.jsonl: it cannot be read.",
        "start vLLM with --enable-tokenizer-info-endpoint, or set policy_tokenizer",
        "as vLLM and `gym serve --likelihoods` do",
        "`gym eval run --resume` puts it aside",
        "the answer was a --- b, c --model-path d",
    ],
)
def test_what_is_no_option_of_ours_stays(said: str) -> None:
    assert in_python(said) == said


def test_every_error_is_said_so() -> None:
    for error in (GymError("add --resume."), RunsError("add --resume.")):
        with pytest.raises(GymError, match=r"^add resume=True\.$"), in_words_of_python():
            raise error
