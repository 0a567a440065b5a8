"""`nemo customization <backend> explain`: what a backend takes, stores, and refuses."""

from __future__ import annotations

import click

from nemo_helix_plugin import errors
from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.output.code import Operation


def run(call: CommandContext, backend: str, profile: str | None) -> int:
    """Print the service's explanation; without a service what is known without one."""
    from nemo_helix_plugin.client.errors import NemoTransportError

    operation = Operation(f"customization.{backend}.explain", {"workspace": call.workspace})
    if call.prints_code(operation):
        return errors.EXIT_DONE
    try:
        found = record_of(call.ask(operation))
    except NemoTransportError as error:
        call.report(
            f"{str(error).rstrip('.')}; the schemas are those of this version, the engine is not known."
        )
        found = _without_service(backend)
    profiles = found.get("profiles") or []
    if profile is not None and profiles and profile not in profiles:
        raise click.UsageError(
            f"--profile {profile}: there is no such profile; there are {', '.join(profiles)}."
        )
    call.print_entity(found)
    problem = (found.get("engine") or {}).get("problem")
    if problem and call.flags.output_format != "json":
        call.report(f"{problem}.")
    return errors.EXIT_DONE


def _without_service(backend: str) -> dict[str, object]:
    from nemo_helix_plugin.customization import explain

    return {
        "backend": backend,
        "engine": None,
        "profiles": [],
        "input": explain.input_schema(backend),
        "output": explain.output_schema(backend),
        "options": explain.options_schema(),
        "refused": {},
    }
