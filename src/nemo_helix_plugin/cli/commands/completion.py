"""`nemo completion`: the script by which a shell completes `nemo`."""

from __future__ import annotations

import click

from nemo_cli.completion import completion_command


def _program() -> click.Command:
    from nemo_helix_plugin.cli.program import nemo

    return nemo


completion = completion_command("nemo", _program)
