"""The program `gym`: its groups, and the errors that it explains."""

from __future__ import annotations

import os

import click

from nemo_cli.lazy_group import Lazy
from nemo_cli.program import Program
from nemo_gym import __version__, errors
from nemo_gym.cli.error_pages import explaining
from nemo_gym.cli.lazy import GymGroup

_EVAL = {
    "run": Lazy("nemo_gym.cli.eval.run:run", "Collect rollouts of one benchmark on this machine."),
    "init": Lazy("nemo_gym.cli.eval.init:init", "Write a benchmark for your own questions."),
    "preview": Lazy("nemo_gym.cli.eval.preview:preview", "Print the first requests as they would be sent."),
    "prepare": Lazy("nemo_gym.cli.eval.prepare:prepare", "Make or download a benchmark's data."),
    "submit": Lazy("nemo_gym.cli.eval.submit:submit", "Turn one YAML file into jobs, one per benchmark."),
    "check": Lazy(
        "nemo_gym.cli.eval.check:check", "Find out, without a job, what would keep one from running."
    ),
    "reverify": Lazy(
        "nemo_gym.cli.eval.reverify:reverify", "Grade stored answers again, without new answers."
    ),
    "compare": Lazy("nemo_gym.cli.eval.compare:compare", "Paired differences between two runs."),
}
_JOB = {
    "list": Lazy("nemo_gym.cli.job.list:list_jobs", "Your submissions from this machine, newest first."),
    "status": Lazy("nemo_gym.cli.job.status:status", "What every benchmark is doing, and why."),
    "watch": Lazy("nemo_gym.cli.job.watch:watch", "Follow the status until all have ended."),
    "info": Lazy("nemo_gym.cli.job.info:info", "Directories, jobs, decisions and logs of a submission."),
    "logs": Lazy("nemo_gym.cli.job.logs:logs", "A log over all jobs of a benchmark; -f follows it."),
    "cancel": Lazy("nemo_gym.cli.job.cancel:cancel", "End a benchmark, or all of a submission, for good."),
    "resubmit": Lazy("nemo_gym.cli.job.resubmit:resubmit", "Queue a benchmark again in place."),
    "results": Lazy("nemo_gym.cli.job.results:results", "Scores of submissions, one row per benchmark."),
    "show": Lazy("nemo_gym.cli.job.show:show", "Read rollouts: prompt, answer, grade and reason."),
    "export": Lazy("nemo_gym.cli.job.export:export", "Write results in another program's format."),
    "share": Lazy("nemo_gym.cli.job.share:share", "Pack a run with a report, as one file to send."),
    "tag": Lazy("nemo_gym.cli.job.tag:tag", "Give a run tags and a note."),
    "adopt": Lazy("nemo_gym.cli.job.adopt:adopt", "Know a run directory again."),
    "rebuild": Lazy("nemo_gym.cli.job.rebuild:rebuild", "Make the index again from run directories."),
    "fetch": Lazy("nemo_gym.cli.job.fetch:fetch", "Copy results and records to this machine."),
    "rm": Lazy("nemo_gym.cli.job.rm:rm", "Delete run directories that have ended."),
    "prune": Lazy("nemo_gym.cli.job.prune:prune", "Delete old run directories; shows them first."),
    "bill": Lazy("nemo_gym.cli.job.bill:bill", "What allocated time went into."),
    "verify": Lazy("nemo_gym.cli.job.verify:verify", "Certify that results are whole."),
}
_LIST = {
    "benchmarks": Lazy("nemo_gym.cli.list_benchmarks:list_benchmarks", "Benchmarks that can be run by name."),
}
_STEP = {
    "health": Lazy("nemo_gym.cli.step:health", "Wait until a service answers with the right model."),
    "notify": Lazy("nemo_gym.cli.step:notify", "Send the notice of the end of a benchmark."),
    "port": Lazy("nemo_gym.cli.step:port", "Choose a free port, or check that a fixed one is free."),
}

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(
    cls=GymGroup,
    lazy={
        "serve": Lazy("nemo_gym.cli.serve:serve", "Serve a small model on this machine, OpenAI-compatible."),
        "view": Lazy("nemo_gym.cli.view:view", "Show evaluations in a browser, read-only."),
        "docs": Lazy("nemo_cli.docs_pages:docs", "List the pages of the documentation, or show one."),
        "completion": Lazy(
            "nemo_gym.cli.completion:completion", "Complete commands and names in bash, zsh or fish."
        ),
    },
    context_settings=_CONTEXT,
)
@click.version_option(__version__, "-V", "--version", prog_name="gym")
@click.option("-v", "--verbose", is_flag=True, help="Say more on stderr.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout and nothing else.")
@click.pass_context
def gym(ctx: click.Context, verbose: bool, as_json: bool) -> None:
    """Evaluate language models in runs that outlive one allocation."""
    ctx.obj = {"verbose": verbose, "json": as_json}


gym.add_command(
    GymGroup("eval", lazy=_EVAL, help="Prepare, run, submit, grade again and compare evaluations.")
)
gym.add_command(GymGroup("job", lazy=_JOB, help="Operate submissions: status, logs, cancel, results."))
gym.add_command(GymGroup("list", lazy=_LIST, help="List what is there."))
gym.add_command(GymGroup("step", lazy=_STEP, hidden=True, help="Steps that job scripts run."))


def _explain(error: Exception) -> tuple[int, list[str]] | None:
    if os.environ.get("NEMO_GYM_LINK"):
        from nemo_gym.rollouts.output import disk_wait

        if disk_wait.is_full(error):
            disk_wait.publish(os.environ, "told")
    from nemo_slurm.errors import SlurmError

    if isinstance(error, errors.GymError):
        return error.exit_status, [str(error)]
    return (errors.EXIT_ERROR, [str(error)]) if isinstance(error, SlurmError) else None


PROGRAM = Program("gym", gym, "NEMO_GYM_DEBUG", _explain, explaining)
"""It, as a process."""
