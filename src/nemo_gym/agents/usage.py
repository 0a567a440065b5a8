"""The tokens of several answers as those of one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nemo_gym.types import Row, token_count

_COUNTS = ("input_tokens", "output_tokens", "total_tokens")
_DETAILS = {"input_tokens_details": "cached_tokens", "output_tokens_details": "reasoning_tokens"}


def total_usage(usages: Iterable[Any]) -> Row | None:
    """What a server counted for all turns; ``None`` where it counted nothing."""
    counted = [usage for usage in usages if isinstance(usage, dict)]
    if not counted:
        return None
    total: Row = {name: sum(token_count(usage.get(name)) for usage in counted) for name in _COUNTS}
    for details, name in _DETAILS.items():
        each = [usage[details] for usage in counted if isinstance(usage.get(details), dict)]
        if each:
            total[details] = {name: sum(token_count(one.get(name)) for one in each)}
    return total


def spent_tokens(usage: Mapping[str, Any] | None) -> int:
    """Tokens of questions and answers together."""
    usage = usage or {}
    both = token_count(usage.get("input_tokens")) + token_count(usage.get("output_tokens"))
    return max(both, token_count(usage.get("total_tokens")))
