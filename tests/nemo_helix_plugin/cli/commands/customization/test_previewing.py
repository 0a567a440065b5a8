"""What a preview prints for people."""

from __future__ import annotations

from typing import Any

from nemo_helix_plugin.cli.commands.customization import previewing

NO_END = "the last answer ends with no special token, so that ending it is not learned"


def facts(**more: Any) -> dict[str, Any]:
    return {
        "file": "train.jsonl",
        "rows": 3,
        "tokens": 30,
        "tokens_learned": 12,
        "tokens_cut": 0,
        "shortened_lines": [],
        "left_out_lines": [],
        "unused_keys": {},
        **more,
    }


def lines(training: dict[str, Any]) -> list[str]:
    found = {"method": "sft", "engine": "trl", "max_seq_length": 64, "training": training, "rows": []}
    return list(previewing.shown(found))


def test_what_the_chat_template_leaves_out_has_a_line_for_each_kind() -> None:
    unwritten = [
        {"text": "assistant: thinking", "times": 4, "lines": [1, 3]},
        {"text": "user: name", "times": 1, "lines": [2]},
    ]
    assert lines(facts(unwritten=unwritten, without_end_lines=[3]))[2:] == [
        "  the chat template leaves out 'assistant: thinking': 4 times, in 2 of 3 rows (lines 1, 3)",
        "  the chat template leaves out 'user: name': once, in 1 of 3 rows (line 2)",
        f"  {NO_END}: 1 of 3 rows (line 3)",
    ]


def test_a_service_of_before_says_nothing_of_it() -> None:
    assert len(lines(facts())) == 2
