"""The command line of the supervisor as a program."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SuperviseOptions:
    """What `parse` read; times in seconds."""

    command: list[str]
    cwd: Path
    output: Path
    exit_file: Path
    identity_file: Path
    drain_file: Path
    time_limit: float | None
    drain_lead: float
    grace: float
    marker: tuple[str, str]


def parse(arguments: Sequence[str]) -> SuperviseOptions:
    """Read the options; a mistake ends the program with a usage message and status 2."""
    parser = argparse.ArgumentParser(prog="supervise", description="Run one command under supervision.")
    for name in ("cwd", "output", "exit-file", "identity-file", "drain-file"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--marker", type=_marker, required=True, metavar="VARIABLE=VALUE")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS")
    parser.add_argument("--drain-lead", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--grace", type=float, default=30.0, metavar="SECONDS")
    parser.add_argument("command", nargs="+")
    return SuperviseOptions(**vars(parser.parse_args(arguments)))


def _marker(text: str) -> tuple[str, str]:
    variable, equals, value = text.partition("=")
    if not (variable and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not VARIABLE=VALUE")
    return variable, value
