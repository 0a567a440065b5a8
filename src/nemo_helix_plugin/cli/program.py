"""The program `nemo`: its own groups, commands of installed packages, and the errors that it explains."""

from __future__ import annotations

import click

from nemo_cli.lazy_group import Lazy
from nemo_cli.program import Program
from nemo_helix_plugin import __version__, errors
from nemo_helix_plugin.cli import outside_commands
from nemo_helix_plugin.cli.error_pages import explaining
from nemo_helix_plugin.cli.global_options import global_options
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_runs import suggestions

_OWN = {
    "jobs": Lazy(
        "nemo_helix_plugin.cli.commands.jobs.group:jobs", "Create, follow, pause, resume and rerun jobs."
    ),
    "customization": Lazy(
        "nemo_helix_plugin.cli.commands.customization.group:customization", "Submit fine-tuning jobs."
    ),
    "sweeps": Lazy(
        "nemo_helix_plugin.cli.commands.sweeps:sweeps", "Fine-tuning jobs that differ in a few values."
    ),
    "files": Lazy("nemo_helix_plugin.cli.commands.files:files", "Filesets: folders of files by name."),
    "models": Lazy("nemo_helix_plugin.cli.commands.models:models", "Models by name, and adapters."),
    "profiles": Lazy(
        "nemo_helix_plugin.cli.commands.profiles:profiles",
        "Execution profiles: where steps can run, and whether they can now.",
    ),
    "config": Lazy(
        "nemo_helix_plugin.cli.commands.config:config", "Contexts: which service, as whom, and how to print."
    ),
    "auth": Lazy(
        "nemo_helix_plugin.cli.commands.auth:auth", "Tokens of the service, and which one to use here."
    ),
    "secrets": Lazy("nemo_helix_plugin.cli.commands.secrets:secrets", "Values that jobs get by name."),
    "workspaces": Lazy(
        "nemo_helix_plugin.cli.commands.workspaces:workspaces", "The namespaces that jobs live in."
    ),
    "docs": Lazy("nemo_cli.docs_pages:docs", "List the pages of the documentation, or show one."),
    "completion": Lazy(
        "nemo_helix_plugin.cli.commands.completion:completion",
        "Complete commands and names in bash, zsh or fish.",
    ),
}

_KNOWN_HELP = {
    "engines": "Install and look at the training engines of this machine.",
    "services": "Run the Jobs service on this machine.",
}
"""Help lines of commands that packages of this distribution bring: reading theirs would import them."""


class InstalledGroup(NemoGroup):
    """A group with commands of its own and others that entry points bring, imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the group's own commands and of all installed ones."""
        own = super().list_commands(ctx)
        return [*own, *outside_commands.installed_commands(own)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; raises `CommandLoadError` where two have that name."""
        installed = outside_commands.load(cmd_name, super().list_commands(ctx))
        return installed or super().get_command(ctx, cmd_name)

    def suggested(self, ctx: click.Context, typed: str) -> str:
        """What may have been meant: of jobs' commands too, since `nemo pause` is soon typed."""
        from nemo_helix_plugin.cli.commands.jobs.group import jobs

        if typed in jobs.list_commands(ctx):
            return suggestions.did_you_mean(f"nemo jobs {typed}")
        return super().suggested(ctx, typed)

    def shown(self, ctx: click.Context) -> list[tuple[str, str]]:  # noqa: ARG002 - as the base has it
        """Names and help; of an installed command the package that brings it, where nothing else is known."""
        own = [(name, lazy.help) for name, lazy in self._lazy.items() if not lazy.hidden]
        brought = [
            (name, _KNOWN_HELP.get(name, f"from {packages}"))
            for name, packages in outside_commands.installed_commands(self._lazy).items()
        ]
        return [*own, *brought]


@click.group(
    cls=InstalledGroup,
    lazy=_OWN,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, "-V", "--version", prog_name="nemo")
@global_options
def nemo() -> None:
    """Run and steer fine-tuning jobs through the Jobs service.

    Options of this list may also follow the command.
    """


def _explain(error: Exception) -> tuple[int, list[str]] | None:
    if isinstance(error, errors.NemoError):
        return error.exit_status, [str(error), *getattr(error, "__notes__", ())]
    return None


PROGRAM = Program("nemo", nemo, "NEMO_DEBUG", _explain, explaining)
"""It, as a process."""
