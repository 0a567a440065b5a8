"""Where the program `nemo` begins: almost nothing is imported before `main` can answer Ctrl-C."""

from __future__ import annotations

from typing import NoReturn

from nemo_cli import start


def main() -> NoReturn:
    """Run `nemo` and leave with its documented exit status; no traceback reaches the user."""
    start.run("nemo", "nemo_helix_plugin.cli.program")


def _status(args: list[str]) -> int:
    return start.program("nemo_helix_plugin.cli.program").status(args)
