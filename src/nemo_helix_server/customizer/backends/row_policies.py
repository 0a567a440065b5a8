"""What becomes of the rows, for every backend: too long ones, learned turns, and several data sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_helix_server.customizer.support import Rule

SHARED: Mapping[str, str] = {
    "rows.chat_template": "data.chat_template",
    "rows.weight": "data.weight",
    "rows.beside": "data.beside",
}
OVERLONG: Mapping[str, str] = {"rows.overlong": "data.overlong"}
SUPPORTED: Mapping[str, str] = {**SHARED, **OVERLONG, "rows.learned_turns": "data.learned_turns"}
"""Where the fields go, see `SupportTable.supported`: for all methods, where rows are cut, and for SFT."""
RULES_DPO = (Rule("rows.learned_turns", (None,), "DPO learns all of the answers that it compares"),)
RULES_GRPO = (
    Rule("rows.overlong", ("truncate",), "rows are prompts, which are never cut"),
    Rule("rows.learned_turns", (None,), "GRPO learns the answers that it generates"),
)


def packing_rules(given: Any, *, packs: bool) -> Iterator[Rule]:
    """Rows of one sequence are never too long one by one."""
    if packs and given.rows.overlong == "error":
        yield Rule("rows.overlong", ("truncate", "drop"), "rows are packed")


def folder(number: int) -> str:
    """The folder of a data set beside the first one, counted from 0, in the job's storage."""
    return f"dataset-{number + 2}"


def engine_data(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the engine spec's ``data``."""
    rows = spec["rows"]
    beside = [
        {"dataset": folder(number), "weight": weight}
        for number, weight in enumerate((rows["beside"] or {}).values())
    ]
    return {
        "overlong": rows["overlong"],
        "learned_turns": rows["learned_turns"],
        "chat_template": rows["chat_template"],
        "weight": rows["weight"],
        "beside": beside or None,
    }
