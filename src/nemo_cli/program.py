"""The outermost edge of a program, the one place where an error becomes a sentence and an exit status."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import click

from nemo_cli import docs_pages, usage_words
from nemo_runs import homes, streams
from nemo_runs.errors import RunsError

EXIT_DONE = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Program:
    """A command line program; nothing that goes wrong in it shows a traceback, unless that is asked for."""

    name: str
    command: click.Command
    debug_variable: str
    """Set in the environment, it asks for a traceback before the sentence of an error."""
    explain: Callable[[Exception], tuple[int, Sequence[str]] | None]
    """Exit status and sentences of an error that the program itself raises; `None` for any other."""
    explaining: Callable[[Exception, Sequence[str]], str | None] = lambda _error, _words: None
    """The topic of the page that explains an error of a command line; `None` where a page would not help."""

    def run(self) -> NoReturn:
        """Run with the arguments of this process, and leave with the documented exit status."""
        streams.prepare()
        if any(name.endswith("_COMPLETE") for name in os.environ):
            from nemo_cli import completion  # few calls are a shell's

            completion.prepare(self.name)
        status = self.status(sys.argv[1:])
        streams.allow_lost_stdout()  # the last flush
        gc.freeze()  # or the end of the interpreter looks for cycles in all that is there
        sys.exit(status)

    def status(self, args: list[str]) -> int:
        """Run with some arguments; the exit status."""
        try:
            status = self.command.main(args=args, prog_name=self.name, standalone_mode=False)
            if lost := streams.finish():
                self._report(f"standard output could not be written ({lost}); what was asked for is done.")
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.ctx.get_help() if error.ctx else str(error), err=True)
            return EXIT_USAGE
        except click.UsageError as error:
            self._report_usage(error, args)
            return EXIT_USAGE
        except (click.exceptions.Abort, KeyboardInterrupt):
            self._report("interrupted.")
            return EXIT_INTERRUPTED
        except BrokenPipeError:
            let_stdout_go()
            return EXIT_ERROR
        except Exception as error:  # noqa: BLE001 - the outermost edge: a person gets a sentence
            return self._report_error(error, args)
        return status if isinstance(status, int) else EXIT_DONE

    def _report_usage(self, error: click.UsageError, args: Sequence[str]) -> None:
        where = error.ctx.command_path if error.ctx else usage_words.where(self.command, self.name, args)
        message = usage_words.said(error)
        between = "\n" if "\n" in message else " "
        self._report(f"{_ended(message)}{between}See '{where} --help'.")

    def _report_error(self, error: Exception, args: Sequence[str]) -> int:
        if os.environ.get(self.debug_variable):
            import traceback

            traceback.print_exception(error)
        status, sentences = self.explain(error) or (EXIT_ERROR, [self._sentence(error)])
        for sentence in sentences:
            self._report(_ended(sentence))
        self._name_page(error, args)
        return status

    def _name_page(self, error: Exception, args: Sequence[str]) -> None:
        """Name the page that explains an error to a person; programs read the sentence as the last line."""
        if sys.stderr.isatty():
            topic = self.explaining(error, [word for word in args if not word.startswith("-")])
            if topic is not None and topic in docs_pages.topics():
                self._report(f"see `{self.name} docs {topic}`.")

    def _sentence(self, error: Exception) -> str:
        """What went wrong, of errors that any program meets."""
        if isinstance(error, RunsError):
            return str(error)
        if isinstance(error, OSError) and (sentence := homes.lost_folder(error)):
            return sentence
        if isinstance(error, OSError) and error.strerror:
            name = error.filename2 or error.filename  # of two the second is where something was to go
            return f"{error.strerror} ({name})" if name else error.strerror
        if isinstance(error, UnicodeEncodeError):
            return streams.unwritable(error)
        return f"unexpected {type(error).__name__}: {error}. Set {self.debug_variable}=1 to see where."

    def _report(self, message: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            click.echo(f"{self.name}: {streams.harmless(message)}", err=True)


def let_stdout_go() -> None:
    """Point stdout, whose reader has left, at the null device, so that the last flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _ended(sentence: str) -> str:
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."
