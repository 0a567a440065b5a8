"""`gym serve`: one small model on this machine, OpenAI-compatible."""

from __future__ import annotations

import os
from collections.abc import Callable

import click

from nemo_gym.cli import completing
from nemo_gym.serving import access, models
from nemo_runs.counts import counted


@click.command()
@click.option(
    "--model",
    required=True,
    metavar="NAME|PATH",
    shell_complete=completing.models_to_serve,
    help="`smollm2`, or the path of a .gguf file.",
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0 is any free one.",
)
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on."
)
@click.option("--model-name", metavar="NAME", help="What clients call the model, in place of its own name.")
@click.option(
    "--context",
    metavar="N",
    type=click.IntRange(64),
    default=2048,
    show_default=True,
    help="Tokens one request may use, its answer included.",
)
@click.option(
    "--parallel",
    metavar="N",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Requests computed at one time.",
)
@click.option(
    "--threads",
    metavar="N",
    type=click.IntRange(1, 512),
    help="CPU threads, in place of one fewer than there are cores.",
)
@click.option(
    "--likelihoods",
    is_flag=True,
    help="Also give the log-probability of each token of a prompt, for lm-eval's multiple choice.",
)
@click.pass_context
def serve(
    ctx: click.Context,
    model: str,
    port: int,
    host: str,
    model_name: str | None,
    context: int,
    parallel: int,
    threads: int | None,
    likelihoods: bool,
) -> None:
    """Serve a small model on this machine, OpenAI-compatible, until SIGTERM or Ctrl-C.

    The address is printed on stdout once the model answers. Clients must send the API key in the environment
    variable NEMO_GYM_SERVICE_API_KEY, if it is set; a host that others can reach needs one.
    """
    from nemo_gym.serving import server

    api_key = access.service_key(host, os.environ)
    found = models.find_model(model)
    if port:
        access.check_port_free(host, port)
    options = server.ServeOptions(
        model=found.path,
        model_name=model_name or found.name,
        host=host,
        port=port,
        api_key=api_key,
        context=context,
        parallel=parallel,
        threads=threads,
        verbose=bool((ctx.obj or {}).get("verbose")),
        likelihoods=likelihoods,
    )
    click.echo(f"gym serve: loading {options.model_name} ({found.path.name}) …", err=True)
    server.serve(options, announce=_announcer(options.model_name, parallel, context))


def _announcer(name: str, parallel: int, context: int) -> Callable[[str], None]:
    def announce(address: str) -> None:
        click.echo(f"{address}/v1")  # click flushes: the process ends without another chance to
        limits = f"{counted(parallel, 'request')} at a time, {counted(context, 'token')} each"
        click.echo(f"gym serve: {name} answers at {address}/v1, {limits}", err=True)

    return announce
