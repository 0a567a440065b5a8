"""`gym completion`: the script by which a shell completes `gym`."""

from __future__ import annotations

import click

from nemo_cli.completion import completion_command


def _program() -> click.Command:
    from nemo_gym.cli.program import gym

    return gym


completion = completion_command("gym", _program)
