"""The name of an executor stands in one place."""

import sys
from pathlib import Path

import pytest
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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("KIND = 42", "outside_kind:KIND must be an ExecutorKind whose open is a function, and is 42"),
        (
            "class KIND:\n    open = print\n    config = dict",
            "outside_kind:KIND.config must be a class made from ProfileSettings, and is <class 'dict'>",
        ),
        ("import sys; sys.exit('bye')", "SystemExit: bye"),
    ],
)
def test_a_kind_that_is_none_is_refused_with_its_package(tmp_path, monkeypatch, text, reason):
    metadata = tmp_path / "outside-1.0.dist-info"
    metadata.mkdir()
    (metadata / "entry_points.txt").write_text(f"[{executor_kinds.GROUP}]\nodd = outside_kind:KIND\n")
    (tmp_path / "outside_kind.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "outside_kind", raising=False)
    with pytest.raises(executor_kinds.UnknownExecutorError) as refused:
        executor_kinds.load("odd")
    assert str(refused.value).startswith(
        f"the executor 'odd' of the package outside cannot be loaded ({reason})"
    )
    monkeypatch.delitem(sys.modules, "outside_kind", raising=False)
