"""Where the program `gym` begins: almost nothing is imported before `main` can answer Ctrl-C."""

from __future__ import annotations

from typing import NoReturn

from nemo_cli import start


def main() -> NoReturn:
    """Run `gym` and leave with its documented exit status; no traceback reaches the user."""
    start.run("gym", "nemo_gym.cli.program")


def _status(args: list[str]) -> int:
    return start.program("nemo_gym.cli.program").status(args)
