"""What CONTRIBUTING.md says of files, tests, targets and hooks is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tests.test_cases import named

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGE, APPENDIX = TEXT.split("## Appendix: where is it?")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def paths(text: str, *starts: str) -> list[str]:
    """What looks like a path in a text, each once; those with a ``<name>`` to be filled in left out."""
    found = re.findall(r"`([\w./-]+/[\w./-]*)(?:::\w+)?`", text)
    return sorted({path for path in found if path.startswith(starts)})


@pytest.mark.parametrize("path", paths(PAGE, "src/", "tests/", "scripts/", "docs/", ".venv/bin/pytest"))
def test_every_path_is_there(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("test", sorted(set(re.findall(r"`(tests/[\w./]+::\w+)`", PAGE))))
def test_every_test_is_there(test: str) -> None:
    path, _, name = test.partition("::")
    assert name in named(ROOT / path)


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\bmake ([a-z-]+)\b", TEXT))))
def test_every_target_is_there(target: str) -> None:
    assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)


ANSWERS = [line.strip("|").rsplit("|", 1) for line in APPENDIX.splitlines() if line.startswith("| ")][2:]


def test_questions_are_answered() -> None:
    assert len(ANSWERS) >= 30
    assert all(question.strip().endswith("?") for question, _ in ANSWERS)


@pytest.mark.parametrize(("question", "answer"), ANSWERS)
def test_every_answer_is_a_place_that_is_there(question: str, answer: str) -> None:
    places = re.findall(r"`([^`]+)`", answer)
    assert places
    assert [place for place in places if not (ROOT / "src" / place).exists()] == []


def test_hooks_run_the_tools_that_lint_and_types_run() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert local["repo"] == "local"
    assert {hook["language"] for hook in local["hooks"]} == {"system"}
    entries = [hook["entry"].replace(".venv/bin/", "$(BIN)/") for hook in local["hooks"]]
    for tool in (
        "$(BIN)/ruff format --check",
        "$(BIN)/ruff check",
        "$(BIN)/mypy --config-file tests/mypy.ini",
        "shellcheck -x",
    ):
        assert tool in MAKEFILE
        assert sum(tool in entry for entry in entries) == 1
