"""One conversation of BFCL in a sandbox: functions are called as bfcl-eval calls them, by evaluating text.

The program is given as text to the interpreter that has bfcl-eval, so it imports nothing of ours. Standard
input has one line of JSON, what the conversation is about, with ``secret``, a word that each line of an
answer repeats: code that a model wrote may print, too. Then either lines of calls, each answered by their
results; or, in that first line, all that the model said, which is checked against the expected calls.
"""

import json
import os
from typing import Any

UNREADABLE = (ValueError, TypeError, AttributeError, RecursionError)
"""What reading calls raises for text, and for arguments other than a JSON object."""


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    lines = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    about = json.loads(lines.readline())
    secret = about.pop("secret")

    def answer(found: dict[str, Any]) -> None:
        answers.write(json.dumps({"secret": secret, **found}) + "\n")
        answers.flush()

    if "said" in about:
        answer(check(**about))
        return
    for line in lines:
        answer(call(json.loads(line), **about))


def call(
    said: Any,
    entry_id: str,
    initial_config: dict[str, Any],
    involved_classes: list[str],
) -> dict[str, Any]:
    """The results of one answer's calls, or under ``problem`` why it has none that can be read."""
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call

    try:
        calls = as_python(said)
    except UNREADABLE as error:
        return {"problem": f"{type(error).__name__}: {error}"}
    results, _ = execute_multi_turn_func_call(
        calls, initial_config, involved_classes, "model", entry_id, long_context=is_long(entry_id)
    )
    return {"calls": calls, "results": results}


def check(
    said: list[list[Any]],
    expected: list[list[str]],
    entry_id: str,
    initial_config: dict[str, Any],
    involved_classes: list[str],
) -> dict[str, Any]:
    """Whether all that the model said in each turn, a list of answers, does what was expected."""
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

    if len(said) != len(expected):
        error = f"the conversation ended in turn {len(said)} of {len(expected)}"
        return {"valid": False, "error_type": "multi_turn:force_terminated", "error": error}
    turns = [[calls for one in turn if (calls := readable(one))] for turn in said]
    entry = {"id": entry_id, "initial_config": initial_config, "involved_classes": involved_classes}
    try:
        found = multi_turn_checker(turns, expected, entry, entry_id.rsplit("_", 1)[0], "model")
    except Exception as error:  # noqa: BLE001 - the checker is not made for all that a model may say
        return {"valid": False, "error_type": "checker:failed", "error": f"{type(error).__name__}: {error}"}
    if found["valid"]:
        return {"valid": True}
    return {"valid": False, "error_type": found["error_type"], "error": str(found["error_message"])[:1000]}


def readable(said: Any) -> list[str]:
    """The calls of one answer as Python; none where it has none that can be read."""
    try:
        return as_python(said)
    except UNREADABLE:
        return []


def as_python(said: Any) -> list[str]:
    """Calls as the package's `convert_to_function_call` writes them."""
    if isinstance(said, str) and said:
        raise ValueError("the answer is text")
    found = []
    for one in said:
        for name, text in one.items():
            arguments = ",".join(f"{key}={value!r}" for key, value in json.loads(text).items())
            found.append(f"{name}({arguments})")
    return found


def is_long(entry_id: str) -> bool:
    """Whether the folders of the world are filled with much else."""
    return "long_context" in entry_id or "composite" in entry_id


if __name__ == "__main__":
    main()
