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

from nemo_gym.dotted_paths import at_path
from nemo_gym.errors import ConfigError, DataError
from nemo_gym.rollouts.data import row_files
from nemo_gym.rollouts.data.conversations import speaker_of, turns_of, without_answer
from nemo_gym.rollouts.data.dataset import read_rows
from nemo_gym.rollouts.data.guess_choices import FoundChoices, are_letters_already, find_choices
from nemo_gym.rollouts.data.guess_parse import SEVERAL_ANSWERS, columns_to_parse
from nemo_gym.rollouts.data.guess_special import guess_special, judge_of
from nemo_gym.rollouts.data.images_in_place import MARK
from nemo_gym.rollouts.run_config.choices import LETTERS, texts_of
from nemo_gym.rollouts.run_config.fields import row_mapper
from nemo_gym.types import Row
from nemo_runs import packed
from nemo_runs.counts import counted

MOST_ROWS: Final = 10_000
"""Rows that a guess is made from."""
_QUESTIONS: Final = (
    *("question", "problem", "prompt", "query", "instruction", "input", "task", "text", "user"),
    *("question_text", "question_stem", "goal", "sentence", "ctx", "stem", "user_input"),
)
_CONVERSATIONS: Final = ("messages", "conversation", "conversations", "prompt", "input", "turns")
_TURNS: Final = ("turns", "prompt", "messages", "conversation", "conversations")
_BEFORE: Final = ("context", "passage", "article", "document")
_ANSWERS: Final = (
    *("expected_answer", "answer", "gold", "target", "ideal", "label", "ground_truth", "groundtruth"),
    *("correct_answer", "reference", "reference_answer", "solution", "expected", "answerKey", "answer_key"),
    *(*SEVERAL_ANSWERS, "output", "completion", "response", "chosen"),
)
_GOLD_KEYS: Final = ("aliases", "text", "value")
"""Where in an object the right answers are."""
_ASK_FOR_A_QUESTION: Final = ("judge", "pairwise")
"""Verifiers whose prompts have a place for the field ``question``."""
_SPEAKER: Final = frozenset(("role", "from"))
_IMAGE: Final = re.compile(r"(decoded_)?(image|img|picture|photo)s?(_?(path|url|file|\d+))?")
_NAMES_A_ROW: Final = re.compile(
    r"(?i)(^|_)(id|idx|ind|index|key|url|hash|source|split|task_id|uuid)$|(?-i:Id)$"
)
_BY_RIGHT_ANSWERS: Final = (None, "match", "math", "multiple_choice", "f1", "rouge")
"""Verifiers that compare with a right answer; ``None``: the one that is guessed."""
_CATEGORIES: Final = ("category", "subject", "topic", "domain", "level", "difficulty", "subset", "type")
_MOST_CATEGORIES: Final = 30
_NUMBER: Final = re.compile(r"[-+]?[$€£]?\d[\d,]*(\.\d+)?%?")
_HASHES: Final = re.compile(r"#### *\S")
_YES_OR_NO: Final = r"\b(yes|no|true|false)\b"
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
    unused: list[str] = field(default_factory=list)
    """Fields that are neither asked nor graded."""


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
    kind = None if verifier is None else str(verifier["type"])
    parse = columns_to_parse(rows, present := _in_all(rows), _is_conversation)
    if parse:
        guess.benchmark["parse"] = parse
        guess.said["parse"] = f"{' and '.join(parse)} {'holds' if len(parse) == 1 else 'hold'} lists as text"
        rows = [*map(row_mapper(None, parse=parse), rows)]
    data = _Rows(path, rows, present, kind)
    special = guess_special(rows, data.present, kind) if not asked else None
    if special is not None and (verifier is None or set(verifier) == {"type"}):
        guess.benchmark |= special.benchmark
        guess.said |= special.said
        data.used.update(special.used)
        _guess_groups(guess, data)
        guess.unused = data.unused()
        return guess
    _guess_choices(guess, data)
    if not asked:
        _guess_prompt(guess, data)
    if verifier is None or set(verifier) == {"type"}:
        _guess_verifier(guess, data)
    else:
        guess.benchmark["verifier"] = dict(verifier)
    _guess_gold(guess, data)
    _guess_groups(guess, data)
    if not asked:
        guess.unused = data.unused()
    return guess


