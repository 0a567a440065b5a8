"""The first step of a program: what it is made of is imported where Ctrl-C is answered with a word."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from nemo_cli.program import Program

_INTERRUPTED = 130
"""As `nemo_cli.program.EXIT_INTERRUPTED`, which is imported too late for this."""


def run(name: str, module: str) -> NoReturn:
    """Import the program that ``module`` holds as ``PROGRAM``, and run it with this process's arguments."""
    try:
        program(module).run()
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write(f"{name}: interrupted.\n")
        sys.exit(_INTERRUPTED)


def program(module: str) -> Program:
    """The program that ``module`` holds."""
    found: Program = importlib.import_module(module).PROGRAM
    return found
