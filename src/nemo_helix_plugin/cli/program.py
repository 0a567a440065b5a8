"""The program `nemo`: its own groups, commands of installed packages, and the errors that it explains."""

from __future__ import annotations

import click

from nemo_cli.lazy_group import Lazy
from nemo_cli.program import Program
from nemo_helix_plugin import __version__, errors
from nemo_helix_plugin.cli import outside_commands
from nemo_helix_plugin.cli.error_pages import explaining
from nemo_helix_plugin.cli.global_options import global_options
from nemo_helix_plugin.cli.installed_group import InstalledGroup
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


class ProgramGroup(InstalledGroup):
    """The program's own group, which knows that `nemo pause` is soon typed."""

    def suggested(self, ctx: click.Context, typed: str) -> str:
        """What may have been meant: of jobs' commands too."""
        from nemo_helix_plugin.cli.commands.jobs.group import jobs

        if typed in jobs.list_commands(ctx):
            return suggestions.did_you_mean(f"nemo jobs {typed}")
        return super().suggested(ctx, typed)


@click.group(
    cls=ProgramGroup,
    lazy=_OWN,
    entry_points=outside_commands.GROUP,
    known=_KNOWN_HELP,
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
