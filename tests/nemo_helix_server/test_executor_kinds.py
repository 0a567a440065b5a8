"""The name of an executor stands in one place."""

from pathlib import Path

from tests.source_tree import parsed, texts

import nemo_helix_server
from nemo_helix_server import executor_kinds

ROOT = Path(nemo_helix_server.__file__).parent
THEIRS = (ROOT / "executors", ROOT / "executor_kinds.py")


def test_no_module_outside_its_folder_and_the_registry_names_an_executor():
    names = set(executor_kinds.names())
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for path in sorted(ROOT.rglob("*.py"))
        if not any(path.is_relative_to(theirs) for theirs in THEIRS)
        for line, text in texts(parsed(path))
        if text in names
    ]
    assert not found
