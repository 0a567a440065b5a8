"""What a benchmark of somebody's rows would say, guessed from the names and values of their fields.

Every guess is said, so that a wrong one is seen before its score is believed; what cannot be guessed is asked
for by the key that says it. Pure but for reading the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from nemo_gym.errors import ConfigError, DataError
from nemo_gym.rollouts.data.dataset import read_rows
from nemo_gym.types import Row
from nemo_runs import packed
from nemo_runs.counts import counted

MOST_ROWS: Final = 10_000
"""Rows that a guess is made from."""
_QUESTIONS: Final = (
    *("question", "problem", "prompt", "query", "instruction", "input", "task", "text", "user"),
    *("question_text", "goal", "sentence"),
)
_CONVERSATIONS: Final = ("messages", "conversation", "conversations", "prompt", "input", "turns")
_TURNS: Final = ("turns", "prompt", "messages")
_BEFORE: Final = ("context", "passage", "article", "document")
_ANSWERS: Final = (
    *("expected_answer", "answer", "gold", "target", "ideal", "label", "ground_truth", "groundtruth"),
    *("correct_answer", "reference", "reference_answer", "solution", "expected", "answerKey", "answer_key"),
    *("answers", "output", "completion", "response", "chosen"),
)
_CHOICES: Final = ("choices", "options", "endings")
_CATEGORIES: Final = ("category", "subject", "topic", "domain", "level", "difficulty", "subset", "type")
_MOST_CATEGORIES: Final = 30
_NUMBER: Final = re.compile(r"[-+]?[$€£]?\d[\d,]*(\.\d+)?%?")
_LETTERS: Final = "ABCDEFGHIJ"
_HASHES: Final = re.compile(r"#### *\S")
_LETTER_PATTERN: Final = r"(?:^|\b[Aa]nswer(?: is)?:? *)\W*([%s])\b"


@dataclass(slots=True)
class Guess:
    """The part of a configuration that was guessed."""

    benchmark: dict[str, Any]
    """Its ``benchmark`` block."""
    said: dict[str, str] = field(default_factory=dict)
    """Key below ``benchmark`` → a sentence about what was guessed for it, and why."""
    rows: int = 0
    """How many rows were looked at."""


def guess_benchmark(
    path: Path, *, name: str | None = None, verifier: Mapping[str, Any] | None = None, asked: bool = False
) -> Guess:
    """The benchmark of a file of rows; ``verifier`` and a prompt (``asked``) that are given are not guessed.

    `DataError` for rows that cannot be read, `ConfigError` where a question, or a right answer for the
    verifier ``match``, cannot be found among the fields.
    """
    rows = list(read_rows(path, limit=MOST_ROWS))
    if not rows:
        raise DataError(f"{path}: holds no rows.")
    guess = Guess({"name": name or name_of(path), "datasets": {"benchmark": {"jsonl_fpath": str(path)}}})
    guess.rows = len(rows)
    present = _in_all(rows)
    gold = _named(_ANSWERS, present, lambda values: not any(value is None for value in values), rows)
    choices = _named(_CHOICES, present, lambda values: all(map(_is_list_of_choices, values)), rows)
    if not asked:
        _guess_prompt(guess, path, rows, present, choices, gold)
    if verifier is None or set(verifier) == {"type"}:
        _guess_verifier(guess, rows, choices, gold, None if verifier is None else str(verifier["type"]))
    else:
        guess.benchmark["verifier"] = dict(verifier)
    if gold is not None and gold != "expected_answer" and "answer_field" not in guess.benchmark["verifier"]:
        guess.benchmark["fields"] = {**guess.benchmark.get("fields", {}), "expected_answer": gold}
        guess.said["fields"] = f"the right answers are in the field {gold}"
    _guess_groups(guess, rows, present)
    needs_one = guess.benchmark["verifier"]["type"] in ("match", "multiple_choice")
    if gold is None and needs_one and "answer_field" not in guess.benchmark["verifier"]:
        raise ConfigError(
            f"{path}: none of its fields ({_some(present)}) looks like a right answer; name it: "
            "--verifier '{type: match, answer_field: FIELD}'."
        )
    return guess


def name_of(path: Path) -> str:
    """A name for a benchmark from that of its file."""
    stem = path.name
    while Path(stem).suffix.lower() in (
        *packed.SUFFIXES,
        ".jsonl",
        ".ndjson",
        ".json",
        ".csv",
        ".tsv",
        ".parquet",
    ):
        stem = Path(stem).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.") or "questions"


def _in_all(rows: Sequence[Row]) -> list[str]:
    """The fields that every row has, in the order of the first row."""
    return [name for name in rows[0] if all(name in row for row in rows)]


def _named(
    names: Sequence[str], present: Sequence[str], fits: Callable[[list[Any]], bool], rows: Sequence[Row]
) -> str | None:
    """The first of ``names`` that every row has with fitting values; capitals do not matter."""
    lower = {name.lower(): name for name in reversed(present)}
    for name in names:
        found = name if name in present else lower.get(name.lower())
        if found is not None and fits([row[found] for row in rows]):
            return found
    return None


def _all_text(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values) and any(value.strip() for value in values)


def _is_conversation(values: list[Any]) -> bool:
    return all(
        isinstance(value, list) and value and all(isinstance(message, dict) for message in value)
        for value in values
    )


def _are_turns(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and _all_text(value)


def _is_list_of_choices(value: Any) -> bool:
    """A list of choices; or, as ARC has them, an object with the lists ``text`` and ``label``."""
    if isinstance(value, dict):
        texts, labels = value.get("text"), value.get("label")
        return isinstance(texts, list) and isinstance(labels, list) and len(texts) == len(labels) > 0
    return isinstance(value, list) and 1 <= len(value) <= len(_LETTERS)


def _labels(name: str, rows: Sequence[Row]) -> str:
    """All labels that choices have: what the data says, else letters in order."""
    if all(isinstance(row[name], dict) for row in rows):
        return "".join(sorted({str(label) for row in rows for label in row[name]["label"]}))
    return _LETTERS[: max(len(row[name]) for row in rows)]


def _guess_prompt(
    guess: Guess,
    path: Path,
    rows: Sequence[Row],
    present: Sequence[str],
    choices: str | None,
    gold: str | None,
) -> None:
    if all(isinstance(row.get("responses_create_params"), dict) for row in rows):
        guess.said["prompt"] = "the rows bring their own responses_create_params.input"
        return
    talk = _named(_CONVERSATIONS, present, _is_conversation, rows)
    if talk is not None:
        guess.benchmark["prompt"] = {"conversation": talk}
        guess.said["prompt"] = f"the field {talk} holds conversations"
        return
    turns = _named(_TURNS, present, lambda values: all(map(_are_turns, values)), rows)
    if turns is not None:
        guess.benchmark["prompt"] = {"turns": turns}
        guess.said["prompt"] = f"{turns} holds what is said one after the other, each once it is answered"
        return
    rest = [name for name in present if name != gold]
    question = _named(_QUESTIONS, rest, _all_text, rows)
    if question is None:
        raise ConfigError(
            f"{path}: none of its fields ({_some(present)}) looks like a question; say how rows are asked: "
            "benchmark.prompt.user='{FIELD}'."
        )
    shown, asked = question, question
    if not question.isidentifier():
        asked = "question"
        guess.benchmark["fields"] = {"question": question}
    before = _named(_BEFORE, rest, _all_text, rows)
    more = _named(("input",), rest, lambda values: all(isinstance(v, str | None) for v in values), rows)
    if question == "instruction" and more is not None:
        text = "{{ instruction }}{% if input %}\n\n{{ input }}{% endif %}"
        shown = "instruction and input"
    elif choices is not None and _are_texts(choices, rows):
        text = f"{{{{ {asked} }}}}\n\n" + _list_of_choices(
            choices, rows, letters=_letters(rows, choices, gold)
        )
        shown = f"{question} and the {choices}"
    else:
        guess.benchmark["prompt"] = {"user": f"{{{asked}}}"}
        if before is not None and before.isidentifier() and before != question:
            guess.benchmark["prompt"] = {"user": f"{{{before}}}\n\n{{{asked}}}"}
            shown = f"{before} and {question}"
        guess.said["prompt"] = f"{shown} is what is asked"
        return
    guess.benchmark["prompt"] = {"syntax": "jinja2", "user": text}
    guess.said["prompt"] = f"{shown} is what is asked"


def _list_of_choices(name: str, rows: Sequence[Row], *, letters: bool) -> str:
    end = f"Answer with the {'letter' if letters else 'number'} of the right option only."
    if all(isinstance(row[name], dict) for row in rows):
        mark, each = f"{{{{ {name}.label[loop.index0] }}}}", f"{name}.text"
    elif letters:
        mark, each = f"{{{{ '{_LETTERS}'[loop.index0] }}}}", name
    else:
        mark, each = "{{ loop.index0 }}", name
    return f"{{% for choice in {each} %}}{mark}. {{{{ choice }}}}\n{{% endfor %}}{end}"


def _are_texts(name: str, rows: Sequence[Row]) -> bool:
    lists = [row[name]["text"] if isinstance(row[name], dict) else row[name] for row in rows]
    return all(isinstance(choice, str) for choices in lists for choice in choices)


def _letters(rows: Sequence[Row], choices: str | None, gold: str | None) -> bool:
    """Whether every right answer is the label of a choice."""
    if gold is None or choices is None:
        return False
    labels = set(_labels(choices, rows))
    return all(isinstance(row[gold], str) and row[gold].strip() in labels for row in rows)


def _guess_verifier(
    guess: Guess, rows: Sequence[Row], choices: str | None, gold: str | None, kind: str | None
) -> None:
    """The verifier, or for a ``kind`` that is given its options."""
    said = guess.said
    if kind not in (None, "match"):
        guess.benchmark["verifier"] = {"type": kind}
        return
    values = [row[gold] for row in rows] if gold is not None else []
    texts = [str(value).strip() for value in values]
    labelled = choices == "options" and all(isinstance(o, dict) for row in rows for o in row["options"])
    if kind is None and labelled and _letters(rows, choices, gold):
        guess.benchmark["verifier"] = {"type": "multiple_choice", "grading_mode": "lenient_answer_colon_md"}
        said["verifier"] = "the rows have options, and the right answers are letters"
    elif choices is not None and _letters(rows, choices, gold):
        guess.benchmark["verifier"] = {
            "type": "match",
            "mode": "regex",
            "pattern": _LETTER_PATTERN % re.escape(_labels(choices, rows)),
        }
        said["verifier"] = f"the rows have {choices}, and the right answers are letters"
    elif texts and all(_HASHES.search(text) for text in texts):
        guess.benchmark["verifier"] = {"type": "match", "mode": "numeric", "answer_pattern": "#### *(.*)"}
        said["verifier"] = f"{gold} holds solutions that end in #### and a number"
    elif texts and all(_NUMBER.fullmatch(text) and not isinstance(value, bool)
                       for text, value in zip(texts, values, strict=True)):  # fmt: skip
        guess.benchmark["verifier"] = {"type": "match", "mode": "numeric"}
        said["verifier"] = "all right answers are numbers: the last number of an answer counts"
    else:
        guess.benchmark["verifier"] = {"type": "match", "mode": "exact", "ignore_case": True}
        said["verifier"] = "right answers are text: the whole answer must be that text, capitals aside"


def _guess_groups(guess: Guess, rows: Sequence[Row], present: Sequence[str]) -> None:
    """Fields with few values, each in several rows: scores by them are worth having."""
    found = []
    for name in present:
        values = {row[name] if isinstance(row[name], str | int) else None for row in rows}
        few = 2 <= len(values) <= min(_MOST_CATEGORIES, len(rows) // 2)
        if name.lower() in _CATEGORIES and few and None not in values:
            found.append(name)
    if found:
        guess.benchmark["group_by"] = found
        guess.said["group_by"] = f"{' and '.join(found)} {'has' if len(found) == 1 else 'have'} few values"


def sentence(guess: Guess, path: Path) -> str:
    """All guesses in one sentence for people."""
    listed = "; ".join(guess.said.values())
    return f"guessed from {counted(guess.rows, 'row')} of {path.name}: {listed}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) or "none"
