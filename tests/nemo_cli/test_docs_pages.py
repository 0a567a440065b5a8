"""Pages of the documentation in the terminal, and the line by which an error names one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from nemo_cli import docs_pages
from nemo_gym.cli import error_pages as of_gym
from nemo_gym.cli.main import _status as gym
from nemo_helix_plugin.cli import error_pages as of_nemo
from nemo_helix_plugin.cli.main import _status as nemo

ROOT = Path(__file__).resolve().parents[2]
ABOUT = {
    "identity": "refused",
    "compare": "are not compared",
    "operate-runs": "cancel",
    "sandboxes": "bubblewrap",
    "run-lm-eval-tasks": "tokenizer",
    "run-and-resume": "server",
    "be-notified": "webhook",
    "submit-to-slurm": "ssh",
    "secrets": "host:",
    "environment": "http_proxy",
    "submit-config": "driver.benchmarks",
    "run-config": "benchmark.verifier",
    "connect": "token",
    "contexts": "current_context",
    "training-engines": "nemo engines install",
}
"""What a page says that explains the errors which name it."""


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, *, person: bool = True) -> None:
    """Whether a person reads standard error."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: person)


def test_every_page_is_a_topic_of_its_own() -> None:
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name != "README.md"]
    assert sorted(docs_pages.topics().values()) == sorted(pages)


@pytest.mark.parametrize("program", [of_gym, of_nemo], ids=["gym", "nemo"])
def test_every_page_that_an_error_names_is_there_and_every_error_is_one_of_ours(program: object) -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    table: dict[str, str] = dict(program.TOPICS)  # type: ignore[attr-defined]
    assert {name for name in table if not re.search(rf"^class {name}\(", source, re.MULTILINE)} == set()
    named = {*table.values(), *getattr(program, "OF_CONFIGS", {}).values()}
    pages = docs_pages.topics()
    assert {topic for topic in named if ABOUT[topic] not in pages[topic].read_text("utf-8")} == set()


@pytest.mark.parametrize(
    ("words", "topic"),
    [
        ("eval submit -c {folder}/wrong.yaml", "submit-config"),
        ("eval run --config {folder}/wrong.yaml --output {folder}/x.jsonl", "run-config"),
        ("--json eval run --config {folder}/wrong.yaml --output {folder}/x.jsonl", "run-config"),
        ("eval run --benchmark nothing-like-it --output {folder}/x.jsonl", None),
        ("job status nothing-like-it", None),
        ("job nothing-like-it", None),
    ],
)
def test_an_error_names_the_page_that_explains_it_on_a_line_of_its_own(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    topic: str | None,
) -> None:
    at_a_terminal(monkeypatch)
    (tmp_path / "wrong.yaml").write_text("no_such_key: 1\n")
    assert gym(words.format(folder=tmp_path).split()) in (1, 2)
    said = capsys.readouterr()
    sentence, *more = said.err.splitlines()
    assert (said.out, more) == ("", [] if topic is None else [f"gym: see `gym docs {topic}`."])
    assert sentence.startswith("gym: ")


@pytest.mark.slow
def test_a_service_that_does_not_answer_names_its_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at_a_terminal(monkeypatch)
    assert nemo(["--base-url", "http://127.0.0.1:1", "jobs", "list", "--json"]) == 3
    said = capsys.readouterr()
    assert (said.out, said.err.splitlines()[-1]) == ("", "nemo: see `nemo docs connect`.")


def test_a_program_that_reads_standard_error_gets_the_sentence_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at_a_terminal(monkeypatch, person=False)
    (tmp_path / "wrong.yaml").write_text("no_such_key: 1\n")
    assert gym(["eval", "submit", "-c", str(tmp_path / "wrong.yaml")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_topics_are_listed_and_a_page_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert gym(["docs"]) == nemo(["docs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split(maxsplit=1) == ["verify", "Certify that results are whole"] for line in lines)
    assert gym(["docs", "verify"]) == 0
    assert capsys.readouterr().out.startswith("# Certify that results are whole\n")
    assert gym(["docs", "verfy"]) == 2
    assert "gym: there is no page 'verfy' (did you mean 'verify'?). See" in capsys.readouterr().err


def test_a_copy_without_pages_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at_a_terminal(monkeypatch)
    monkeypatch.setattr(docs_pages, "__file__", str(tmp_path / "site" / "nemo_cli" / "docs_pages.py"))
    (tmp_path / "wrong.yaml").write_text("no_such_key: 1\n")
    assert gym(["eval", "submit", "-c", str(tmp_path / "wrong.yaml")]) == 1
    assert "docs" not in capsys.readouterr().err
    assert gym(["docs"]) == 1
    assert "gym: no page of the documentation came with this copy" in capsys.readouterr().err
    came = tmp_path / "site" / "nemo_cli" / "docs" / "how-to"
    came.mkdir(parents=True)
    (came / "submit.md").write_text("# Submit\n")
    (came.parent / "README.md").touch()
    assert gym(["docs"]) == 0
    assert capsys.readouterr().out == "submit  Submit\n"
