"""Checks one answer as bfcl-eval's own runner does, by its own checkers; in a grading process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from nemo_gym.bfcl.worker.package import MODEL, use_package


def grader() -> Callable[..., dict[str, Any]]:
    """A function that checks one answer: ``valid``, and where it is not why: ``error_type`` and ``error``."""
    use_package()
    from bfcl_eval import utils
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

    def language(category: str) -> Any:
        if utils.is_java(category):
            return Language.JAVA
        return Language.JAVASCRIPT if utils.is_js(category) else Language.PYTHON

    def relevance(category: str, decoded: Any, problem: str) -> dict[str, Any]:
        called = not problem and not utils.is_empty_output(decoded)
        if "irrelevance" in category:
            return _verdict(not called, "irrelevance_error:decoder_success", "a function is called")
        return _verdict(called, "relevance_error:decoder_failed", problem or "no function is called")

    def check(category: str, functions: list[Any], said: Any, expected: Any) -> dict[str, Any]:
        decoded, problem = _decoded(said)
        if utils.is_relevance_or_irrelevance(category):
            return relevance(category, decoded, problem)
        if problem:
            return _verdict(False, "ast_decoder:decoder_failed", problem)
        if not utils.is_function_calling_format_output(decoded):
            return _verdict(
                False, "ast_decoder:decoder_wrong_output_format", "the arguments of a call must be an object"
            )
        try:
            found = ast_checker(functions, decoded, expected, language(category), category, MODEL)
        except Exception as error:  # noqa: BLE001 - the checker is not made for all that a model may say
            return _verdict(False, "checker:failed", f"{type(error).__name__}: {error}")
        return _verdict(found["valid"], found.get("error_type"), found.get("error"))

    return check


def _decoded(said: Any) -> tuple[Any, str]:
    """Calls with their arguments as values, or why there are none."""
    if isinstance(said, str):
        return [], "no function is called" if said else ""
    try:
        return [{name: json.loads(text) for name, text in call.items()} for call in said], ""
    except (ValueError, RecursionError) as error:
        return None, f"the arguments are not JSON: {error}"


def _verdict(valid: bool, error_type: str | None, error: Any) -> dict[str, Any]:
    if valid:
        return {"valid": True}
    words = error if isinstance(error, str) else " ".join(map(str, error or ()))
    return {"valid": False, "error_type": error_type, "error": words[:1000]}
