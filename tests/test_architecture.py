"""The page about the architecture names the folders and packages that there are."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_layering import MAY_IMPORT

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text below a heading, up to the next one."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[tuple[str, ...]]:
    """The cells of the rows of a section's table that begin with a name."""
    lines = [line for line in section(title).splitlines() if line.startswith("| `")]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def folders() -> set[str]:
    """Every folder of the sources that holds a file of the project."""
    files = (path for path in SOURCES.rglob("*") if path.is_file() and path.parent != SOURCES)
    return {
        path.parent.relative_to(SOURCES).as_posix()
        for path in files
        if "__pycache__" not in path.parts and not path.parts[-2].endswith((".egg-info", ".dist-info"))
    }


def test_the_table_has_every_folder_once_and_no_other() -> None:
    named = [name.strip("`") for name, _ in rows("The folders")]
    assert sorted(named) == sorted(folders())


def test_every_folder_answers_a_question_of_its_own() -> None:
    questions = [question for _, question in rows("The folders")]
    assert all("?" in question for question in questions)
    assert len(questions) == len(set(questions))


def test_what_a_package_may_import_is_what_the_layers_allow() -> None:
    shown = {
        name.strip("`"): {other.partition(".")[0] for other in re.findall(r"`(nemo_\w+(?:\.\w+)*)`", may)}
        for name, _, may in rows("The packages")
    }
    assert shown == MAY_IMPORT


def test_both_ways_through_the_code_name_their_modules() -> None:
    for title in ("The way of one submission", "The way of one job"):
        steps = re.findall(r"^\d+\. .*$", section(title), flags=re.MULTILINE)
        assert len(steps) == 7
        assert [step for step in steps if "](../../src/" not in step] == []
