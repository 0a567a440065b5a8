"""The parts of bfcl-eval that are used, imported without the clients of hosted models.

Its checker wants the table of all models, which imports all clients, for one word about each: whether dots in
names of functions become underscores. Its loaders want parsers of Java and JavaScript, which read answers
that are text. Modules that hold just that replace them; everything else is the package's own.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from types import ModuleType, SimpleNamespace
from typing import Any

MODEL = "model"
"""The name under which the model is known to the package."""


def _stand_in(name: str, **contents: Any) -> None:
    module = ModuleType(name)
    vars(module).update(contents)
    sys.modules[name] = module


def _refuse(*_arguments: Any) -> Any:
    """In the place of a parser of texts: answers are tool calls here, so that the loaders' names suffice."""
    raise AssertionError("answers are tool calls, no text is parsed")


def use_package() -> None:
    """Make the package importable. It makes folders for results, which nothing here writes: they go at once,
    since a process that is killed can remove nothing later."""
    with tempfile.TemporaryDirectory(prefix="gym-bfcl-") as folder:
        os.environ["BFCL_PROJECT_ROOT"] = folder
        importlib.import_module("bfcl_eval.constants.eval_config")
    mapping = {MODEL: SimpleNamespace(underscore_to_dot=True)}
    _stand_in("bfcl_eval.constants.model_config", MODEL_CONFIG_MAPPING=mapping)
    _stand_in("bfcl_eval.model_handler.parser.java_parser", parse_java_function_call=_refuse)
    _stand_in("bfcl_eval.model_handler.parser.js_parser", parse_javascript_function_call=_refuse)
