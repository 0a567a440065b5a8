"""`nemo models serve`: a trained model over an OpenAI-compatible API, until it is stopped."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import AbstractContextManager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from nemo_helix_plugin.cli.command_context import CommandContext
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.output import documents
from nemo_models.commands.options import (
    base_option,
    device_option,
    found,
    model_argument,
    names_of,
    new_key,
    threads_option,
)
from nemo_models.errors import ModelsError

if TYPE_CHECKING:
    from nemo_models.serving import ServedModel, ServeRequest


@click.command(short_help="Serve a model over an OpenAI-compatible API.")
@model_argument
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on."
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Port to listen on; 0 is any free one.",
)
@click.option("--model-name", metavar="NAME", help="What clients call the model, in place of its own name.")
@click.option("--with-base", is_flag=True, help="Answer as its base model, too, by that one's name.")
@click.option("--no-key", is_flag=True, help="Serve everybody on this machine, without a key.")
@click.option(
    "--with",
    "runtime",
    type=click.Choice(["auto", "transformers", "vllm"]),
    default="auto",
    show_default=True,
    help="What computes the answers; auto is vLLM where it is installed and a GPU is there.",
)
@click.option("--until-stdin-ends", is_flag=True, hidden=True, help="End with the program that started it.")
@base_option
@device_option
@threads_option
@workspace_option
@command_options
def serve(
    flags: GlobalFlags,
    name: str,
    *,
    host: str,
    port: int,
    model_name: str | None,
    with_base: bool,
    no_key: bool,
    until_stdin_ends: bool,
    runtime: str,
    base: str | None,
    device: str | None,
    threads: int | None,
) -> None:
    """Serve the model NAME, or a model in a folder (/…, ./…), on this machine until SIGTERM or Ctrl-C.

    Its address is printed on stdout once it answers, and on stderr the key that clients must send. A key in
    the environment variable NEMO_GYM_SERVICE_API_KEY is taken; otherwise one is made. The files of the
    model are fetched from the service before.
    """
    from nemo_models import serving
    from nemo_runs.addresses import is_loopback

    call = CommandContext(flags)
    given = os.environ.get(serving.KEY_VARIABLE)
    if no_key and not is_loopback(host):
        raise click.UsageError(
            f"--no-key: other machines can reach {host}; leave it out, or serve on 127.0.0.1."
        )
    program = _vllm(runtime, device)
    model = found(call, name, base, with_base=with_base)
    own, base_name = names_of(model, with_base=with_base)
    key = None if no_key else new_key(variable=serving.KEY_VARIABLE)
    request = serving.ServeRequest(model, model_name or own, base_name, host, port, key, device, threads)
    _end_by_signals()
    if until_stdin_ends:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    call.report(f"loads {model.shown} …")
    with _server(request, program) as server:
        _announce(call, server, key if not given else None)
        status = server.process.wait()
    raise ModelsError(f"the server of the model ended with {status}")


def _server(request: ServeRequest, program: str | None) -> AbstractContextManager[ServedModel]:
    from nemo_models import serving

    if program is None:
        return serving.served(request, quiet=False)
    return serving.served_by_vllm(request, program)


def _vllm(runtime: str, device: str | None) -> str | None:
    """The program of vLLM where it is to compute the answers."""
    from nemo_helix_server.engines import machine
    from nemo_models import serving

    program = serving.vllm_program() if runtime != "transformers" else None
    if runtime == "vllm" and program is None:
        raise ModelsError(
            "--with vllm: there is no program `vllm` on PATH; install vLLM, or leave --with out"
        )
    on_gpu = (device or machine.found_device()) == "cuda"
    return program if runtime == "vllm" or on_gpu else None


def _announce(call: CommandContext, server: ServedModel, new: str | None) -> None:
    """Say where it answers; a key that was made here goes to the person alone, a given one to nobody."""
    if call.flags.output_format in {"json", "yaml", "raw"}:
        click.echo(documents.json_line({"url": server.url, "models": list(server.names), "api_key": new}))
    else:
        click.echo(server.url)
    sys.stdout.flush()
    keyed = f"; clients send the key {new}" if new else ""
    call.report(f"{' and '.join(server.names)} answers at {server.url}{keyed}.")


def _end_by_signals() -> None:
    signal.signal(signal.SIGTERM, _ended)
    signal.signal(signal.SIGINT, _ended)


def _end_with_stdin() -> None:
    """End as by a signal once the process that holds the other end is gone, however that ended."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _ended(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)
