"""`gym job tag`: tags and a note of a run."""

from __future__ import annotations

import json

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option


@click.command(short_help="Give a run tags and a note.")
@click.argument("name", metavar="ID", shell_complete=completing.run_ids)
@click.argument("tags", metavar="[TAG]...", nargs=-1)
@click.option("--remove", "gone", metavar="TAG", multiple=True, help="Remove a tag; can be repeated.")
@click.option("--note", metavar="TEXT", help='The note in place of the one before; "" removes it.')
@json_option
def tag(name: str, tags: tuple[str, ...], gone: tuple[str, ...], note: str | None, as_json: bool) -> int:
    """Add tags to a submission or remove some, and keep a note on it; without any, show them.

    They are kept in its run directory, beside the record, and shown by `gym job list` and on pages. Of a
    submission whose run directory is on another machine they are kept in the local index.
    """
    from nemo_gym.cli import submissions
    from nemo_gym.orchestration.records import run_annotations
    from nemo_runs import streams

    record = submissions.one(name)
    file = run_annotations.file_of(record)
    if tags or gone or note is not None:
        found = run_annotations.change(file, tags, gone, note)
    else:
        found = run_annotations.read(file)
    if as_json:
        document = {"schema_version": 1, "gym_job_id": record.gym_job_id, **found.to_json()}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return 0
    click.echo(streams.harmless(" ".join(found.tags) or "no tags"))
    if found.note:
        click.echo(streams.harmless(found.note))
    return 0
