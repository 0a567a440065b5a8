"""`gym step …`: what job scripts ask of `gym` between their own lines. Not for people; hidden from help."""

from __future__ import annotations

import os
from pathlib import Path

import click

from nemo_gym.errors import UsageError


@click.command()
@click.argument("services", nargs=-1, metavar="NAME=PORT…")
def port(services: tuple[str, ...]) -> int:
    """Print a port for each NAME=PORT, in order, one per line: PORT when it is free, for 0 a free one."""
    from nemo_gym.services import ports

    asked = dict(_name_and_port(text) for text in services)
    if len(asked) != len(services):
        raise UsageError("two services have the same name; each needs its own")
    for chosen in ports.choose_ports(asked).values():
        click.echo(chosen)
    return 0


@click.command()
@click.option("--name", required=True, help="The service's name, for messages.")
@click.option("--pid", type=int, required=True, help="The service's first process.")
@click.option(
    "--marker", required=True, metavar="VARIABLE=VALUE", help="In the environment of its processes."
)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=int, required=True)
@click.option("--health-port", type=int, default=0, help="Where the health path is asked; 0: at --port.")
@click.option("--path", default="/v1/models", show_default=True, help="The health path.")
@click.option("--model", default="", help="The name that /v1/models must hold.")
@click.option("--timeout", type=float, required=True, metavar="SECONDS")
@click.option("--log", required=True, help="Where the service's output is, for messages.")
def health(
    name: str,
    pid: int,
    marker: str,
    host: str,
    port: int,
    health_port: int,
    path: str,
    model: str,
    timeout: float,
    log: str,
) -> int:
    """Wait until a service is healthy. Its API key comes from NEMO_GYM_SERVICE_API_KEY."""
    from nemo_gym.services import health as waiting
    from nemo_gym.services.probe import Address, RunningService

    variable, _, value = marker.partition("=")
    address = Address(
        host=host,
        port=port,
        health_port=health_port or port,
        path=path,
        model=model,
        api_key=os.environ.get("NEMO_GYM_SERVICE_API_KEY", ""),
    )
    service = RunningService(pid, (variable, value), address)
    waiting.wait_until_healthy(waiting.Target(name, timeout, log), service)
    return 0


@click.command()
@click.argument("event", type=click.Choice(["end", "no_progress"]))
@click.option("--recipients", type=click.Path(path_type=Path), required=True, help="Who is notified (JSON).")
@click.option("--link", type=click.Path(path_type=Path), required=True, help="The folder of the job's run.")
@click.option("--seconds", type=int, default=0, help="How long there was no new result.")
def notify(event: str, recipients: Path, link: Path, seconds: int) -> int:
    """Send the notice of a benchmark's end, if this is it and none was sent, or that it makes no progress.

    What goes wrong is said; the status is 0 all the same.
    """
    from nemo_gym.job_paths import JobPaths, LinkPaths
    from nemo_gym.notices import content, sending
    from nemo_gym.notices.recipients import load_recipients

    def report(text: str) -> None:
        click.echo(f"gym: {text}", err=True)

    run, job = LinkPaths(link), JobPaths(link.parent.parent)
    end = event == "end"
    notice = content.end_notice(job, run) if end else content.no_progress_notice(job, seconds)
    if notice is not None:
        sending.tell(notice, load_recipients(recipients), job, run, sending.own_context(report))
    return 0


def _name_and_port(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name or not number.isdecimal() or int(number) > 65535:
        raise UsageError(f"'{text}' is not NAME=PORT with a port from 0 to 65535")
    return name, int(number)
