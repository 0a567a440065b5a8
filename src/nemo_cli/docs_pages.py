"""The pages of the documentation on this machine, by topic: the name of a page's file without its ending.

They are in the checkout, or came with the installed package. A copy that was brought to a cluster has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from nemo_runs.errors import RunsError
from nemo_runs.suggestions import suggestion

_FOLDERS = ("tutorial", "how-to", "reference", "explanation")


def topics() -> dict[str, Path]:
    """The file of each topic, in the order of the folders; empty where no page came along."""
    here = Path(__file__).parent
    for found in (here / "docs", here.parents[1] / "docs"):
        if (found / "README.md").is_file():
            return {page.stem: page for name in _FOLDERS for page in sorted((found / name).glob("*.md"))}
    return {}


def topic_of(error: Exception, topics_by_kind: Mapping[str, str]) -> str | None:
    """The topic of an error's class, or of the nearest class above it; ``None`` where none has one."""
    kinds = (kind.__name__ for kind in type(error).__mro__)
    return next((topics_by_kind[kind] for kind in kinds if kind in topics_by_kind), None)


@click.command(short_help="List the pages of the documentation, or show one.")
@click.argument("topic", required=False)
def docs(topic: str | None) -> int:
    """Show a page of the documentation, or list the topics of all pages.

    Errors that a page explains name its topic.
    """
    pages = topics()
    if not pages:
        raise RunsError("no page of the documentation came with this copy of the program.")
    if topic is None:
        width = max(map(len, pages))
        for name, page in pages.items():
            click.echo(f"{name:<{width}}  {_title(page)}")
        return 0
    if topic not in pages:
        raise click.UsageError(f"there is no page '{topic}'{suggestion(topic, pages)}.")
    click.echo_via_pager(pages[topic].read_text(encoding="utf-8"))
    return 0


def _title(page: Path) -> str:
    with page.open(encoding="utf-8") as lines:
        return next(lines, "").removeprefix("# ").strip()
