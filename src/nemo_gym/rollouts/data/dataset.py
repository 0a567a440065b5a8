"""Dataset rows: read one at a time, checked before anything else happens, turned into planned rollouts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from nemo_gym.errors import ConfigError, DataError
from nemo_gym.rollouts.data import row_files
from nemo_gym.rollouts.data.conversations import turns_of, without_answer
from nemo_gym.rollouts.data.examples import Examples
from nemo_gym.rollouts.data.prepare import data_path, ensure_split
from nemo_gym.rollouts.data.requests import request_maker
from nemo_gym.rollouts.run_config.fields import row_mapper
from nemo_gym.types import Row, Verifier
from nemo_runs import json_lines

if TYPE_CHECKING:
    from nemo_gym.rollouts.run_config.schema import RunConfig

_OURS = ("agent_ref", "task_source")
EXPECTED = "expected_answer"
"""The field that verifiers take the right answer from, unless their options name another."""
KEPT_BYTES = 16 << 20
"""Memory for planned rollouts from the check of their rows to the writing; more are made a second time."""
_OBJECT_BYTES = 64
"""Of memory that a line takes besides its own bytes."""


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """What one pass over a dataset found."""

    path: Path
    num_tasks: int
    """Rows that the run uses: all, or ``limit``."""
    sha256: str
    """Of the lines of these rows, line ends and blank lines left out."""
    examples_sha256: str | None = None
    """Of the rows that the prompt's examples come from, where they come from a data set."""
    first_sha256: str | None = None
    """As ``sha256``, of as many first rows as were asked for; ``None`` where there are fewer."""


class Planned:
    """Planned rollouts of a small data set, kept from the check of its rows until they are written."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        self._most = most
        self._left = 0
        self._lines: list[bytes] | None = None

    @property
    def lines(self) -> list[bytes] | None:
        """All lines as `materialize` gives them; ``None`` where they were too many or none were made."""
        return self._lines

    def begin(self) -> None:
        """A check of all rows begins."""
        self._lines, self._left = [], self._most

    def add(self, lines: Iterable[bytes]) -> None:
        """Keep the lines of one row, or give all up where they take too much memory."""
        if self._lines is None:
            return
        for line in lines:
            self._left -= len(line) + _OBJECT_BYTES
            if self._left < 0:
                self.forget()
                return
            self._lines.append(line)

    def forget(self) -> None:
        """Give the memory back."""
        self._lines = None


def _row(path: Path, number: int, line: bytes, *, careful: bool = False) -> Row:
    """The row in a line: read by the faster parser where both of them find the same.

    The faster one keeps the last value of a key that is there twice, unless it is ``careful``.
    """
    if not json_lines.has_long_number(line):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            row = None
        if isinstance(row, dict) and (not careful or json_lines.has_each_key_once(line, row)):
            return row
    try:
        return json_lines.parse_row(line, number)
    except json_lines.NotJsonLinesError as error:
        raise DataError(f"{path}:{number}: {error}.") from None


def read_rows(path: Path, *, limit: int | None = None) -> Iterator[Row]:
    """The first ``limit`` rows of a dataset (all by default), one at a time.

    `DataError` names file and line of what is not a JSON object.
    """
    for number, line in islice(row_files.numbered_lines(path), limit):
        yield _row(path, number, line)


def check_rows(
    config: RunConfig,
    path: Path,
    verifier: Verifier | None,
    *,
    planned: Planned | None = None,
    first: int | None = None,
) -> DatasetFacts:
    """Read the rows that the run uses, make the prompt of each and ask the verifier whether it can grade it.

    `DataError` with file and line for the first row that cannot be used, and for a file without rows.
    Without a verifier rows are only counted and digested, not read: for data that was checked before.
    ``planned`` keeps the rollouts that the rows make. So many ``first`` rows get a digest of their own.
    """
    digest, of_first = hashlib.sha256(), None
    examples = load_examples(config)
    unseen = set(config.benchmark.group_by or ())
    check = None if verifier is None else _checker(config, examples, verifier, planned or Planned(0), unseen)
    count = 0
    for number, line in islice(row_files.numbered_lines(path), config.limit):
        digest.update(line + b"\n")
        if check is not None:
            problem = check(count, _row(path, number, line, careful=True))
            if problem:
                raise DataError(f"{path}:{number}: {problem.rstrip('.')}.")
        count += 1
        if count == first:
            of_first = digest.hexdigest()
    if not count:
        raise DataError(f"{path}: holds no rows.")
    if check is not None and unseen:
        raise ConfigError(f"benchmark.group_by: no row of {path} has the field {', '.join(sorted(unseen))}.")
    return DatasetFacts(path, count, digest.hexdigest(), _drawn_from(examples), of_first)


def load_examples(config: RunConfig) -> Examples | None:
    """What the prompt's examples are drawn from; ``None`` for a prompt without any.

    `DataError` and `nemo_gym.errors.ConfigError` where the split that they come from cannot be read, or is
    too small.
    """
    prompt = config.benchmark.prompt
    wanted = None if prompt is None else prompt.examples
    if wanted is None:
        return None
    if wanted.split is None:
        return Examples.of(wanted, wanted.rows or [], of_the_tasks=False)
    path = ensure_split(config, wanted.split)
    mapped = _mapper(config)
    most = (wanted.count or 0) + 1 if wanted.draw == "first" else None
    rows = [mapped(row) for row in read_rows(path, limit=most)]
    return Examples.of(wanted, rows, of_the_tasks=path == data_path(config))


def _drawn_from(examples: Examples | None) -> str | None:
    """The digest of examples from a data set; those of the configuration are part of the prompt."""
    return None if examples is None or examples.wanted.split is None else examples.sha256


def _checker(
    config: RunConfig, examples: Examples | None, verifier: Verifier, planned: Planned, unseen: set[str]
) -> Callable[[int, Row], str | None]:
    """Make the function that says why the row of a task cannot be used, and keeps the rollouts of others.

    Fields that it meets are taken out of ``unseen``.
    """
    mapped, plan = _mapper(config), _planner(config)
    fill_in = request_maker(config, data_path(config).parent, examples)
    planned.begin()

    def check(task_index: int, row: Row) -> str | None:
        try:
            row = mapped(row)
            params = fill_in(task_index, row)
        except DataError as error:
            return str(error)
        if unseen:
            unseen.difference_update(row)
        planned.add(
            plan(task_index, row, params)
        )  # before the verifier, which somebody else may have written
        return verifier.check_row(_of_data(row))

    return check


def _mapper(config: RunConfig) -> Callable[[Row], Row]:
    """Make the function that gives a row the fields that prompt and verifier use."""
    benchmark, prompt = config.benchmark, config.benchmark.prompt
    choices = None if benchmark.choices is None else benchmark.choices.model_dump()
    mapped = row_mapper(benchmark.fields, choices, benchmark.parse)
    if prompt is not None and prompt.turns is not None:
        name = prompt.turns
        return lambda row: _with_turns(mapped(row), name)
    if prompt is not None and prompt.ends_with_answer and prompt.conversation is not None:
        talk = prompt.conversation
        return lambda row: _with_answer(mapped(row), talk)
    return mapped


def _with_turns(row: Row, name: str) -> Row:
    return {**row, name: turns_of(row, name)}


def _with_answer(row: Row, name: str) -> Row:
    """The row with the last message of its conversation as the expected answer, unless it names another."""
    messages, answer = without_answer(row.get(name), name)
    expected = row.get(EXPECTED)
    return {**row, name: messages, EXPECTED: answer if expected is None else expected}


def _of_data(row: Row) -> Row:
    """What of a row a verifier will find there: what the run replaces is the run's."""
    if row.keys().isdisjoint(_OURS):
        return row
    return {key: value for key, value in row.items() if key not in _OURS}


