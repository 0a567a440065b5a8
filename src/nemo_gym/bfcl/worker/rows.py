"""Writes the rows of categories into a file: ``python -m nemo_gym.bfcl.worker.rows FILE CATEGORY…``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nemo_gym.bfcl.worker.package import use_package


def category_rows(category: str) -> Iterator[dict[str, Any]]:
    """The rows of one category, in the package's order."""
    from bfcl_eval import utils

    asked = utils.load_dataset_entry(category)
    talks = utils.is_multi_turn(category)
    checked = asked if talks else utils.load_dataset_entry(category, include_language_specific_hint=False)
    if utils.is_relevance_or_irrelevance(category):
        none = "no call" if "irrelevance" in category else "a call"
        answers: list[Any] = [none] * len(asked)
    else:
        answers = [entry["ground_truth"] for entry in utils.load_ground_truth_entry(category)]
    for entry, known, answer in zip(asked, checked, answers, strict=True):
        make = _conversation if talks else _question
        yield {
            "id": entry["id"],
            "category": category,
            "expected_answer": answer,
            **make(entry, known),
        }


def _question(entry: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    return {
        "bfcl": {"functions": known["function"]},
        "responses_create_params": _params(entry["question"][0], entry["function"]),
    }


def _conversation(entry: dict[str, Any], _known: dict[str, Any]) -> dict[str, Any]:
    """Functions that come later are added to those that are there, in a turn with a message of its own."""
    from bfcl_eval.constants.default_prompts import DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC

    later = {turn: _tools(functions) for turn, functions in entry.get("missed_function", {}).items()}
    announced = [{"role": "user", "content": DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC}]
    turns = [announced if str(number) in later else turn for number, turn in enumerate(entry["question"])]
    about = {
        "turns": turns,
        "later_tools": later,
        "initial_config": entry["initial_config"],
        "involved_classes": entry["involved_classes"],
    }
    return {"bfcl": about, "responses_create_params": _params(entry["question"][0], entry["function"])}


def _params(messages: list[dict[str, Any]], functions: list[dict[str, Any]]) -> dict[str, Any]:
    tools = _tools(functions)
    return {"input": messages, **({"tools": tools} if tools else {})}


def _tools(functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the package sends them to servers with the chat API."""
    from bfcl_eval.constants.enums import ModelStyle
    from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI
    from bfcl_eval.model_handler.utils import convert_to_tool

    found: list[dict[str, Any]] = convert_to_tool(
        functions, GORILLA_TO_OPENAPI, ModelStyle.OPENAI_COMPLETIONS
    )
    return found


def main() -> None:
    """Write the file."""
    use_package()
    from importlib.metadata import version

    package = version("bfcl-eval")
    with Path(sys.argv[1]).open("w", encoding="utf-8") as file:
        for category in sys.argv[2:]:
            for row in category_rows(category):
                row["bfcl"] = {"version": package, **row["bfcl"]}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
