"""Verdicts of bfcl-eval's own runner, in the interpreter that has the package; a line of JSON for each case.

What the runner imports besides and never uses here (clients of hosted models, tables) is not installed: empty
modules stand in its place. Handler, decoders, runner and checkers are the package's own, unchanged.
"""

import importlib.abc
import importlib.machinery
import json
import os
import sys
import tempfile
import types

RESULTS = tempfile.TemporaryDirectory()  # goes when this process ends
os.environ["BFCL_PROJECT_ROOT"] = RESULTS.name
UNUSED = {"numpy", "pandas", "tqdm", "dotenv", "openai", "overrides", "tree_sitter", "tree_sitter_java",
          "tree_sitter_javascript"}  # fmt: skip


class Unused(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = (lambda x, *_a, **_k: x) if name == "final" else type(name, (Exception,), {})
        setattr(self, name, found)
        return found


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in UNUSED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Unused(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(Finder())
table = types.ModuleType("bfcl_eval.constants.model_config")
vars(table)["MODEL_CONFIG_MAPPING"] = {"model": types.SimpleNamespace(underscore_to_dot=True)}
sys.modules[table.__name__] = table
for language in ("java", "javascript"):
    short = "js" if language == "javascript" else language
    parser = types.ModuleType(f"bfcl_eval.model_handler.parser.{short}_parser")
    setattr(parser, f"parse_{language}_function_call", None)
    sys.modules[parser.__name__] = parser

from bfcl_eval import utils  # noqa: E402
from bfcl_eval.constants.enums import Language, ReturnFormat  # noqa: E402
from bfcl_eval.eval_checker import eval_runner  # noqa: E402
from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler  # noqa: E402

HANDLER = OpenAICompletionsHandler.__new__(OpenAICompletionsHandler)
HANDLER.is_fc_model = True
ENTRIES, ANSWERS = {}, {}


def loaded(category):
    if category not in ENTRIES:
        entries = utils.load_dataset_entry(category, include_language_specific_hint=False)
        ENTRIES[category] = {entry["id"]: entry for entry in entries}
        if not utils.is_relevance_or_irrelevance(category):
            ANSWERS[category] = {
                one["id"]: one["ground_truth"] for one in utils.load_ground_truth_entry(category)
            }
    return ENTRIES[category]


def verdict(id, category, said):  # noqa: A002
    entry = dict(loaded(category)[id])
    if utils.is_relevance_or_irrelevance(category):
        return eval_runner._evaluate_single_relevance_entry(HANDLER, id, said, entry, "model", category)
    answer = ANSWERS[category][id]
    if utils.is_multi_turn(category):
        return eval_runner._evaluate_single_multi_turn_entry(
            HANDLER, id, said, answer, entry, "model", category
        )
    language = Language.PYTHON
    if utils.is_java(category) or utils.is_js(category):
        language = Language.JAVA if utils.is_java(category) else Language.JAVASCRIPT
    return eval_runner._evaluate_single_ast_entry(
        HANDLER, id, said, answer, entry, "model", category, language, ReturnFormat(language.value)
    )


def forget():
    """A world of its own for each conversation: the package keeps worlds in globals by id."""
    from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils

    for name in [name for name in vars(multi_turn_utils) if name.endswith("_instance")]:
        delattr(multi_turn_utils, name)


for line in sys.stdin:
    case = json.loads(line)
    forget()
    try:
        found = verdict(**case)
        error = found.get("error")
        kind = found.get("error_type") or (error.get("error_type") if isinstance(error, dict) else None)
        shown = {"valid": bool(found["valid"]), "error_type": kind}
    except Exception as error:  # noqa: BLE001
        shown = {"valid": False, "error_type": "checker:failed", "error": repr(error)}
    print(json.dumps(shown), flush=True)