@dataclass(slots=True)
class _Rows:
    """The rows, and what was found in them."""

    path: Path
    rows: list[Row]
    present: list[str]
    """The fields that every row has."""
    kind: str | None
    """The verifier that was asked for."""
    choices: FoundChoices | None = None
    labelled: bool = False
    """The question holds the options already, with letters."""
    gold: str | None = None
    """The field with the right answers, or the path of it."""
    talk: bool = False
    """Rows hold conversations, or turns."""
    used: set[str] = field(default_factory=set)

    def values(self, path: str) -> list[Any]:
        """The values of a field in all rows."""
        return [at_path(row, path, None) for row in self.rows]

    def unused(self) -> list[str]:
        """Fields that are neither asked nor graded, and do not only name the row."""
        kept = {name.partition(".")[0] for name in self.used if name not in self.present} | self.used
        return [name for name in self.present if name not in kept and not _NAMES_A_ROW.search(name)]


def _guess_choices(guess: Guess, data: _Rows) -> None:
    """Where the choices are, and the right answers."""
    present, rows = data.present, data.rows
    gold = _named(_ANSWERS, present, lambda values: not any(value is None for value in values), rows)
    data.gold = None if gold is None else _within(gold, data)
    if gold is not None and "options" in present and are_letters_already(rows, "options", gold):
        data.labelled = all(_holds_options(row) for row in rows)
    if not data.labelled:
        data.choices = find_choices(rows, present)
    if data.choices is not None:
        guess.benchmark["choices"] = data.choices.key
        guess.said["choices"] = data.choices.said
        data.used.update(data.choices.fields)
        data.gold = "expected_answer"


def _holds_options(row: Row) -> bool:
    """Whether all options are in the text of a question."""
    texts = [text for text in texts_of(row["options"]) or () if text is not None]
    return any(isinstance(value, str) and all(text in value for text in texts) for value in row.values())


def _within(gold: str, data: _Rows) -> str:
    """Where in the field the right answers are: SQuAD has them in ``answers.text``, TriviaQA in aliases."""
    values = data.values(gold)
    for key in _GOLD_KEYS:
        if all(isinstance(value, dict) and value.get(key) not in (None, "", []) for value in values):
            return f"{gold}.{key}"
    return gold


def _guess_gold(guess: Guess, data: _Rows) -> None:
    """Give the right answers the name that verifiers use."""
    verifier, gold = guess.benchmark["verifier"], data.gold
    if gold is None and verifier["type"] in ("match", "multiple_choice") and "answer_field" not in verifier:
        raise ConfigError(
            f"{data.path}: none of its fields ({_some(data.present)}) looks like a right answer; name it: "
            "--verifier '{type: match, answer_field: FIELD}'."
        )
    if gold is None or "answer_field" in verifier:
        data.used.add(str(verifier.get("answer_field")))
        return
    data.used.add(gold)
    if gold != "expected_answer":
        mapped = {**guess.benchmark.get("fields", {}), "expected_answer": gold}
        if verifier["type"] == "python" and gold in data.present:
            mapped[gold] = gold  # the function may look for it by its own name
        guess.benchmark["fields"] = mapped
        guess.said["fields"] = f"the right answers are in the field {gold}"


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
        isinstance(value, list)
        and value
        and all(isinstance(message, dict) and _SPEAKER & message.keys() for message in value)
        for value in values
    )


def _are_turns(value: Any) -> bool:
    try:
        return isinstance(value, list) and bool(turns_of({"turns": value}, "turns"))
    except DataError:
        return False


