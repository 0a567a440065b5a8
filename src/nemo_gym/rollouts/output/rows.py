"""One row of the results, of the failures or of a foreign collector: how it is written and how it is checked.

A row begins with its identity and ends with a checksum over every byte before it::

    {"_ng_task_index":12,"_ng_rollout_index":3, … ,"_ng_crc32":"0a1b2c3d"}

So a reader knows whose row it is, and that no byte of it is missing or wrong, without parsing JSON. Rows
without the checksum (written by another collector) are parsed instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard
from zlib import crc32

import orjson

from nemo_gym.errors import DataError
from nemo_gym.types import Row

TASK_INDEX: Final = "_ng_task_index"
ROLLOUT_INDEX: Final = "_ng_rollout_index"
CHECKSUM: Final = "_ng_crc32"

_BEFORE_SUM: Final = b',"_ng_crc32":"'
SUMMED: Final = _BEFORE_SUM + b'%08x"}'
"""How a row ends, to be filled with the checksum of what precedes it."""
SUFFIX: Final = len(_BEFORE_SUM) + 8 + len(b'"}')
"""Bytes of that end."""
_SUM_AT: Final = SUFFIX - len(_BEFORE_SUM)
IDENTITY: Final = re.compile(rb'\{"_ng_task_index":(\d{1,15}),"_ng_rollout_index":(\d{1,15})[,}]').match
"""How a row begins: task index, rollout index."""
REWARD: Final = b',"reward":'
"""What precedes the grade; its last occurrence in a row of ours is the grade's own."""
_BLOCK: Final = 1 << 16
"""Bytes that stay in a core's cache while their rows are checked."""
_LARGEST: Final = 2**64 - 1
_SMALLEST: Final = -(2**63)


def encode_row(task_index: int, rollout_index: int, fields: Mapping[str, Any]) -> bytes:
    """Write one row, identity first and checksum last, without a newline at its end.

    What JSON cannot say is written as the nearest thing that it can: infinite numbers as ``null``, half a
    surrogate pair as ``?``, integers beyond 64 bits and unknown objects as text. So no answer of a model can
    keep its own row from being written; `TypeError` is raised only for what is nested without end.
    """
    row: Row = {TASK_INDEX: task_index, ROLLOUT_INDEX: rollout_index}
    row.update(fields)
    row[TASK_INDEX] = task_index
    row[ROLLOUT_INDEX] = rollout_index
    row.pop(CHECKSUM, None)
    try:
        body = orjson.dumps(row)[:-1]
    except TypeError:
        body = _encode_unusual(row)[:-1]
    return body + SUMMED % crc32(body)


def check_line(line: bytes) -> tuple[int, int] | None:
    """Say whose row a line is, as (task index, rollout index), or ``None`` if the line is damaged."""
    match = IDENTITY(line)
    if match is not None:
        if line.endswith(SUMMED % crc32(line[:-SUFFIX])):
            task_index, rollout_index = match.groups()
            return int(task_index), int(rollout_index)
        if line[-SUFFIX:-_SUM_AT] == _BEFORE_SUM:
            return None
    return _check_foreign(line)


def reward_of(line: bytes) -> float:
    """The grade in a row that was found whole, 0 where it has none, without parsing all of it.

    Our own rows hold it behind everything that a data set or a model can put in; others are parsed.
    """
    at = line.rfind(REWARD)
    if at >= 0:
        try:
            return float(line[at + len(REWARD) : line.find(b",", at + 1)])
        except ValueError:  # null, or a row that nobody of us wrote
            pass
    reward = orjson.loads(line).get("reward")
    return float(reward) if isinstance(reward, int | float) and not isinstance(reward, bool) else 0.0


def decode_row(line: bytes) -> Row:
    """Read one row; the checksum is left out.

    Raises `DataError` for a line that is not a JSON object; the caller adds file and line.
    """
    try:
        row = orjson.loads(line)
    except ValueError as error:
        raise DataError(f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise DataError(f"not a JSON object but {type(row).__name__}")
    row.pop(CHECKSUM, None)
    return row


def read_blocks(path: Path, *, tail: bool = False) -> Iterator[bytes]:
    """Yield a file in blocks of whole lines, each block without its last newline; what follows the last
    newline is left out unless ``tail`` asks for it.

    For who counts lines or skips most of them; memory stays near one block plus the longest line.
    """
    with path.open("rb", buffering=0) as file:
        unfinished: list[bytes] = []
        while block := file.read(_BLOCK):
            end = block.rfind(b"\n")
            if end < 0:
                unfinished.append(block)
                continue
            yield b"".join((*unfinished, block[:end])) if unfinished else block[:end]
            unfinished = [block[end + 1 :]] if end + 1 < len(block) else []
        if tail and unfinished:
            yield b"".join(unfinished)


def _check_foreign(line: bytes) -> tuple[int, int] | None:
    """The slow path: a row without a checksum counts as whole when it parses and names its identity."""
    try:
        row = orjson.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or CHECKSUM in row:
        return None
    task_index, rollout_index = row.get(TASK_INDEX), row.get(ROLLOUT_INDEX)
    if _is_index(task_index) and _is_index(rollout_index):
        return task_index, rollout_index
    return None


def _is_index(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _encode_unusual(row: Row) -> bytes:
    try:
        return orjson.dumps(_encodable(row))
    except (RecursionError, TypeError) as error:
        message = f"nested too deeply for JSON ({error})"
        raise TypeError(message) from error


def _encodable(value: Any) -> Any:
    match value:
        case None | bool():
            said: Any = value
        case int():
            said = int(value) if _SMALLEST <= value <= _LARGEST else str(value)
        case float():
            said = float(value) if math.isfinite(value) else None
        case Mapping():
            said = {_encodable(str(key)): _encodable(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            said = [_encodable(item) for item in value]
        case _:
            said = str(value).encode("utf-8", "replace").decode()
    return said
