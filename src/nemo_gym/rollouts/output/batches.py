"""Many recorded rows at once: a hundred lines are checked by a few calls instead of a few calls a line.

A batch passes when each of its lines is a row as `nemo_gym.rollouts.output.rows.encode_row` writes it, with
its line feed. A batch with any other line does not, and its lines are then to be read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import orjson

from nemo_gym.rollouts.output.rows import REWARD, SUFFIX, SUMMED, reward_of
from nemo_runs.durable import disk

_BATCH: Final = 1 << 17
"""Bytes of lines in a batch, at least; few enough to stay in a core's cache while they are checked."""
_START: Final = rb'\{"_ng_task_index":'
_BETWEEN: Final = rb'"_ng_rollout_index":'
_ONE: Final = re.compile(rb"%s\d{1,15},%s\d{1,15}," % (_START, _BETWEEN)).match
_ALL: Final = re.compile(rb"\n%s(\d{1,15},%s\d{1,15})[,}]" % (_START, _BETWEEN)).findall
_HEAD: Final = itemgetter(slice(0, 56))
"""What holds an identity of up to 17 digits."""
_ZEROS: Final = bytes(ord("0") if chr(byte) in "0123456789" else byte for byte in range(256))
_NAMES: Final = b'{"_ngtaskidexrolu:'
"""Every character of an identity but digits and commas."""
_BODY: Final = itemgetter(slice(None, -SUFFIX - 1))
_END: Final = itemgetter(slice(-SUFFIX - 1, None))
_NUMBERS: Final = frozenset((int, float))


def read_batches(path: Path, *, tail: bool = False) -> Iterator[list[bytes]]:
    """Yield a file's lines in batches, each line with its line feed.

    What follows the last line feed is left out unless ``tail`` asks for it. Memory stays near one batch plus
    the longest line. Raises `FileNotFoundError` at the first step.
    """
    with open(path, "rb", buffering=_BATCH, opener=disk.regular) as file:
        while lines := file.readlines(_BATCH):
            torn = not lines[-1].endswith(b"\n")  # its writer may be at work: what comes later is left alone
            if torn and not tail:
                lines.pop()
            if lines:
                yield lines
            if torn:
                return


def identities(lines: list[bytes]) -> tuple[list[int], list[int]] | None:
    """The task and the rollout index of each of some lines, ``None`` unless all are whole rows of ours."""
    numbers = _numbers(lines)
    if numbers is None:
        return None
    sums = tuple(map(crc32, map(_BODY, lines)))
    if b"".join(map(_END, lines)) != (SUMMED + b"\n") * len(lines) % sums:
        return None
    return numbers[::2], numbers[1::2]


def rewards(lines: list[bytes]) -> float:
    """The sum of the grades in rows that were found whole, as `reward_of` reads each."""
    common = [line[(at := line.rfind(REWARD) + len(REWARD)) : at + 4] for line in lines]
    right = common.count(b"1.0,")
    if right + common.count(b"0.0,") == len(lines):
        return float(right)
    grades = _list(line[(at := line.rfind(REWARD) + len(REWARD)) : line.find(b",", at)] for line in lines)
    if grades and len(grades) == len(lines) and _NUMBERS.issuperset(map(type, grades)):
        return float(sum(grades))
    return sum(map(reward_of, lines))


def _numbers(lines: list[bytes]) -> list[int] | None:
    """Task index, rollout index, task index, … as they are at the start of each line."""
    first = _ONE(lines[0])
    if first is not None:  # mostly all of them have as many digits, and so the same shape
        heads = b"".join(map(itemgetter(slice(0, first.end())), lines))
        if heads.translate(_ZEROS) == first[0].translate(_ZEROS) * len(lines):
            return _list([heads.translate(None, _NAMES)[:-1]])
    found = _ALL(b"\n" + b"\n".join(map(_HEAD, lines)))
    return _list([b",".join(found).replace(_BETWEEN, b"")]) if len(found) == len(lines) else None


def _list(values: Iterable[bytes]) -> list[Any] | None:
    """JSON values parsed in one call; ``None`` where one is not JSON, as a number with a leading zero."""
    try:
        parsed: list[Any] = orjson.loads(b"[%s]" % b",".join(values))
    except ValueError:
        return None
    return parsed
