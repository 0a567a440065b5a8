"""What other tools call the sampling parameters, and the keys that are meant.

A name that only looks like another key must not be answered with that: ``min_p`` is not ``top_p``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PASSED_ON: Final = (
    "allowed_token_ids", "bad_words", "best_of", "dry_multiplier", "eta_cutoff", "guided_choice",
    "guided_decoding", "guided_grammar", "guided_json", "guided_regex", "ignore_eos",
    "include_stop_str_in_output", "keep_alive", "length_penalty", "logit_bias", "logprobs", "metadata",
    "min_p", "min_tokens", "mirostat", "modalities", "no_repeat_ngram_size", "num_beams", "num_ctx",
    "options", "parallel_tool_calls", "plugins", "prompt_logprobs", "provider", "repetition_penalty",
    "repeat_last_n", "repeat_penalty", "response_format", "safety_settings", "safe_prompt",
    "service_tier", "skip_special_tokens", "spaces_between_special_tokens", "stop_token_ids", "store",
    "structured_outputs", "tfs_z", "thinking", "thinking_budget", "tool_choice", "tools", "top_a",
    "top_k", "top_logprobs", "transforms", "truncate_prompt_tokens", "typical_p", "use_beam_search",
    "user", "verbosity", "web_search_options", "chat_template", "chat_template_kwargs",
)  # fmt: skip
"""Parameters of servers that have no key of their own: they are passed on as they are."""

SAMPLING: Final[Mapping[str, str]] = {
    **{name: f"extra_body.{name}" for name in _PASSED_ON},
    "enable_thinking": "extra_body.chat_template_kwargs",
    "reasoning_effort": "reasoning.effort",
    "max_tokens": "max_output_tokens",
    "max_new_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "max_gen_toks": "max_output_tokens",
    "max_length": "max_output_tokens",
    "num_predict": "max_output_tokens",
    "n_predict": "max_output_tokens",
    "stop_sequences": "stop",
    "until": "stop",
    "do_sample": "temperature",
    "temp": "temperature",
    "random_seed": "seed",
    "n": "../num_repeats",
    "num_return_sequences": "../num_repeats",
    "num_samples": "../num_repeats",
    "best_of": "../num_repeats",
    "model": "../policy_model_name",
    "timeout": "../request_timeout_seconds",
    "system": "../benchmark.prompt.system",
    "system_prompt": "../benchmark.prompt.system",
}
"""Names that people write below ``responses_create_params``, and the keys, from there (``../``: above it)."""


def above(parent: str) -> dict[str, str]:
    """The same names for people who write them one level higher, beside ``parent``."""
    return {
        name: path.removeprefix("../") if path.startswith("../") else f"{parent}.{path}"
        for name, path in SAMPLING.items()
    }