def _guess_prompt(guess: Guess, data: _Rows) -> None:
    rows, present = data.rows, data.present
    if all(isinstance(row.get("responses_create_params"), dict) for row in rows):
        guess.said["prompt"] = "the rows bring their own responses_create_params.input"
        data.used.add("responses_create_params")
        return
    if _guess_talk(guess, data):
        return
    taken = {data.gold, *(data.choices.fields if data.choices else ())}
    rest = [name for name in present if name not in taken]
    question = _named(_QUESTIONS, rest, _all_text, rows)
    if question is None:
        raise ConfigError(
            f"{data.path}: none of its fields ({_some(present)}) looks like a question{_names(data.path)}; "
            "say how rows are asked: benchmark.prompt.user='{FIELD}'."
        )
    shown = [question]
    asked = question
    if not question.isidentifier() or (data.kind in _ASK_FOR_A_QUESTION and "question" not in present):
        asked = "question"
        guess.benchmark["fields"] = {"question": question}
    more = _named(("input",), rest, lambda values: all(isinstance(v, str | None) for v in values), rows)
    before = _named(_BEFORE, rest, _all_text, rows)
    if question == "instruction" and more is not None and data.choices is None:
        text = f"{{{{ {asked} }}}}{{% if input %}}\n\n{{{{ input }}}}{{% endif %}}"
        shown.append("input")
        guess.benchmark["prompt"] = {"syntax": "jinja2", "user": text}
    else:
        text = f"{{{asked}}}"
        if before is not None and before.isidentifier() and before != question:
            text = f"{{{before}}}\n\n{text}"
            shown.insert(0, before)
        guess.benchmark["prompt"] = {"user": text + _end(data)}
    data.used.update(shown)
    words = ", with the choices" if data.choices else ""
    fields = "field" if len(shown) == 1 else "fields"
    guess.said["prompt"] = f"the question is in the {fields} {' and '.join(shown)}{words}"
    _guess_images(guess, data)


def _end(data: _Rows) -> str:
    """What follows the question: choices, and in which form the answer is wanted."""
    if data.choices is not None:
        form = "Answer with the letter of the right option only."
        if data.kind == "multiple_choice":
            form = 'End with "Answer: X", where X is the letter of the right option.'
        return f"\n\n{{options_text}}\n{form}"
    if data.kind in (None, "match") and data.gold and _are_truth_values(data.values(data.gold)):
        return "\n\nAnswer with yes or no."
    return ""


def _guess_talk(guess: Guess, data: _Rows) -> bool:
    """Conversations and turns."""
    talk = _named(_CONVERSATIONS, data.present, _is_conversation, data.rows)
    turns = _named(_TURNS, data.present, lambda values: all(map(_are_turns, values)), data.rows)
    if talk is not None and data.gold is None and data.kind in _BY_RIGHT_ANSWERS and _answered(data, talk):
        guess.benchmark["prompt"] = {"conversation": talk, "ends_with_answer": True}
        guess.said["prompt"] = f"the field {talk} holds conversations, and each ends with the right answer"
        _guess_images(guess, data)
    elif talk is not None and (turns != talk or not all(map(_ends_with_an_answer, data.values(talk)))):
        guess.benchmark["prompt"] = {"conversation": talk}
        guess.said["prompt"] = f"the field {talk} holds conversations"
        _guess_images(guess, data)
    elif turns is not None:
        guess.benchmark["prompt"] = {"turns": turns}
        guess.said["prompt"] = f"{turns} holds what is said one after the other, each once it is answered"
    else:
        return False
    data.talk = True
    data.used.add(talk or turns or "")
    return True


def _answered(data: _Rows, talk: str) -> bool:
    """Whether each conversation ends with an answer, which then is the right one."""
    try:
        answers = [without_answer(value, talk)[1] for value in data.values(talk)]
    except DataError:
        return False
    data.gold = "expected_answer"
    data.rows = [{**row, data.gold: answer} for row, answer in zip(data.rows, answers, strict=True)]
    return True


def _ends_with_an_answer(value: Any) -> bool:
    return isinstance(value[-1], dict) and speaker_of(value[-1]) == "assistant"


def _guess_images(guess: Guess, data: _Rows) -> None:
    found = [
        name
        for name in data.present
        if _IMAGE.fullmatch(name.lower())
        and any(data.values(name))
        and all(value in (None, "") or isinstance(value, str | dict | list) for value in data.values(name))
    ]
    if found:
        guess.benchmark["prompt"]["images"] = found
        guess.said["prompt.images"] = f"the images are in {' and '.join(found)}"
        data.used.update(found)
        texts = (value for name in data.present for value in data.values(name) if isinstance(value, str))
        if "user" in guess.benchmark["prompt"] and any(map(MARK.search, texts)):
            guess.benchmark["prompt"]["images_in_text"] = True
            guess.said["prompt.images"] += ", and are put where a text has <image …>"


