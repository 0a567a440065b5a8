"""`nemo jobs checkpoints list|get|pin|unpin`: what training saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from nemo_helix_plugin.cli import inputs
from nemo_helix_plugin.cli.command_context import CommandContext, Paging, record_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.cli.shared_options import checkpoint_card, columns_option, job_option, name_argument

checkpoints = NemoGroup("checkpoints", help="What training saved, and keeping one for good.")


@checkpoints.command("list", short_help="Every checkpoint of a job, newest first.")
@name_argument
@columns_option
@workspace_option
@command_options
def list_checkpoints(flags: GlobalFlags, name: str, columns: str | None) -> None:
    """List the checkpoints of a job: its step, size, whether it verified, and why it was saved."""
    call = CommandContext(flags)
    asked = {"job": name, "workspace": call.workspace}
    call.show_list(
        Operation("jobs.list_job_checkpoints", asked, "list"),
        ["id", "step", "size_bytes", "verified", "created_at"],
        Paging(all_pages=True, columns=columns),
        extra=("note", _note),
        empty=f"job '{name}' has saved no checkpoint yet.",
    )


def _note(checkpoint: Mapping[str, Any]) -> str:
    """Whether it is pinned or the best one, why it was saved, or what is wrong with it."""
    metrics = checkpoint.get("metrics") or {}
    parts = [
        "pinned" if checkpoint.get("pinned") else "",
        "best" if checkpoint.get("best") else "",
        str(checkpoint.get("problem") or checkpoint.get("reason") or ""),
        *(f"{name} {value:.4g}" for name, value in sorted(metrics.items())[:2]),
    ]
    return ", ".join(part for part in parts if part)


def _asked(call: CommandContext, checkpoint: str, job: str) -> dict[str, str]:
    return {"job": job, "id": checkpoint, "workspace": call.workspace}


@checkpoints.command("get", short_help="One checkpoint.")
@click.argument("checkpoint")
@job_option
@workspace_option
@command_options
def get(flags: GlobalFlags, checkpoint: str, job: str) -> None:
    """Print one checkpoint of a job."""
    call = CommandContext(flags)
    call.show_entity(
        Operation("jobs.get_job_checkpoint", _asked(call, checkpoint, job)), checkpoint_card(call)
    )


@checkpoints.command("pin", short_help="Keep a checkpoint when the job's storage goes.")
@click.argument("checkpoint")
@job_option
@workspace_option
@command_options
def pin(flags: GlobalFlags, checkpoint: str, job: str) -> None:
    """Copy a checkpoint out of the job's storage, so that it outlives the window that deletes it."""
    call = CommandContext(flags)
    operation = Operation("jobs.pin_job_checkpoint", _asked(call, checkpoint, job))
    if call.prints_code(operation):
        return
    pinned = record_of(call.ask(operation))
    call.print_entity(pinned, checkpoint_card(call))
    if not pinned["pinned"]:
        call.report(
            f"it is being copied; `nemo jobs checkpoints get {checkpoint} --job {job}` says when it is."
        )


@checkpoints.command("unpin", short_help="Release a pinned checkpoint.")
@click.argument("checkpoint")
@job_option
@inputs.yes_option
@workspace_option
@command_options
def unpin(flags: GlobalFlags, checkpoint: str, job: str, yes: bool) -> None:
    """Delete the copy that pinning made; the one in the job's storage stays as long as that does."""
    call = CommandContext(flags)
    operation = Operation("jobs.unpin_job_checkpoint", _asked(call, checkpoint, job), "nothing")
    if call.prints_code(operation):
        return
    inputs.confirm(f"Delete the pinned copy of checkpoint '{checkpoint}'?", yes=yes)
    call.ask(operation)
    call.print_done(f"checkpoint '{checkpoint}' is no longer pinned.", {"id": checkpoint, "pinned": False})
