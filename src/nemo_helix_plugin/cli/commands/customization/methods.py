"""`nemo customization sft|dpo|grpo`: a job by its method, whichever backend does it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from nemo_cli.completion import files
from nemo_helix_plugin import errors
from nemo_helix_plugin.cli.command_context import CommandContext
from nemo_helix_plugin.cli.commands.customization import specs, submitting, sweeping
from nemo_helix_plugin.cli.commands.customization.method_specs import MethodSpec, read
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.customization import common_fields
from nemo_helix_plugin.customization.common_fields import BY_NAME, METHODS, SUMMARIES, CommonField
from nemo_helix_plugin.customization.written_specs import CompiledSpec
from nemo_runs.suggestions import did_you_mean

Function = Callable[..., Any]
_HELP = """\
Fields have the same names for every backend. They come from options, from --set, and from a file of --spec,
over which options win; fields of a backend's own spec are taken there too, under their own names.

Files and folders of data are sent to the service, once for the same content. A model is a folder, a model of
the workspace, or a name at the hub such as Qwen/Qwen3-0.6B.

\b
Exit status: 0 submitted, or with --wait completed; 2 a wrong option or spec;
3 the service refused it; with --wait or --watch also 1 error, cancelled or out of time,
75 paused, 130 interrupted.
"""
_KINDS: Mapping[str, Any] = {"whole": click.INT, "number": click.FLOAT, "flag": click.BOOL}
_UPLOADED = ("model", "dataset", "environment")


def _option(field: CommonField) -> Callable[[Function], Function]:
    names = ["-o", field.option] if field.name == "output" else [field.option]
    meaning = field.meaning[0].upper() + field.meaning[1:] + "."
    if field.name == "data":
        return click.option(*names, "data", metavar="SRC", multiple=True, shell_complete=files, help=meaning)
    metavar = {"source": "SRC", "text": "TEXT", "words": "NAME,NAME"}.get(field.kind)
    kind = click.Choice(list(field.choices)) if field.choices else _KINDS.get(field.kind)
    return click.option(
        *names,
        field.name,
        metavar=None if field.choices else metavar,
        type=kind,
        shell_complete=files if field.kind == "source" else None,
        help=meaning,
    )


def _spec_options(method: str) -> Callable[[Function], Function]:
    options: list[Callable[[Function], Function]] = [
        click.option(
            "--set",
            "words",
            metavar="FIELD=VALUE",
            multiple=True,
            help="One field of the spec, in a common name or a backend's own, as optimizer.adam_beta1=0.8.",
        ),
        *map(_option, reversed(common_fields.fields_of(method))),
        click.option(
            "--backend",
            type=click.Choice(list(METHODS[method])),
            help="The first that is installed and has the fields, by default.",
        ),
        click.option(
            "--spec",
            "--job-json",
            "file",
            metavar="FILE",
            shell_complete=files,
            help="Fields as a YAML or JSON object; `-` is standard input.",
        ),
    ]

    def add(function: Function) -> Function:
        for option in options:
            function = option(function)
        return function

    return add


class MethodGroup(NemoGroup):
    """A method's command, which knows what other programs call its fields."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.lstrip("-").replace("-", "_")
            meant = common_fields.ELSEWHERE.get(name) or common_fields.aliases().get(name)
            if meant is None:
                raise
            said = did_you_mean(BY_NAME[meant].option)
            raise click.UsageError(f"No such option '{error.option_name}'{said}.", ctx) from None


@functools.cache
def method_group(method: str) -> click.Group:
    """The command of a method, with `preview` and `explain` below it."""

    @click.group(method, cls=MethodGroup, invoke_without_command=True, short_help=SUMMARIES[method])
    @submitting.submit_options(_UPLOADED, ("--option",))
    @click.option("--print-spec", is_flag=True, help="Print the backend's spec as YAML; make no job.")
    @_spec_options(method)
    @workspace_option
    @command_options
    def group(flags: GlobalFlags, **given: Any) -> int | None:
        ctx = click.get_current_context()
        if ctx.invoked_subcommand is not None:
            ctx.obj = flags
            return None
        return submit(CommandContext(flags), method, given)

    group.help = f"{SUMMARIES[method]}\n\n{_HELP}"
    _add_preview(group, method)
    _add_explain(group, method)
    return group


def _add_preview(group: click.Group, method: str) -> None:
    @group.command("preview", short_help="What a job would learn of its rows, without a job.")
    @click.option(
        "-n", "--rows", type=click.IntRange(1, 1000), default=3, show_default=True, help="Rows to show."
    )
    @submitting.upload_options(_UPLOADED)
    @_spec_options(method)
    @workspace_option
    @command_options
    def preview(flags: GlobalFlags, rows: int, **given: Any) -> int:
        """Print the first rows of the training data as the job would see them, with what is learned marked.

        Rows that are cut or left out are counted over all of the data. There is no job.
        """
        from nemo_helix_plugin.cli.commands.customization.previewing import run

        call = CommandContext(flags)
        wanted = read(call, method, given)
        found = wanted.placed(call, given)
        with renaming(found):
            return run(call, found.backend, found.spec, rows)


def _add_explain(group: click.Group, method: str) -> None:
    @group.command("explain", short_help="The fields, and where each backend has them.")
    @workspace_option
    @command_options
    def explain(flags: GlobalFlags) -> None:
        """Print the fields of this method, what they mean, and what each backend's own spec calls them."""
        rows = [
            {
                "field": field.name,
                "meaning": field.meaning,
                **{one: field.places.get(one) for one in METHODS[method]},
            }
            for field in common_fields.fields_of(method)
        ]
        CommandContext(flags).print_entity({"method": method, "fields": rows})


def submit(call: CommandContext, method: str, given: dict[str, Any]) -> int:
    """Check everything that can be checked here, send files, and submit."""
    follow = submitting.Follow.taken(given)
    prints, profile = given.pop("print_spec"), given.pop("profile")
    options = specs.options(
        given.pop("option_words"), given.pop("options_file"), given.pop("hf_token_secret"), named="--option"
    )
    wanted = read(call, method, given)
    if prints:
        from nemo_helix_plugin import yaml_text

        click.echo(yaml_text.dump(wanted.checked().spec), nl=False)
        return errors.EXIT_DONE
    name = sweeping.sweep_name(follow.sweep_name) if follow.swept else ""
    if follow.swept:
        wanted.swept(follow.swept, name)  # everything that is wrong, before anything is sent
    found = wanted.placed(call, given)
    call.report(f"{method} by the backend {found.backend}.")
    asked = {"spec": found.spec, "workspace": call.workspace, "profile": profile, "options": options}
    with renaming(found):
        if follow.swept:
            return sweeping.submit(call, found.backend, wanted.swept(follow.swept, name), asked)
        return submitting.make(call, found.backend, asked, follow)


@contextmanager
def renaming(found: CompiledSpec) -> Iterator[None]:
    """Around what asks the service: it names fields of the backend, and errors leave with those written."""
    try:
        yield
    except errors.NemoError as error:
        error.args = (found.renamed(str(error)), *error.args[1:])
        raise


def __getattr__(name: str) -> click.Group:
    """The command of the method of that name, where the group of commands looks it up."""
    if name not in METHODS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return method_group(name)


__all__ = ["MethodSpec", "method_group", "renaming", "submit"]
