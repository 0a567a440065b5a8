"""`nemo models push`: a model into a repository of a hub, with a page about it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from nemo_cli.completion import files
from nemo_helix_plugin.cli.command_context import CommandContext
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_models.commands.export import facts_of
from nemo_models.commands.options import base_option, found, model_argument
from nemo_models.local_models import LocalModel

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]{0,95}")


@click.command(short_help="Put a model into a repository of a hub.")
@model_argument
@click.argument("repository", metavar="OWNER/NAME")
@click.option("--public", is_flag=True, help="A repository that everybody can read; otherwise a private one.")
@click.option(
    "--results",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    shell_complete=files,
    help="Scores for its page: what `gym job results ID --json` prints; can be repeated.",
)
@click.option("--revision", metavar="BRANCH", help="Commit to this branch, which must be there.")
@click.option("--message", metavar="TEXT", default="Add the model", show_default=True, help="Of the commit.")
@base_option
@workspace_option
@command_options
def push(
    flags: GlobalFlags,
    name: str,
    repository: str,
    public: bool,
    results: Sequence[Path],
    revision: str | None,
    message: str,
    base: str | None,
) -> None:
    """Commit the model NAME, or an exported folder (/…, ./…), to the repository OWNER/NAME of a hub.

    The token is that of the hub's own client: the variable HF_TOKEN, or the file of `hf auth login`;
    HF_ENDPOINT names another hub. An adapter is pushed as it is; `nemo models export --to merged` makes
    whole weights. Called again after an interruption it sends what the hub does not have.
    """
    from nemo_models import cards, engine

    if not _REPOSITORY.fullmatch(repository):
        raise click.UsageError(f"{repository}: write the repository as OWNER/NAME.")
    call = CommandContext(flags)
    rows = [row for path in results for row in cards.read_results(path)]
    model = found(call, name, base)
    exported = _exported(model.folder)
    shown = (model.base.shown if model.base else None) or exported.get("base_model")
    facts = cards.CardFacts(
        title=repository.partition("/")[2],
        adapter=model.adapter,
        base=_base_name(str(shown or model.record.get("base_model") or "")) or None,
        training=facts_of(call, model) or exported.get("training") or {},
        results=rows,
        description=model.record.get("description"),
    )
    if model.adapter and not str(facts.base).startswith("hf://"):
        call.report(
            f"its base model {shown or facts.base} is not at a hub: who loads the adapter needs it too; "
            "`nemo models export --to merged` makes whole weights to push."
        )
    staged = engine.find().cache / "pushes" / model.digest.removeprefix("sha256:")[:20]
    _stage(model, staged, cards.card(facts), facts.base)
    call.report(f"pushes {model.shown} to {repository} …")
    asked = {"private": not public, "message": message, "revision": revision}
    done = engine.find().answer("nemo_engines.hub.push", str(staged), repository, given=asked, extra=_ONLINE)
    shutil.rmtree(staged, ignore_errors=True)
    where = done.get("url") or repository
    call.print_done(f"{model.shown} is at {where}", {"repository": repository, "private": not public, **done})


def _exported(folder: Path) -> Mapping[str, Any]:
    """The record that an export has left beside the files."""
    from nemo_models.exporting import RECORD

    try:
        found = json.loads((folder / RECORD).read_bytes())
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


_ONLINE = {"HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
_PUSHED = (".safetensors", ".json", ".jinja", ".txt", ".model", ".bin", ".gguf", ".tiktoken")
"""Endings of files that make up a model; whatever else lies beside them is pushed to nobody."""


def _stage(model: LocalModel, folder: Path, card: str, base: str | None) -> None:
    """The files as they are pushed, in a folder of the cache; without copies where the disk is the same."""
    import os

    from nemo_models import exporting, weights

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, path in weights.files_of(model.folder):
        if path.suffix not in _PUSHED or name in (exporting.RECORD, weights.ADAPTER):
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path.resolve(), target)
        except OSError:
            shutil.copyfile(path, target)
    if model.adapter:
        config = json.loads((model.folder / weights.ADAPTER).read_bytes())
        config["base_model_name_or_path"] = (base or "").removeprefix("hf://")
        (folder / weights.ADAPTER).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(card, encoding="utf-8")


def _base_name(base: str) -> str:
    """What the base model is called in public: a folder's path is nobody's business there."""
    return Path(base).name if base.startswith(("/", ".", "~")) else base
