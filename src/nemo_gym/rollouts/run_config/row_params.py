"""What a row may ask of the model, and what belongs to the run alone: model, address, key, kind of answer.

A row's ``responses_create_params`` describe one question. What decides who answers, where, and how many
answers come back is the run's, or a score would be filed under a model that did not earn it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

_EXTRA: Final = "extra_body"

_FIXED: Final[Mapping[str, Any]] = {"stream": False, "n": 1, "best_of": 1, "background": False, "echo": False}
"""Keys that may be there only with the value that the collector works with."""

_OF_THE_RUN: Final = frozenset(
    {
        "api_base",
        "api_key",
        "api_type",
        "api_version",
        "authorization",
        "azure_endpoint",
        "base_url",
        "conversation",
        "custom_llm_provider",
        "default_headers",
        "extra_headers",
        "extra_query",
        "fallbacks",
        "headers",
        "model_list",
        "models",
        "organization",
        "previous_response_id",
        "project",
        "provider",
        "route",
        "stream_options",
    }
)
"""Keys of clients and of routing servers that send a question to another place, model or conversation."""

_OF_THE_QUESTION: Final = frozenset({"input", "messages", "prompt", "instructions"})
"""Keys that would replace the question where they are in ``extra_body``."""


def of_the_run(params: Mapping[str, Any], model: str | None) -> str | None:
    """Say which of a row's parameters belong to the run, as a phrase; ``None`` when none does.

    A row may repeat the run's own ``model``, and state what holds anyway (``stream: false``, ``n: 1``).
    Without ``model`` any name is accepted: nobody is asked yet.
    """
    extra = params.get(_EXTRA)
    return next(_problems(params, model, extra if isinstance(extra, Mapping) else {}), None)


def of_the_run_in_extra_body(extra: Mapping[str, Any]) -> str | None:
    """The same for the ``extra_body`` of a run's own configuration, which has settings for these."""
    if "model" in extra:
        return f"{_EXTRA}.model belongs elsewhere: set policy_model_name (--model)"
    return next(chain(_odd_answers(extra, f"{_EXTRA}."), _other_questions(extra)), None)


def _problems(params: Mapping[str, Any], model: str | None, extra: Mapping[str, Any]) -> Iterator[str]:
    for given, where in ((params, ""), (extra, f"{_EXTRA}.")):
        own = given.get("model")
        if own is not None and model is not None and own != model:
            yield (
                f"{where}model is {own!r}, but the run asks {model!r} (policy_model_name); "
                "drop it from the row, or run the rows of each model by themselves"
            )
        yield from _odd_answers(given, where)
        for key in sorted(_OF_THE_RUN & given.keys()):
            if given[key] is not None:
                yield f"{where}{key} belongs to the run, not to a row; drop it"
    yield from _other_questions(extra)


def _odd_answers(given: Mapping[str, Any], where: str) -> Iterator[str]:
    for key, fit in _FIXED.items():
        value = given.get(key)
        if value is not None and value != fit:
            only = str(fit).lower()
            yield f"{where}{key} is {value!r}; one whole answer is taken of each request, so only {only} fits"


def _other_questions(extra: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(_OF_THE_QUESTION & extra.keys()):
        yield f"{_EXTRA}.{key} would replace the question; put the question into input"
