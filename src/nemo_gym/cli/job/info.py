"""`gym job info`: where everything of a submission is, and what happened to each of its jobs."""

from __future__ import annotations

import json
from pathlib import Path

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option
from nemo_gym.errors import EXIT_DONE


@click.command(short_help="Directories, jobs, decisions and logs of a submission.")
@click.argument("name", metavar="ID", shell_complete=completing.run_ids)
@click.argument("benchmark", required=False, shell_complete=completing.benchmarks_or_models_of_run)
@click.option("--config", "with_config", is_flag=True, help="Also the config exactly as submitted.")
@json_option
def info(name: str, benchmark: str | None, with_config: bool, as_json: bool) -> int:
    """Show where the files of a submission are, which jobs it had, how each ended and what its chain decided,
    budgets and resubmissions, and which logs there are.
    """
    from nemo_gym.cli.submissions import one
    from nemo_gym.job_paths import RunPaths
    from nemo_gym.orchestration.records.locations import chosen
    from nemo_gym.orchestration.status import info as benchmark_info
    from nemo_gym.orchestration.status.gather import Scope, gather
    from nemo_gym.orchestration.status.machines import SubmissionMachines

    record = one(name, benchmark)
    with SubmissionMachines() as machines:
        files = machines.of(record).files
        wanted = {entry.benchmark for entry in chosen(record, benchmark)}
        scope = Scope(every_job=True, benchmark=wanted.copy().pop() if len(wanted) == 1 else None)
        found = [
            benchmark_info.describe(known, files)
            for known in gather([record], machines, scope=scope).values()
            if known.benchmark in wanted
        ]
        path = RunPaths(Path(record.run_dir)).resolved_config
        config = files.read(path).decode("utf-8", "replace") if with_config else None
    if as_json:
        document = benchmark_info.to_json(record, found) | ({} if config is None else {"config": config})
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return EXIT_DONE
    click.echo(benchmark_info.text(record, found))
    if config is not None:
        click.echo(f"\n{path}:\n{config}", nl=False)
    return EXIT_DONE
