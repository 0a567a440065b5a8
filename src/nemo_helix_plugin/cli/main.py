"""The program `nemo`: commands that installed packages bring, and one place where errors become sentences."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

import click

from nemo_helix_plugin import __version__, errors
from nemo_helix_plugin.cli import commands

NOTHING_INSTALLED = "No command package is installed: there is nothing that `nemo` can do yet."


class InstalledGroup(click.Group):
    """A group whose commands come from entry points and are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the group's own commands and of all installed ones."""
        return sorted({*super().list_commands(ctx), *commands.installed_commands()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        installed = commands.installed_commands()
        return commands.load(installed[cmd_name]) if cmd_name in installed else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed; with no package installed, say that instead of guessing."""
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and not known:
            raise click.UsageError(f"No such command '{args[0]}'. {NOTHING_INSTALLED}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """List the commands with the package that brings each, importing none of them."""
        installed = commands.installed_commands()
        if not installed:
            with formatter.section("Commands"):
                formatter.write_text(NOTHING_INSTALLED)
            return
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, f"from {command.distribution}") for name, command in installed.items()]
            )


@click.group(
    cls=InstalledGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="nemo")
def nemo() -> None:
    """Run and steer fine-tuning jobs through the Jobs service."""


def main() -> NoReturn:
    """Run `nemo` and leave with its documented exit status; no traceback reaches the user."""
    _open_streams()
    sys.exit(_status(sys.argv[1:]))


def _open_streams() -> None:
    """Point standard streams that are closed at the null device, so that no other file gets their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _status(args: list[str]) -> int:
    try:
        status = nemo.main(args=args, prog_name="nemo", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else str(error), err=True)
        return errors.EXIT_USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "nemo"
        message = error.format_message()
        end = "" if message.endswith((".", "?")) else "."
        return _say(f"{message}{end} See '{where} --help'.", errors.EXIT_USAGE)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return _say("interrupted.", errors.EXIT_INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.EXIT_LOCAL
    except Exception as error:  # noqa: BLE001 - the outermost edge: a person gets a sentence, never a traceback
        return _say_error(error)
    return status if isinstance(status, int) else errors.EXIT_DONE


def _say_error(error: Exception) -> int:
    if os.environ.get("NEMO_DEBUG"):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, errors.NemoError):
        return _say(str(error), error.exit_status)
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return _say(f"{error.strerror}{where}.", errors.EXIT_LOCAL)
    message = f"unexpected {type(error).__name__}: {error}. Set NEMO_DEBUG=1 to see where."
    return _say(message, errors.EXIT_LOCAL)


def _say(message: str, status: int) -> int:
    with contextlib.suppress(BrokenPipeError):
        click.echo(f"nemo: {message}", err=True)
    return status
