"""`nemo customization recipes`: specs that ship, to look at, to change and to run."""

from __future__ import annotations

import click

from nemo_cli.completion import completes
from nemo_helix_plugin.cli.command_context import CommandContext
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.customization import recipes as shipped
from nemo_helix_plugin.customization.common_fields import METHODS

recipes = NemoGroup("recipes", help="Specs that ship, for models and tasks that people have.")


def _names(_ctx: click.Context, _typed: str) -> list[tuple[str, str]]:
    return [(one.name, one.title) for one in shipped.all_recipes()]


_name = click.argument("name", metavar="NAME", shell_complete=completes(_names))


@recipes.command("list", short_help="All recipes.")
@click.option("--method", type=click.Choice(list(METHODS)), help="Those of one method.")
@command_options
def list_recipes(flags: GlobalFlags, method: str | None) -> None:
    """List the recipes, with their methods and models."""
    rows = [
        {"name": one.name, "method": one.method, "model": one.spec["model"], "title": one.title}
        for one in shipped.all_recipes()
        if method in {None, one.method}
    ]
    CommandContext(flags).print_list(rows, ["name", "method", "model", "title"])


@recipes.command("show", short_help="The file of one recipe.")
@_name
@command_options
def show(flags: GlobalFlags, name: str) -> None:
    """Print the file of a recipe, to save and change; `nemo customization METHOD --spec FILE` takes it."""
    found, call = shipped.find(name), CommandContext(flags)
    if flags.output_format in {None, "table", "yaml"}:
        click.echo(found.text, nl=False)
    else:
        call.print_entity(found.spec)


@recipes.command(
    "run",
    short_help="Submit a job by a recipe.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@_name
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(ctx: click.Context, name: str, options: tuple[str, ...]) -> int | None:
    """Submit the job of a recipe.

    Behind NAME come options of `nemo customization sft`, `dpo` or `grpo`, whichever it is for; they win over
    the recipe: --model and --data, --max-steps, --dry-run, --wait and all others.
    """
    from nemo_helix_plugin.cli.commands.customization.methods import method_group

    found = shipped.find(name)
    group = method_group(found.method)
    with group.make_context(name, ["--spec", str(found.path), *options], parent=ctx) as inner:
        return group.invoke(inner)  # type: ignore[no-any-return]