def materialize(config: RunConfig, rows: Iterable[Row]) -> Iterator[bytes]:
    """Planned rollouts as JSON lines without line feeds, all repeats of a task in a row.

    The line number, from 0, is ``task index * repeats + rollout index``; both indices come first in each
    line. ``rows`` are those of `read_rows`, already cut to the run's limit.
    """
    mapped, plan = _mapper(config), _planner(config)
    fill_in = request_maker(config, data_path(config).parent, load_examples(config))
    for task_index, row_of_data in enumerate(rows):
        try:
            row = mapped(row_of_data)
            params = fill_in(task_index, row)
        except DataError as error:
            raise DataError(f"row {task_index}: {error}.") from None
        yield from plan(task_index, row, params)


def _planner(config: RunConfig) -> Callable[[int, Row, dict[str, Any]], Iterator[bytes]]:
    """Make the function that gives the lines of one task from its row and its request parameters."""
    agent = {"name": config.benchmark.agent["type"]}
    source, repeats, add_seed = config.benchmark.name, config.repeats, config.num_repeats_add_seed

    def plan(task_index: int, row: Row, params: dict[str, Any]) -> Iterator[bytes]:
        fields = {key: value for key, value in row.items() if key not in _OURS}
        fields |= {"responses_create_params": params, "agent_ref": agent, "task_source": source}
        head = b'{"_ng_task_index":%d,"_ng_rollout_index":' % task_index
        seed = params.get("seed") or 0
        body = orjson.dumps(fields)
        for rollout_index in range(repeats):
            if add_seed:
                params["seed"] = seed + rollout_index
                body = orjson.dumps(fields)
            yield b"%b%d,%b" % (head, rollout_index, body[1:])

    return plan
