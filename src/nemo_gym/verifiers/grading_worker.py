"""The program of one grading process: requests as JSON lines on standard input, answers on standard output.

What graded code prints goes to standard error. A request that takes too long ends the process even where the
collector is gone and nobody else would.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import orjson

_SPARE = 5.0
"""Seconds after which it ends by itself; the collector ends it before, and knows why."""


def main() -> int:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    setup = orjson.loads(requests.readline())
    graded: Callable[..., Any] | None = None
    nowhere = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    for line in requests:
        faulthandler.dump_traceback_later(
            setup["time_limit"] + (120 if graded is None else _SPARE), exit=True, file=nowhere
        )
        try:
            if graded is None:
                module, _, name = setup["target"].partition(":")
                graded = getattr(importlib.import_module(module), name)(**setup["arguments"])
            answer = {"result": graded(**orjson.loads(line))}
            body = orjson.dumps(answer, default=_number)
        except BaseException as error:  # noqa: BLE001 - code of others, which may even end the program
            body = orjson.dumps({"error": said(error)})
        faulthandler.cancel_dump_traceback_later()
        answers.write(body + b"\n")
    return 0


def said(error: BaseException) -> str:
    """An error of code of others, with the place where it arose."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    place = ""
    if frame is not None:
        code = frame.tb_frame.f_code
        place = f" ({code.co_filename}:{frame.tb_lineno}, in {code.co_name})"
    words = str(error).encode("utf-8", "replace").decode()
    if isinstance(error, SyntaxError) and error.filename is not None:  # its frame is that of who compiled
        place, words = f" ({error.filename}:{error.lineno})", error.msg
    return f"{type(error).__name__}: {words}{place}"[:2000]


def _number(value: object) -> float:
    """Numbers of other libraries."""
    if hasattr(value, "__float__"):
        return float(value)
    raise TypeError(f"{type(value).__name__} is neither a number nor JSON")


if __name__ == "__main__":
    sys.exit(main())
