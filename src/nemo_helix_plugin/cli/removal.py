"""Removing a thing by its name: the same question, the same sentence and the same document for every kind."""

from __future__ import annotations

from nemo_helix_plugin.cli import inputs
from nemo_helix_plugin.cli.command_context import CommandContext
from nemo_helix_plugin.cli.global_options import GlobalFlags
from nemo_helix_plugin.cli.output.code import Operation


def remove(
    flags: GlobalFlags,
    method: str,
    kind: str,
    name: str,
    *,
    yes: bool,
    besides: str = "",
    done: str = "is deleted",
) -> None:
    """Ask on a terminal unless ``yes``, call the client's ``method``, and say so; ``besides`` goes too."""
    call = CommandContext(flags)
    operation = Operation(method, {"name": name, "workspace": call.workspace}, "nothing")
    if call.prints_code(operation):
        return
    inputs.confirm(f"Delete {kind} '{name}' of workspace '{call.workspace}'{besides}?", yes=yes)
    call.ask(operation)
    call.print_done(f"{kind} '{name}' {done}.", {"name": name, "deleted": True})