def _guess_verifier(guess: Guess, data: _Rows) -> None:
    """The verifier, or for a kind that is given its options."""
    kind, said = data.kind, guess.said
    if kind == "multiple_choice":
        guess.benchmark["verifier"] = {"type": kind, "grading_mode": "lenient_answer_colon_md"}
        return
    if kind == "judge":
        guess.benchmark["verifier"] = judge_of(talk=data.talk, gold=data.gold is not None)
        return
    if kind not in (None, "match"):
        guess.benchmark["verifier"] = {"type": kind}
        return
    values = data.values(data.gold) if data.gold is not None and data.choices is None else []
    texts = [str(value).strip() for value in values]
    if data.labelled and kind is None:
        guess.benchmark["verifier"] = {"type": "multiple_choice", "grading_mode": "lenient_answer_colon_md"}
        said["verifier"] = "the rows have options, and the right answers are letters"
    elif data.choices is not None:
        most = max(len(_options(data, row)) for row in data.rows)
        guess.benchmark["verifier"] = _regex(_LETTER_PATTERN % re.escape(LETTERS[:most]))
        said["verifier"] = "the letter of the answer counts"
    elif texts and all(_HASHES.search(text) for text in texts):
        guess.benchmark["verifier"] = {"type": "match", "mode": "numeric", "answer_pattern": "#### *(.*)"}
        said["verifier"] = f"{data.gold} holds solutions that end in #### and a number"
    elif texts and all("\\boxed{" in text for text in texts):
        if kind is not None:
            raise ConfigError(
                f"{data.path}: {data.gold} holds solutions with the answer in \\boxed{{}}: --verifier math."
            )
        guess.benchmark["verifier"] = {"type": "math"}
        said["verifier"] = f"{data.gold} holds solutions with the answer in \\boxed{{}}"
    elif _are_truth_values(values):
        guess.benchmark["verifier"] = {**_regex(_YES_OR_NO), "ignore_case": True}
        said["verifier"] = "right answers are yes or no: the last such word of an answer counts"
    elif texts and all(_NUMBER.fullmatch(text) and not isinstance(value, bool)
                       for text, value in zip(texts, values, strict=True)):  # fmt: skip
        guess.benchmark["verifier"] = {"type": "match", "mode": "numeric"}
        said["verifier"] = "the right answers are numbers, so the last number of an answer counts"
    else:
        guess.benchmark["verifier"] = {"type": "match", "mode": "exact", "ignore_case": True}
        said["verifier"] = (
            "the right answers are text, so an answer must be exactly that text, in capitals or not"
        )


def _regex(pattern: str) -> dict[str, Any]:
    return {"type": "match", "mode": "regex", "pattern": pattern}


def _options(data: _Rows, row: Row) -> list[Any]:
    texts = data.choices.key["texts"] if data.choices else []
    return (texts_of(row[texts]) or []) if isinstance(texts, str) else texts


def _are_truth_values(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(value, bool) for value in values)


def _guess_groups(guess: Guess, data: _Rows) -> None:
    """Fields with few values, each in several rows: scores by them are worth having."""
    found, rows = [], data.rows
    for name in data.present:
        values = {row[name] if isinstance(row[name], str | int) else None for row in rows}
        few = 2 <= len(values) <= min(_MOST_CATEGORIES, len(rows) // 2)
        if name.lower() in _CATEGORIES and few and None not in values:
            found.append(name)
    if found:
        guess.benchmark["group_by"] = found
        data.used.update(found)
        names, has = " and ".join(found), "has" if len(found) == 1 else "have"
        guess.said["group_by"] = f"{names} {has} few values, so each value gets a score of its own"


def sentence(guess: Guess, path: Path) -> str:
    """All guesses in one sentence for people."""
    left = [f"not used: {_some(guess.unused)}"] if guess.unused else []
    listed = "; ".join([*guess.said.values(), *left])
    return f"guessed from {counted(guess.rows, 'row')} of {path.name}: {listed}"


def _names(path: Path) -> str:
    """What a table may lack."""
    return " (the first row of a table has its names)" if row_files.kind_of(path) == "table" else ""


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) or "none"
