"""The program `nemo`: its own groups, commands of installed packages, and errors as sentences."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import NoReturn

import click

from nemo_helix_plugin import __version__, errors
from nemo_helix_plugin.cli import outside_commands
from nemo_helix_plugin.cli.global_options import global_options
from nemo_helix_plugin.cli.lazy import Lazy, LazyGroup
from nemo_runs import homes, streams, suggestions

_OWN = {
    "jobs": Lazy(
        "nemo_helix_plugin.cli.commands.jobs.group:jobs", "Create, follow, pause, resume and rerun jobs."
    ),
    "customization": Lazy(
        "nemo_helix_plugin.cli.commands.customization.group:customization", "Submit fine-tuning jobs."
    ),
    "files": Lazy("nemo_helix_plugin.cli.commands.files:files", "Filesets: folders of files by name."),
    "models": Lazy("nemo_helix_plugin.cli.commands.models:models", "Models by name, and adapters."),
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
}

_KNOWN_HELP = {
    "engines": "Install and look at the training engines of this machine.",
    "services": "Run the Jobs service on this machine.",
}
"""Help lines of commands that packages of this distribution bring: reading theirs would import them."""


class InstalledGroup(LazyGroup):
    """A group with commands of its own and others that entry points bring, imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the group's own commands and of all installed ones."""
        own = super().list_commands(ctx)
        return [*own, *(name for name in outside_commands.installed_commands() if name not in own)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; the group's own go before installed ones of that name."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        installed = outside_commands.installed_commands()
        return outside_commands.load(installed[cmd_name]) if cmd_name in installed else None

    def suggested(self, ctx: click.Context, typed: str) -> str:
        """What may have been meant: of jobs' commands too, since `nemo pause` is soon typed."""
        from nemo_helix_plugin.cli.commands.jobs.group import jobs

        if typed in jobs.list_commands(ctx):
            return suggestions.did_you_mean(f"nemo jobs {typed}")
        return super().suggested(ctx, typed)

    def shown(self, ctx: click.Context) -> list[tuple[str, str]]:  # noqa: ARG002 - as the base has it
        """Names and help; of an installed command the package that brings it, where nothing else is known."""
        own = [(name, lazy.help) for name, lazy in self._lazy.items() if not lazy.hidden]
        names = {name for name, _ in own}
        brought = [
            (name, _KNOWN_HELP.get(name, f"from {command.distribution}"))
            for name, command in outside_commands.installed_commands().items()
            if name not in names
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

    Options of this list may also stand after the command.
    """


def main() -> NoReturn:
    """Run `nemo` and leave with its documented exit status; no traceback reaches the user."""
    streams.prepare()
    status = _status(sys.argv[1:])
    streams.allow_lost_stdout()  # the last flush
    gc.freeze()  # or the end of the interpreter looks for cycles in all that is there
    sys.exit(status)


_WORDING = (
    ("'[NAME]'", "'NAME'"),
    ("is not a valid integer range", "is not a whole number"),
    ("is not a valid float range", "is not a number"),
)
"""What click says, and what is said in its place."""


def _status(args: list[str]) -> int:
    try:
        status = nemo.main(args=args, prog_name="nemo", standalone_mode=False)
        if lost := streams.finish():
            _report(f"standard output could not be written ({lost}); what was asked for is done.", 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else str(error), err=True)
        return errors.EXIT_USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "nemo"
        message = suggestions.reworded(" ".join(error.format_message().split()))
        for theirs, ours in _WORDING:
            message = message.replace(theirs, ours)
        end = "" if message.endswith((".", "?")) else "."
        return _report(f"{message}{end} See '{where} --help'.", errors.EXIT_USAGE)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return _report("interrupted.", errors.EXIT_INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.EXIT_LOCAL
    except Exception as error:  # noqa: BLE001 - the outermost edge: a person gets a sentence, never a traceback
        return _report_error(error)
    return status if isinstance(status, int) else errors.EXIT_DONE


def _report_error(error: Exception) -> int:
    if os.environ.get("NEMO_DEBUG"):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, errors.NemoError):
        _report(_ended(str(error)), error.exit_status)
        for note in getattr(error, "__notes__", ()):
            _report(note, error.exit_status)
        return error.exit_status
    if isinstance(error, OSError) and (sentence := homes.lost_folder(error)):
        return _report(sentence, errors.EXIT_LOCAL)
    if isinstance(error, OSError) and error.strerror:
        name = error.filename2 or error.filename  # of two the second is where something was to go
        where = f" ({name})" if name else ""
        return _report(f"{error.strerror}{where}.", errors.EXIT_LOCAL)
    if isinstance(error, UnicodeEncodeError):
        return _report(streams.unwritable(error), errors.EXIT_LOCAL)
    message = f"unexpected {type(error).__name__}: {error}. Set NEMO_DEBUG=1 to see where."
    return _report(message, errors.EXIT_LOCAL)


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."


def _report(message: str, status: int) -> int:
    with contextlib.suppress(BrokenPipeError):
        click.echo(f"nemo: {message}", err=True)
    return status
