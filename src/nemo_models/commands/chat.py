"""`nemo models chat`: talk to a trained model in a terminal, or ask it questions from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemo_cli.completion import files
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

if TYPE_CHECKING:
    from nemo_models.conversations import AnswerView, Dialogue, SavedConversations

_HELP = (
    "A line is a question; \\ at its end goes on. /new begins again, /quit or Ctrl-D ends; Ctrl-C ends an "
    "answer."
)


@click.command(short_help="Talk to a model in the terminal.")
@model_argument
@click.option("--prompt", "prompts", multiple=True, metavar="TEXT", help="Ask this and end; can be repeated.")
@click.option("--system", metavar="TEXT", help="What the model gets before the first question.")
@click.option("--with-base", is_flag=True, help="Ask its base model, too, and show both answers.")
@click.option(
    "--one-conversation",
    is_flag=True,
    help="All questions of --prompt or standard input are one conversation.",
)
@click.option(
    "--temperature", type=click.FloatRange(0, 100), help="0 is the likeliest answer, always the same."
)
@click.option("--top-p", type=click.FloatRange(0, 1), help="Sample from the likeliest tokens of this share.")
@click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="Longest answer, in tokens (1024).")
@click.option("--seed", type=int, metavar="N", help="The same seed gives the same answers.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    shell_complete=files,
    help="Add the conversation to this file (JSONL, as trainings read it); otherwise nothing is kept.",
)
@base_option
@device_option
@threads_option
@workspace_option
@command_options
def chat(flags: GlobalFlags, name: str, base: str | None, **options: Any) -> int:
    """Talk to the model NAME, or to a model in a folder (/…, ./…), on this machine.

    On a terminal the answers appear as they are made. Where standard input is not a terminal, each of its
    lines is a question of its own, answered in order; with -f raw each question is one JSON line. Nothing
    that is said is kept, unless --save asks for it.
    """
    chosen = _Options(**options)
    call = CommandContext(flags)
    from nemo_models import serving
    from nemo_models.conversations import Dialogue, SavedConversations
    from nemo_models.talking import connected

    model = found(call, name, base, with_base=chosen.with_base)
    own, base_name = names_of(model, with_base=chosen.with_base)
    key = new_key()
    saved = SavedConversations(chosen.save) if chosen.save else None
    call.report(f"loads {model.shown} …")
    request = serving.ServeRequest(
        model, own, base_name=base_name, key=key, device=chosen.device, threads=chosen.threads
    )
    with serving.served(request, quiet=True) as server:
        talker = connected(server.url, key, chosen.settings())
        names = [*([base_name] if base_name else []), own]
        session = _Session(call, lambda: Dialogue(talker, names, chosen.system), saved, own)
        with talker.client:
            if sys.stdin.isatty() and not chosen.prompts:
                return session.interactive()
            return session.questions(chosen.prompts, one=chosen.one_conversation)


@dataclass(frozen=True)
class _Options:
    prompts: tuple[str, ...]
    system: str | None
    with_base: bool
    one_conversation: bool
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    seed: int | None
    save: Path | None
    device: str | None
    threads: int | None

    def settings(self) -> dict[str, Any]:
        """Fields of each request."""
        given = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass
class _Session:
    call: CommandContext
    start: Callable[[], Dialogue]
    saved: SavedConversations | None
    model: str

    def interactive(self) -> int:
        """Ask for questions until the person ends it."""
        import readline  # noqa: F401 - lines can be edited; its history is written nowhere

        from nemo_models import views

        conversation = self.start()
        view = views.chosen(conversation.models, silent=False)
        self.call.report(f"{self.model} answers. {_HELP}")
        while (question := _question()) is not None:
            if question == "/quit":
                break
            if question == "/new":
                self._close(conversation)
                conversation = self.start()
                self.call.report("a new conversation.")
            elif question.startswith("/") and not question.startswith("//"):
                self.call.report(f"there is no command {question.split()[0]}. {_HELP}")
            elif question:
                self._ask(conversation, question.removeprefix("/"), view)
        self._close(conversation)
        return 0

    def questions(self, prompts: tuple[str, ...], *, one: bool) -> int:
        """Answer the questions that were given; 1 where one of them has no answer."""
        from nemo_models import conversations, views

        as_documents = self.call.flags.output_format in {"json", "yaml", "raw"}
        lines = self.call.flags.output_format == "raw"
        view = views.chosen(self.start().models, silent=as_documents)
        asked: Iterator[str] = iter(prompts) if prompts else conversations.lines_of_stdin()
        found, failed, conversation = [], False, self.start()
        for number, question in enumerate(asked):
            if number and not one:
                self._close(conversation)
                conversation = self.start()
            if number and not as_documents:
                click.echo()
            answers = self._ask(conversation, question, view)
            failed = failed or any(answer.error for answer in answers)
            found.append(conversations.document(question, answers))
            if lines:
                click.echo(documents.json_line(found[-1]))
            if any(answer.finish == "interrupted" for answer in answers):
                raise KeyboardInterrupt
        if not found:
            raise click.UsageError(
                "standard input has no question: give --prompt TEXT, or a question on each line."
            )
        if as_documents and not lines:
            self.call.print_entity(found)
        return int(failed)

    def _ask(self, conversation: Dialogue, question: str, view: AnswerView) -> Any:
        answers = conversation.ask(question, view)
        if self.saved is not None:
            self.saved.write(conversation)
        return answers

    def _close(self, conversation: Dialogue) -> None:
        if self.saved is not None:
            self.saved.close(conversation)


def _question() -> str | None:
    """The next question; `None` at the end. A line that ends in a backslash goes on in the next one."""
    lines: list[str] = []
    while True:
        try:
            line = input("... " if lines else "> ")
        except EOFError:
            click.echo()
            return None
        except KeyboardInterrupt:
            click.echo()
            lines = []
            continue
        if line.endswith("\\"):
            lines.append(line[:-1])
            continue
        return "\n".join([*lines, line]).strip()
