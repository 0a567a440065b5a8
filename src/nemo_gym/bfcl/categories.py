"""The categories of BFCL v4: which are here, and why the others are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from nemo_gym.errors import ConfigError
from nemo_runs.suggestions import suggestion

SINGLE_TURN: Final = (
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
    "live_relevance",
)
MULTI_TURN: Final = (
    "multi_turn_base",
    "multi_turn_miss_func",
    "multi_turn_miss_param",
    "multi_turn_long_context",
)
ALL: Final = (*SINGLE_TURN, *MULTI_TURN)
_SEARCHES = "it searches the web with a paid service, and what is found changes from day to day"
_REMEMBERS = "its questions are about earlier conversations of the same model, which nobody has to score"
EXCLUDED: Final[Mapping[str, str]] = {
    "web_search_base": _SEARCHES,
    "web_search_no_snippet": _SEARCHES,
    "memory_kv": _REMEMBERS,
    "memory_vector": _REMEMBERS,
    "memory_rec_sum": _REMEMBERS,
    "format_sensitivity": "it has tools described in the prompt, and counts in no score",
}
"""Categories that are not here, and why."""


def check(categories: object) -> list[str]:
    """The categories that were asked for, in BFCL's order. Raises `ConfigError` for what is not here."""
    if isinstance(categories, str) or not isinstance(categories, Iterable):
        raise ConfigError("prepare_script_args.categories: must be a list of categories.")
    wanted = list(map(str, categories))
    for name in wanted:
        if name in EXCLUDED:
            raise ConfigError(f"prepare_script_args.categories: {name} is left out: {EXCLUDED[name]}.")
        if name not in ALL:
            hint = suggestion(name, ALL) or f"; known: {', '.join(ALL)}"
            raise ConfigError(f"prepare_script_args.categories: BFCL has no category {name}{hint}.")
    if not wanted:
        raise ConfigError("prepare_script_args.categories: names no category.")
    return [name for name in ALL if name in wanted]
