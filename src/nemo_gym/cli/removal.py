"""What `gym job rm` and `gym job prune` share: show first, ask, look again, delete."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nemo_gym.errors import UsageError

if TYPE_CHECKING:
    from nemo_gym.orchestration.jobs import SubmissionRecord
    from nemo_gym.orchestration.removal.candidates import Hosts, RemovalCandidate
    from nemo_slurm.hosts import Host

_COLUMNS = ("ID", "LAST HEARD OF", "FILES", "SIZE", "WHERE", "")


@contextlib.contextmanager
def open_hosts() -> Iterator[Hosts]:
    """Opens each machine once and closes all of them at the end."""
    from nemo_slurm.ssh import host_of

    with contextlib.ExitStack() as closing:
        known: dict[str | None, Host] = {}

        def opened(name: str | None) -> Host:
            if name not in known:
                known[name] = host_of(name)
                closing.callback(known[name].close)
            return known[name]

        yield opened


def named(ids: Sequence[str]) -> list[SubmissionRecord]:
    """The submissions of some names. Raises `RefusedError` for a copy, whose record names the original."""
    from nemo_gym.cli.submissions import report
    from nemo_gym.errors import RefusedError
    from nemo_gym.orchestration.records import index

    found: dict[str, SubmissionRecord] = {}
    for name in ids:
        record = index.find(name, report=report)
        if index.is_folder(name) and Path(name).resolve() != Path(record.run_dir).resolve():
            raise RefusedError(
                f"{name} is a copy of {record.gym_job_id}, whose run directory is {record.run_dir}; "
                "nothing was deleted. Delete the folder itself, or give the id to delete the run."
            )
        found[record.gym_job_id] = record
    return list(found.values())


def look(records: Sequence[SubmissionRecord], hosts: Hosts) -> list[RemovalCandidate]:
    """What may be deleted of some submissions, each machine asked once."""
    from nemo_gym.orchestration.removal.candidates import candidates
    from nemo_gym.orchestration.status.machines import SubmissionMachines

    with SubmissionMachines() as machines:
        return candidates(records, machines, hosts)


def remove(
    going: Sequence[RemovalCandidate],
    staying: Sequence[RemovalCandidate],
    hosts: Hosts,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Show what goes and what stays, ask unless ``yes``, look at the jobs again, and delete."""
    if not as_json:
        _show(going, staying)
    deleted: list[str] = []
    if going and not dry_run:
        if not yes:
            _confirm(going)
        deleted = _delete(going, hosts)
    if as_json:
        document = {
            "schema_version": 1,
            "deleted": deleted,
            "removable": [candidate.to_json() for candidate in going],
            "kept": [candidate.to_json() for candidate in staying],
        }
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    elif deleted:
        click.echo(f"deleted {', '.join(deleted)}")


def _delete(going: Sequence[RemovalCandidate], hosts: Hosts) -> list[str]:
    """Delete what may still be deleted now: a job may have been queued while the question was open."""
    from nemo_gym.orchestration.removal.delete import delete

    deleted = []
    for candidate in look([candidate.record for candidate in going], hosts):
        delete(candidate, hosts)
        deleted.append(candidate.record.gym_job_id)
    return deleted


def _confirm(going: Sequence[RemovalCandidate]) -> None:
    from nemo_runs.counts import counted

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "nothing was deleted: this asks first, and there is nobody to ask; add --yes (or --dry-run)."
        )
    click.confirm(f"Delete {counted(len(going), 'run')} for good?", abort=True, err=True)


def _show(going: Sequence[RemovalCandidate], staying: Sequence[RemovalCandidate]) -> None:
    from nemo_gym.cli.submissions import report, terminal_width
    from nemo_gym.text_table import table
    from nemo_runs.clock import utc_second
    from nemo_runs.counts import counted
    from nemo_runs.sizes import size_in_words

    rows = [
        [
            candidate.record.gym_job_id,
            utc_second(candidate.ended_at),
            f"{candidate.files:,}",
            size_in_words(candidate.size),
            candidate.record.hostname or "this machine",
            "its folder is gone; only its entry is left" if candidate.gone else "",
        ]
        for candidate in going
    ]
    if rows:
        click.echo(table(_COLUMNS, rows, terminal_width()))
        size = size_in_words(sum(candidate.size for candidate in going))
        count = sum(candidate.size for candidate in going)
        click.echo(f"{counted(len(going), 'run')}, {size} ({counted(count, 'byte')})")
    else:
        report("nothing to delete.")
    for candidate in staying:
        report(f"{candidate.record.gym_job_id} stays: {candidate.refusal}.")
