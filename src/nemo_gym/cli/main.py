"""The program `gym`: groups, and the one place where an error becomes a sentence and an exit status."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import NoReturn

import click

from nemo_gym import __version__, errors
from nemo_gym.cli.lazy import LazyGroup
from nemo_gym.cli.options import let_stdout_go
from nemo_runs import homes, streams, suggestions

_EVAL = {
    "run": ("nemo_gym.cli.eval.run:run", "Collect rollouts of one benchmark on this machine."),
    "prepare": ("nemo_gym.cli.eval.prepare:prepare", "Make or download a benchmark's data."),
    "submit": ("nemo_gym.cli.eval.submit:submit", "Turn one YAML file into jobs, one per benchmark."),
    "check": ("nemo_gym.cli.eval.check:check", "Find out, without a job, what would keep one from running."),
    "reverify": ("nemo_gym.cli.eval.reverify:reverify", "Grade stored answers again, without new answers."),
    "compare": ("nemo_gym.cli.eval.compare:compare", "Paired differences between two runs."),
}
_JOB = {
    "list": ("nemo_gym.cli.job.list:list_jobs", "Your submissions from this machine, newest first."),
    "status": ("nemo_gym.cli.job.status:status", "What every benchmark is doing, and why."),
    "watch": ("nemo_gym.cli.job.watch:watch", "Follow the status until all have ended."),
    "info": ("nemo_gym.cli.job.info:info", "Directories, jobs, decisions and logs of a submission."),
    "logs": ("nemo_gym.cli.job.logs:logs", "A log over all jobs of a benchmark; -f follows it."),
    "cancel": ("nemo_gym.cli.job.cancel:cancel", "End a benchmark, or all of a submission, for good."),
    "resubmit": ("nemo_gym.cli.job.resubmit:resubmit", "Queue a benchmark again in place."),
    "results": ("nemo_gym.cli.job.results:results", "Scores of submissions, one row a benchmark."),
    "adopt": ("nemo_gym.cli.job.adopt:adopt", "Know a run directory again."),
    "rebuild": ("nemo_gym.cli.job.rebuild:rebuild", "Make the index again from run directories."),
    "fetch": ("nemo_gym.cli.job.fetch:fetch", "Copy results and records to this machine."),
    "bill": ("nemo_gym.cli.job.bill:bill", "What allocated time went into."),
    "verify": ("nemo_gym.cli.job.verify:verify", "Certify that results are whole."),
}
_LIST = {
    "benchmarks": ("nemo_gym.cli.list_benchmarks:list_benchmarks", "Benchmarks that can be run by name."),
}
_STEP = {
    "health": ("nemo_gym.cli.step:health", "Wait until a service answers with the right model."),
    "port": ("nemo_gym.cli.step:port", "Choose a free port, or check that a fixed one is free."),
}

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(
    cls=LazyGroup,
    lazy={"serve": ("nemo_gym.cli.serve:serve", "Serve a small model on this machine, OpenAI-compatible.")},
    context_settings=_CONTEXT,
)
@click.version_option(__version__, prog_name="gym")
@click.option("-v", "--verbose", is_flag=True, help="Say more on stderr.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else.")
@click.pass_context
def gym(ctx: click.Context, verbose: bool, as_json: bool) -> None:
    """Evaluate language models in runs that outlive one allocation."""
    ctx.obj = {"verbose": verbose, "json": as_json}


gym.add_command(
    LazyGroup("eval", lazy=_EVAL, help="Prepare, run, submit, grade again and compare evaluations.")
)
gym.add_command(LazyGroup("job", lazy=_JOB, help="Operate submissions: status, logs, cancel, results."))
gym.add_command(LazyGroup("list", lazy=_LIST, help="List what is there."))
gym.add_command(LazyGroup("step", lazy=_STEP, hidden=True, help="Steps that job scripts run."))


def main() -> NoReturn:
    """Run `gym` and leave with its documented exit status; no traceback reaches the user."""
    streams.prepare()
    status = _status(sys.argv[1:])
    streams.allow_lost_stdout()  # the last flush
    gc.freeze()  # or the end of the interpreter looks for cycles in all that is there
    sys.exit(status)


def _status(args: list[str]) -> int:
    try:
        status = gym.main(args=args, prog_name="gym", standalone_mode=False)
        if lost := streams.finish():
            _report(f"standard output could not be written ({lost}); what was asked for is done.", 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else str(error), err=True)
        return errors.EXIT_USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "gym"
        message = suggestions.reworded(error.format_message())
        end = "" if message.endswith((".", "?")) else "."
        return _report(f"{message}{end} See '{where} --help'.", errors.EXIT_USAGE)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return _report("interrupted.", errors.EXIT_INTERRUPTED)
    except BrokenPipeError:
        let_stdout_go()
        return errors.EXIT_ERROR
    except Exception as error:  # noqa: BLE001 - the outermost edge: a person gets a sentence, never a traceback
        return _report_error(error)
    return status if isinstance(status, int) else errors.EXIT_DONE


def _report_error(error: Exception) -> int:
    if os.environ.get("NEMO_GYM_DEBUG"):
        import traceback

        traceback.print_exception(error)
    if os.environ.get("NEMO_GYM_LINK"):
        from nemo_gym.rollouts.output import disk_wait

        if disk_wait.is_full(error):
            disk_wait.publish(os.environ, "told")
    from nemo_runs.errors import RunsError
    from nemo_slurm.errors import SlurmError

    if isinstance(error, errors.GymError):
        return _report(str(error), error.exit_status)
    if isinstance(error, RunsError | SlurmError):
        return _report(str(error), errors.EXIT_ERROR)
    if isinstance(error, OSError) and (sentence := homes.lost_folder(error)):
        return _report(sentence, errors.EXIT_ERROR)
    if isinstance(error, OSError) and error.strerror:
        name = error.filename2 or error.filename  # of two the second is where something was to go
        where = f" ({name})" if name else ""
        return _report(f"{error.strerror}{where}.", errors.EXIT_ERROR)
    if isinstance(error, UnicodeEncodeError):
        return _report(streams.unwritable(error), errors.EXIT_ERROR)
    name = type(error).__name__
    return _report(f"unexpected {name}: {error}. Set NEMO_GYM_DEBUG=1 to see where.", errors.EXIT_ERROR)


def _report(message: str, status: int) -> int:
    with contextlib.suppress(BrokenPipeError):
        click.echo(f"gym: {message}", err=True)
    return status
