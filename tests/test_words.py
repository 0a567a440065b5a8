"""Docstrings, messages, documentation and names use the terms of the field, in plain sentences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source_tree import by_kind, nodes, parsed
from tests.source_tree import texts as texts_of

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
SCRIPTS = sorted([*(ROOT / "src").rglob("*.sh"), *(ROOT / "scripts").rglob("*.sh")])
PAGES = sorted(
    [
        *(ROOT / "src").rglob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    ]
)

PHRASES = {
    r"(?<!there )\b(?:is|are|was|were|be|been) no (?!longer\b|more\b|fewer\b|less\b|older\b|newer\b)[a-z]": (
        "is not a"
    ),
    r"\bthere (?:is|are|was|were) not\b|\bthat there (?:is|are) not\b": "does not exist, or lacks",
    r"\bone an? (?:job|benchmark|file|line|task|rollout|row|step|second)\b": "one per",
    r"\b(?:an?|one) (?!without\b|which\b|that\b)[a-z]+ a (?:job|benchmark|door|request|line)\b": (
        "per, for each"
    ),
    r"^So (?:often|long)\b|^At most so long": "how often, how long, for how many seconds",
    r"\banew\b": "again",
    r"\bwhoever\b": "the caller, everybody who, the process that",
    r"\b(?:is|are|was|were|be|been) told\b": "is reported, is asked, gets",
    r"\bstrikes\b|\bmisfortune": "fault, is injected",
    r"\b(?:come|comes|came) to rest\b": "settles",
    r"\bwish(?:es|ed)?\b": "request",
    r"\bhonou?rs?\b|\bhonou?red\b": "supports, reads",
    r"\bin vain\b": "without success",
    r"\bfor ever\b": "forever, without a limit",
    r"\bst(?:ands?|ood)\b(?! for\b|-in\b|-ins\b)": "is, is stored, precedes, follows",
    r"\btells?\b|\btold\b": "reports, publishes, distinguishes, names",
    r"(?-i:\bWhatever\b)": "everything that, regardless of",
    r"(?<!there )\b(?:is|are) none of\b|, or it is none\b|(?<!there )\bis nothing to\b": "is not one of",
    r"(?<![._`])\brooms?\b(?![_.])": "space, capacity",
    r"\bmend(?:s|ed|ing)?\b": "fix",
    r"\blast words?\b": "exit report, end record",
    r"\blets? (?:it|them) go\b|\blets? go of\b|\blets? it go on\b": "release, resume",
}
"""What is not written, each with what is."""
FIELDS = frozenset({"name", "id", "arg", "attr"})
"""Where a syntax tree keeps names."""

NAMES = {
    "anew",
    "bury",
    "census",
    "charted",
    "chore",
    "chores",
    "desk",
    "honour",
    "honoured",
    "keeper",
    "misfortune",
    "nearby",
    "teller",
    "telling",
    "twin",
    "twins",
    "wish",
    "wishes",
    # each with the term of the field
    "at_rest",  # settled
    "barren",  # without progress
    "breath",  # gap
    "resting",  # settled
    "rests",  # settling events
    "flights",  # in flight
    r"\.following",  # progress ingestion
    "give_up_places",  # leave queue
    "hurried",  # SIGTERM received
    "last_words?",  # exit report, marker sentence, last log line
    "manner",  # display options
    "mend",  # fix
    "news",  # changes, records
    "oddity",  # unusual value
    "room",  # space, capacity
    "patience",  # timeout, backoff
    "say",  # update, report
    "sight",  # file access
    "spoilt",  # damaged, obstructed
    "steer",  # control
    "strangers?",  # foreign
    "surroundings",  # environment
    "take_back",  # undo
    "taker",  # indexer
    "_tell",  # send control
    "the_dead",  # ended
    "told",  # known, left out, details
    "trouble",  # errors
    "troubles",  # error isolation
    "waits_for_the_machine",  # waiting reason
    "ways?_?out",  # deadline
    "windows_rest",  # windows earliest
}
"""Words, alone or in a longer name, that no name in the code has; an attribute begins with a dot."""
WRITTEN = frozenset({"stranger", "waits_for_room", "patience"})
"""Names that are keys of stored and printed documents; ``patience`` is the field's term of early stopping."""
NAMED = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(NAMES)})(?![a-z0-9])", re.IGNORECASE)

