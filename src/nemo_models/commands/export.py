"""`nemo models export`: a model as an adapter, merged weights or a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from nemo_cli.completion import files
from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.output.code import Operation
from nemo_models.commands.options import base_option, found, model_argument
from nemo_models.local_models import LocalModel


@click.command(short_help="Write a model as an adapter, merged weights or a GGUF file.")
@model_argument
@click.option(
    "--to",
    "target",
    type=click.Choice(["adapter", "merged", "gguf"]),
    required=True,
    help="The adapter alone, whole weights for transformers and vLLM, or one file for llama.cpp.",
)
@click.option(
    "-o",
    "--output-path",
    "output",
    type=click.Path(path_type=Path),
    metavar="PATH",
    shell_complete=files,
    help="The folder, or the .gguf file, to write; otherwise NAME-adapter, NAME-merged or NAME.gguf here.",
)
@click.option(
    "--quantize",
    metavar="TYPE",
    help="Numbers of a GGUF file: f32, f16 (default), bf16, q8_0, q5_1, q5_0, q4_1, q4_0.",
)
@base_option
@workspace_option
@command_options
def export(
    flags: GlobalFlags, name: str, target: Any, output: Path | None, quantize: str | None, base: str | None
) -> None:
    """Write the model NAME, or a model in a folder (/…, ./…), whole or not at all.

    What can be known before is said before: whether GGUF covers its architecture (llama, qwen2, qwen3), and
    whether the disk has room. A merged model is loaded again, and its logits are compared with those of base
    model and adapter.
    """
    from nemo_models import exporting

    call = CommandContext(flags)
    if quantize is not None and target != "gguf":
        raise click.UsageError("--quantize goes with --to gguf: other formats keep the numbers of the model.")
    numbers = (quantize or "f16").lower()
    exporting.check_numbers(numbers)
    model = found(call, name, base)
    if target == "gguf":
        call.report(exporting.covered(model))
    ending = ".gguf" if target == "gguf" else f"-{target}"
    place = output or Path(f"{model.name}{ending}")
    request = exporting.ModelExport(model, target, place, numbers, facts_of(call, model))
    exporting.check(request)
    done = exporting.write(request, call.report)
    call.print_done(exporting.sentence(done), done)


def facts_of(call: CommandContext, model: LocalModel) -> Mapping[str, Any]:
    """What may be published about the training of a model; little where its job is gone."""
    from nemo_helix_plugin.client.errors import NotFoundError
    from nemo_models import training_facts

    job, workspace = model.record.get("created_by_job"), model.record.get("workspace")
    if not job:
        return {}
    try:
        return training_facts.of_job(
            record_of(call.ask(Operation("jobs.get_job", {"name": job, "workspace": workspace})))
        )
    except NotFoundError:
        return {"job": job}
