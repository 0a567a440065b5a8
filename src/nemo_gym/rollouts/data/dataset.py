"""Dataset rows: read one at a time, checked before anything else happens, turned into planned rollouts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from nemo_gym.errors import DataError
from nemo_gym.rollouts.policy.apis import request_body
from nemo_gym.rollouts.run_config.prompts import check_template, doubled_fields, fill
from nemo_gym.rollouts.run_config.row_params import of_the_run
from nemo_gym.types import Row, Verifier
from nemo_runs import json_lines

if TYPE_CHECKING:
    from nemo_gym.rollouts.run_config.schema import PromptConfig, RunConfig

_CONVERSATIONS = ("messages", "conversations", "prompt", "input")
"""Where data of other tools have the conversation."""
_OURS = ("agent_ref", "task_source")
_PLANNED_ALREADY = (
    "has a key that begins with _ng_, so it is not a dataset row but a planned or finished rollout"
)
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


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Line numbers (from 1) and lines, as `json_lines.numbered_lines` cuts them."""
    try:
        yield from json_lines.numbered_lines(path)
    except json_lines.NotJsonLinesError as error:
        raise DataError(f"{path}:{error.line}: {error}.") from None
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file.") from None
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder; give the JSONL file in it.") from None


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
    for number, line in islice(_lines(path), limit):
        yield _row(path, number, line)


def check_rows(
    config: RunConfig, path: Path, verifier: Verifier | None, *, planned: Planned | None = None
) -> DatasetFacts:
    """Read the rows that the run uses, make the prompt of each and ask the verifier whether it can grade it.

    `DataError` with file and line for the first row that cannot be used, and for a file without rows.
    Without a verifier rows are only counted and digested, not read: for data that was checked before.
    ``planned`` keeps the rollouts that the rows make.
    """
    digest = hashlib.sha256()
    check = None if verifier is None else _checker(config, verifier, planned or Planned(0))
    count = 0
    for number, line in islice(_lines(path), config.limit):
        digest.update(line + b"\n")
        if check is not None:
            problem = check(count, _row(path, number, line, careful=True))
            if problem:
                raise DataError(f"{path}:{number}: {problem.rstrip('.')}.")
        count += 1
    if not count:
        raise DataError(f"{path}: holds no rows.")
    return DatasetFacts(path, count, digest.hexdigest())


def _checker(config: RunConfig, verifier: Verifier, planned: Planned) -> Callable[[int, Row], str | None]:
    """Make the function that says why the row of a task cannot be used, and keeps the rollouts of others."""
    fill_in, plan = _filler(config), _planner(config)
    planned.begin()

    def check(task_index: int, row: Row) -> str | None:
        try:
            params = fill_in(row)
        except DataError as error:
            return str(error)
        planned.add(
            plan(task_index, row, params)
        )  # before the verifier, which somebody else may have written
        return verifier.check_row(_of_data(row))

    return check


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
    fill_in, plan = _filler(config), _planner(config)
    for task_index, row in enumerate(rows):
        try:
            params = fill_in(row)
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


def _filler(config: RunConfig) -> Callable[[Row], dict[str, Any]]:
    """Make the function that gives a row's request parameters: input and sampling."""
    messages = _message_maker(config.benchmark.prompt)
    sampling = config.responses_create_params.given()

    def fill_in(row: Row) -> dict[str, Any]:
        for key in row:
            if key[:4] == "_ng_":
                raise DataError(_PLANNED_ALREADY)
        own = row.get("responses_create_params")
        own = {} if own is None else own
        if not isinstance(own, dict):
            raise DataError("responses_create_params must be an object")
        if own and (problem := of_the_run(own, config.policy_model_name)):
            raise DataError(f"its responses_create_params cannot be used: {problem}")
        params = {**own, "input": messages(row, own), **sampling}
        if own and (problem := _unusable(config, params)):
            raise DataError(f"its responses_create_params make no request: {problem}")
        return params

    return fill_in


def _unusable(config: RunConfig, params: Mapping[str, Any]) -> str | None:
    """Why no request can be made of parameters that a row brings along."""
    seed = params.get("seed")
    if config.num_repeats_add_seed and (isinstance(seed, bool) or not isinstance(seed, int | None)):
        return f"seed is {seed!r}, to which no repeat's number can be added"
    try:
        orjson.dumps(request_body(config.policy_api, "", params))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return str(error).rstrip(".")
    return None


def _message_maker(prompt: PromptConfig | None) -> Callable[[Row, Mapping[str, Any]], Any]:
    if prompt is None:
        return _own_input
    templates = [("system", prompt.system)] if prompt.system is not None else []
    segments = [(role, check_template(text)) for role, text in [*templates, ("user", prompt.user)]]

    doubled = sorted({name for _, parts in segments for name in doubled_fields(parts)})

    def from_prompt(row: Row, own: Mapping[str, Any]) -> Any:
        if "input" in own:
            raise DataError(
                "has its own responses_create_params.input, but the benchmark has a prompt; drop one"
            )
        for name in doubled:
            if name in row:
                raise DataError(
                    f"the prompt has {name} in double braces, which stand for braces in the text; "
                    f"write {{{name}}} for the field of the row"
                )
        try:
            return [{"role": role, "content": fill(parts, row)} for role, parts in segments]
        except KeyError as error:
            raise DataError(_missing_field(error.args[0], row)) from None

    return from_prompt


def _missing_field(name: str, row: Row) -> str:
    if name in row:
        return f"the prompt needs the field {name}, which is null in this row"
    return (
        f"the prompt needs the field {name}, which this row lacks; it has {', '.join([*row][:8]) or 'none'}"
    )


def _own_input(row: Row, own: Mapping[str, Any]) -> Any:
    messages = own.get("input")
    is_list = isinstance(messages, list) and all(isinstance(message, dict) for message in messages)
    if not messages or not (isinstance(messages, str) or is_list):
        found = next((key for key in _CONVERSATIONS if key in row), None)
        hint = f"; move what is under {found} there" if found else ""
        raise DataError(
            f"lacks responses_create_params.input (text or messages), and the benchmark has no prompt{hint}"
        )
    return messages