KEPT: frozenset[tuple[str, str]] = frozenset(
    {
        ("src/nemo_engines/trackers/publisher.py", "tell"),  # an operation of its protocol
        ("src/nemo_helix_server/trackers/sync.py", "tell"),
        ("src/nemo_gym/cli/program.py", "told"),  # a value in the file full_disk
        ("src/nemo_gym/rollouts/output/disk_wait.py", "told"),
        ("src/nemo_gym/job_paths.py", "``told``"),
        ("src/nemo_gym/shell/full_disk.sh", "`told`"),
        ("docs/reference/files.md", "`told`"),
    }
)
"""File and a part of the line of a text that keeps its word, since it quotes or means it literally."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Lines and texts of a file: of a script its comments, of Python its strings, docstrings too, with `{}`
    for inserted values.
    """
    if path.suffix != ".py":
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            yield number, comment(line) if path.suffix == ".sh" else line
        return
    yield from texts_of(parsed(path))
    for joined in nodes(parsed(path), ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in joined.values]
        yield joined.lineno, "".join(map(str, parts))


def comment(line: str) -> str:
    """The comment in a line of a shell script, empty where it has none."""
    return match[1] if (match := re.search(r"(?:^|\s)#+\s(.*)", line)) else ""


def found(path: Path) -> Iterator[str]:
    """Each place where a file has one of the phrases, with what to write."""
    name = path.relative_to(ROOT).as_posix()
    for line, text in texts(path):
        plain = " ".join(text.split())
        for pattern, better in PHRASES.items():
            for match in re.finditer(pattern, plain, re.IGNORECASE):
                around = plain[max(0, match.start() - 40) : match.end() + 40]
                if not any(name == file and part in around for file, part in KEPT):
                    yield f"{name}:{line}: …{around}… ({better})"


def test_docstrings_messages_and_pages_use_plain_sentences():
    places = dict.fromkeys(place for path in [*SOURCES, *SCRIPTS, *PAGES] for place in found(path))
    assert not places, "\n".join(places)


def test_names_use_the_terms_of_the_field():
    places = []
    for path in SOURCES:
        for kind, found in by_kind(parsed(path)).items():
            for field in FIELDS.intersection(kind._fields):
                for name, node in {getattr(node, field): node for node in found}.items():
                    if name and name not in WRITTEN and NAMED.search(f".{name}" if field == "attr" else name):
                        places.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: {name}")
    assert not places, "\n".join(places)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("# one", "one"),
        ("  x=1 # two # three", "two # three"),
        ("#!/bin/sh", ""),
        ("${x#*…} y", ""),
        ("echo a#b", ""),
    ],
)
def test_a_scripts_comments_are_read(line, text):
    assert comment(line) == text


@pytest.mark.parametrize("name", ["wish", "Wishes", "_early_wish", ".following", "_tell", "troubles"])
def test_a_word_in_a_name_is_noticed(name):
    assert NAMED.search(name)


@pytest.mark.parametrize("name", ["following", "tell", ".tell", "winding", "wishbone"])
def test_another_name_is_not_taken_for_it(name):
    assert not NAMED.search(name)


@pytest.mark.parametrize(
    "text",
    [
        "the value is no number",
        "an executor that there is not",
        "jobs, one a benchmark",
        "Whoever asks is told anew.",
        "a key stands here a second time",
        "nobody can tell whether it runs",
        "Whatever is wrong becomes a sentence.",
        "the job is none of this backend",
        "make room, then start again",
        "once the verifier is mended",
        "it left no last word",
        "`nemo jobs resume` lets it go on",
    ],
)
def test_each_kind_of_phrase_is_noticed(text):
    assert any(re.search(pattern, text, re.IGNORECASE) for pattern in PHRASES)


@pytest.mark.parametrize(
    "text",
    [
        "there is no file",
        "it is no longer held",
        "once a second",
        "it is not a file",
        "`{field}` stands for the row's field",
        "there is nothing to resume",
        "the same whatever the port is",
    ],
)
def test_plain_english_is_not_taken_for_it(text):
    assert not any(re.search(pattern, text, re.IGNORECASE) for pattern in PHRASES)
