"""`gym job show`: recorded rollouts, to be read in the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from nemo_gym.cli import completing
from nemo_gym.cli.options import json_option

if TYPE_CHECKING:
    from nemo_gym.orchestration.records.run_outputs import RunOutputs
    from nemo_gym.rollouts.reading.located import RolloutFilter
    from nemo_gym.rollouts.reading.recorded import RecordedRollout


@click.command(short_help="Read rollouts: prompt, answer, grade and reason.")
@click.argument("name", metavar="ID", shell_complete=completing.run_ids)
@click.argument("benchmark", required=False, shell_complete=completing.benchmarks_or_models_of_run)
@click.option("--failed", is_flag=True, help="Rollouts without a result, after a failed attempt.")
@click.option("--wrong", is_flag=True, help="Rollouts with a reward below 1.")
@click.option("--truncated", is_flag=True, help="Rollouts whose answer stopped at the token limit.")
@click.option("--slow", is_flag=True, help="The slowest rollouts, slowest first: 10, or as many as --limit.")
@click.option("--task", type=click.IntRange(min=0), metavar="N", help="All repeats of task N, from 0.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N rollouts a benchmark.")
@click.option("--thoughts", is_flag=True, help="Show thoughts whole, not their first line alone.")
@json_option
def show(
    name: str,
    benchmark: str | None,
    failed: bool,
    wrong: bool,
    truncated: bool,
    slow: bool,
    task: int | None,
    limit: int | None,
    thoughts: bool,
    as_json: bool,
) -> int:
    """Show recorded rollouts: the prompt, the thoughts (folded), the answer, what was expected, the grade and
    its reason, and failed attempts.

    ID is a full id, the unique beginning of one, `latest`, a run directory (a fetched one too), or a folder
    or file that `gym eval run` wrote. The run may still be at work. `--failed`, `--wrong` and `--truncated`
    together show what is any of them; without one all rollouts are shown. In a terminal the text goes through
    the pager ($PAGER). Of a run on another machine, results are fetched into a temporary folder that is
    removed again. Where questions and answers must stay unpublished (GPQA), that is said.
    """
    from nemo_gym.cli.exporting import unpublished
    from nemo_gym.cli.submissions import report
    from nemo_gym.orchestration.records import remote_copy
    from nemo_gym.orchestration.records.run_outputs import run_outputs
    from nemo_gym.rollouts.export.writing import exported
    from nemo_gym.rollouts.reading.located import RolloutFilter

    wanted = RolloutFilter(failed=failed, wrong=wrong, truncated=truncated, slow=slow, task=task, limit=limit)
    bring = remote_copy.for_certificate(benchmark)
    with remote_copy.RemoteCopy(bring, report=report, why="results are fetched") as near:
        run = run_outputs(name, benchmark, near)
        kept = unpublished(exported(run.name, run.outputs, {}, run.models))
        if as_json:
            _print_json(run, wanted, kept)
        else:
            for one, reason in kept.items():
                report(f"rows of {one} must stay unpublished; do not pass them on: {reason.rstrip('.')}.")
            _print_text(run, wanted, thoughts=thoughts)
    return 0


def _print_json(run: RunOutputs, wanted: RolloutFilter, kept: Mapping[str, str]) -> None:
    rollouts = [{"benchmark": name, **rollout.to_json()} for name, rollout in _rollouts(run, wanted)]
    document = {"schema_version": 1, "run": run.name, "unpublished": kept, "rollouts": rollouts}
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def _print_text(run: RunOutputs, wanted: RolloutFilter, *, thoughts: bool) -> None:
    from nemo_gym.cli.submissions import report, terminal_width
    from nemo_gym.rollouts.reading.rollout_text import rollout_text

    width = terminal_width()
    texts = (
        rollout_text(rollout, benchmark=name, thoughts=thoughts, width=width)
        for name, rollout in _rollouts(run, wanted)
    )
    first = next(texts, None)
    if first is None:
        report("no rollout matches.")
        return
    pieces = _separated(first, texts)
    if sys.stdout.isatty():
        click.echo_via_pager(pieces)
    else:
        for piece in pieces:
            click.echo(piece, nl=False)


def _separated(first: str, following: Iterator[str]) -> Iterator[str]:
    yield f"{first}\n"
    for text in following:
        yield f"\n{text}\n"


def _rollouts(run: RunOutputs, wanted: RolloutFilter) -> Iterator[tuple[str, RecordedRollout]]:
    from nemo_gym.rollouts.reading.located import locate, selected
    from nemo_gym.rollouts.reading.recorded import RolloutReader

    for name, paths in run.outputs.items():
        located = locate(paths)
        for rollout in RolloutReader(located).read(selected(located, wanted)):
            yield name, rollout
