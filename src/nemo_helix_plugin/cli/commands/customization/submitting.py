"""`nemo customization <backend>`: a job out of a file with its spec."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple, Self

import click

from nemo_cli.completion import files
from nemo_helix_plugin import errors
from nemo_helix_plugin.body_problems import STAND_IN
from nemo_helix_plugin.cli import completing
from nemo_helix_plugin.cli.command_context import CommandContext, record_of
from nemo_helix_plugin.cli.commands.customization import specs, sweeping
from nemo_helix_plugin.cli.global_options import GlobalFlags, command_options, workspace_option
from nemo_helix_plugin.cli.lazy import NemoGroup
from nemo_helix_plugin.cli.output import documents
from nemo_helix_plugin.cli.output.code import Operation
from nemo_helix_plugin.customization import backends

Function = Callable[..., Any]
_HELP = """\
The job runs on the service: `nemo jobs` watches, pauses, resumes and reruns it.
Standard output is the job as it was made, as JSON; everything else is on standard error.

\b
Exit status: 0 submitted, or with --wait completed; 2 a wrong option or spec;
3 the service refused it; with --wait or --watch also 1 error, cancelled or out of time,
75 paused, 130 interrupted.
"""
_UPLOADS = {
    "environment": ("DIR", "A folder with the environment of GRPO."),
    "dataset": ("SRC", "A file or folder with data, or hf://owner/name."),
    "model": ("SRC", "A folder with a model, or hf://owner/name."),
}


def upload_options(kinds: Container[str] = _UPLOADS) -> Callable[[Function], Function]:
    """Add the options that send first what a spec names; ``kinds`` of it are what a backend takes."""

    def add(function: Function) -> Function:
        exist_ok = "Use a fileset that is there; its files stay as they are."
        function = click.option("--exist-ok", is_flag=True, help=exist_ok)(function)
        for what, (metavar, meaning) in _UPLOADS.items():
            if what in kinds:
                function = click.option(
                    f"--upload-{what}", metavar=metavar, shell_complete=files, help=meaning
                )(function)
        return function

    return add


_FOLLOWING: tuple[Callable[[Function], Function], ...] = (
    click.option(
        "--poll-interval",
        type=click.FloatRange(min=0.1),
        default=3.0,
        show_default=True,
        help="Seconds between two looks.",
    ),
    click.option(
        "--force", is_flag=True, help="With --dry-run: exit with 0 whatever would keep it from working."
    ),
    click.option("--dry-run", is_flag=True, help="Check everything and say what it takes; make no job."),
    click.option("--timeout", type=click.FloatRange(min=0), help="Seconds to wait; no limit by default."),
    click.option("--watch", is_flag=True, help="The same, showing its log too."),
    click.option("--wait", is_flag=True, help="Wait for its end, showing its status."),
    click.option("--sweep-name", metavar="NAME", help="Name of the sweep; one is made up by default."),
    click.option(
        "--sweep",
        "swept",
        metavar="FIELD=VALUE,VALUE",
        multiple=True,
        help="A job for each value of a field of the spec, and for each combination of several such.",
    ),
)
_AROUND: tuple[Callable[[Function], Function], ...] = (
    click.option("--hf-token-secret", metavar="NAME", help="The secret with an access token of the hub."),
    click.option(
        "--options-file", metavar="FILE", shell_complete=files, help="Options as a JSON or YAML object."
    ),
    click.option(
        "--profile",
        metavar="NAME",
        shell_complete=completing.profile_names,
        help="Execution profile of the training step.",
    ),
)


class Follow(NamedTuple):
    """What happens with a job besides making it."""

    wait: bool
    watch: bool
    dry_run: bool
    force: bool
    timeout: float | None
    poll_interval: float
    swept: tuple[str, ...]
    sweep_name: str | None

    @classmethod
    def taken(cls, given: dict[str, Any]) -> Self:
        """Of a command's options, which are taken out; `click.UsageError` where they do not go together."""
        found = cls(**{name: given.pop(name) for name in cls._fields})
        if found.wait and found.watch:
            raise click.UsageError("Give --wait or --watch, not both.")
        if found.swept and (found.wait or found.watch):
            raise click.UsageError(
                "--wait and --watch follow one job; `nemo sweeps get NAME` shows those of a sweep."
            )
        if found.sweep_name and not found.swept:
            raise click.UsageError("--sweep-name goes with --sweep FIELD=VALUE,VALUE.")
        if found.dry_run and (found.wait or found.watch):
            raise click.UsageError("--dry-run makes no job to wait for; leave --wait and --watch out.")
        if found.dry_run and found.swept:
            raise click.UsageError("--dry-run tries one job; leave --sweep out.")
        if found.force and not found.dry_run:
            raise click.UsageError("--force is for --dry-run.")
        return found


def submit_options(kinds: Container[str], option: tuple[str, ...]) -> Callable[[Function], Function]:
    """Add all options but those of the spec; ``option`` has the names of that for ``backend.key=value``."""
    word: Callable[[Function], Function] = click.option(
        *option,
        "option_words",
        metavar="BACKEND.KEY=VALUE",
        multiple=True,
        help="One option, such as subprocess.memory=16Gi.",
    )

    def add(function: Function) -> Function:
        more: list[Callable[[Function], Function]] = [upload_options(kinds), word]
        for one in (*_FOLLOWING, *more, *_AROUND):
            function = one(function)
        return function

    return add


@functools.cache
def backend_group(backend: str) -> click.Group:
    """The command of one backend, with `explain` and `preview` below it; raises `BackendLoadError`."""
    summary, references = backends.find(backend).summary, backends.find(backend).references

    @click.group(backend, cls=NemoGroup, invoke_without_command=True, short_help=summary)
    @click.option(
        "--job-json",
        metavar="FILE",
        shell_complete=files,
        help="The backend's input spec, a JSON or YAML object; `-` is standard input. Required.",
    )
    @submit_options(references, ("-o", "--option"))
    @workspace_option
    @command_options
    def group(flags: GlobalFlags, **given: Any) -> int | None:
        ctx = click.get_current_context()
        if ctx.invoked_subcommand is not None:
            ctx.obj = flags
            return None
        if given["job_json"] is None:
            click.echo(ctx.get_help(), err=True)
            raise click.UsageError("Give the job's spec: --job-json FILE.", ctx)
        return submit(CommandContext(flags), backend, **given)

    group.help = f"{summary}\n\n{_HELP}"

    _add_explain(group, backend)
    _add_preview(group, backend)
    return group


def _add_explain(group: click.Group, backend: str) -> None:
    @group.command("explain", short_help="JSON schemas, and what is not supported.")
    @click.option(
        "--profile",
        metavar="NAME",
        shell_complete=completing.profile_names,
        help="Say whether this execution profile is there.",
    )
    @workspace_option
    @command_options
    def explain(flags: GlobalFlags, profile: str | None) -> int:
        """Print the JSON schemas of input, output and options, and the state of the engine."""
        from nemo_helix_plugin.cli.commands.customization.explaining import run

        return run(CommandContext(flags), backend, profile)


def _add_preview(group: click.Group, backend: str) -> None:
    @group.command("preview", short_help="What a job would learn of its rows, without a job.")
    @click.option(
        "-n", "--rows", type=click.IntRange(1, 1000), default=3, show_default=True, help="Rows to show."
    )
    @upload_options(backends.find(backend).references)
    @click.option(
        "--job-json",
        metavar="FILE",
        shell_complete=files,
        required=True,
        help="The spec; `-` is standard input.",
    )
    @workspace_option
    @command_options
    def preview(flags: GlobalFlags, job_json: str, rows: int, exist_ok: bool, **sources: str | None) -> int:
        """Print the first rows of the training data as the job would see them, with what is learned marked.

        Marks are: learned; read, for what is only read; chosen and rejected, for the answers of a pair; and
        cut, for what max_seq_length takes away. Rows that are cut or left out are counted over all of the
        data. The service writes the rows with the model's own tokenizer and chat template, and makes no job.
        """
        from nemo_helix_plugin.cli.commands.customization.previewing import run

        call, uploads = CommandContext(flags), given_uploads(sources)
        spec = checked_spec(backend, job_json, uploads)
        spec = specs.with_references(backend, spec, send_all(call, uploads, exist_ok=exist_ok))
        return run(call, backend, spec, rows)


def checked_spec(backend: str, job_json: str, uploads: Mapping[str, str]) -> dict[str, Any]:
    """The spec in a file, checked as far as it can be here, before anything is sent."""
    spec, text = specs.read_object(job_json, "--job-json")
    specs.check_uploads(backend, spec, uploads)
    specs.checked(backend, specs.with_references(backend, spec, dict.fromkeys(uploads, STAND_IN)), text)
    return spec


def submit(
    call: CommandContext,
    backend: str,
    *,
    job_json: str,
    profile: str | None,
    option_words: tuple[str, ...],
    options_file: str | None,
    hf_token_secret: str | None,
    exist_ok: bool,
    **given: Any,
) -> int:
    """Check everything that can be checked here, send files, submit, and wait where that is wanted."""
    follow = Follow.taken(given)
    uploads = given_uploads(given)
    spec = checked_spec(backend, job_json, uploads)
    options = specs.options(option_words, options_file, hf_token_secret)
    name = sweeping.sweep_name(follow.sweep_name) if follow.swept else ""
    if follow.swept:
        sweeping.planned(
            backend,
            specs.with_references(backend, spec, dict.fromkeys(uploads, STAND_IN)),
            follow.swept,
            name,
        )
    spec = specs.with_references(backend, spec, send_all(call, uploads, exist_ok=exist_ok))
    asked = {"spec": spec, "workspace": call.workspace, "profile": profile, "options": options}
    if follow.swept:
        return sweeping.submit(call, backend, sweeping.planned(backend, spec, follow.swept, name), asked)
    return make(call, backend, asked, follow)


def make(call: CommandContext, backend: str, asked: Mapping[str, Any], follow: Follow) -> int:
    """Make a job, or try it, and wait for its end where that is wanted."""
    if follow.dry_run:
        from nemo_helix_plugin.cli.commands.customization import dry_running

        return dry_running.run(call, backend, asked, force=follow.force)
    operation = Operation(f"customization.{backend}.jobs.create", dict(asked))
    if call.prints_code(operation):
        return errors.EXIT_DONE
    job = record_of(call.ask(operation))
    click.echo(documents.json_text(job))
    if follow.wait or follow.watch:
        return _follow(call, job["name"], follow)
    if call.flags.output_format != "json":
        _guide(call, job)
    return errors.EXIT_DONE


def given_uploads(sources: Mapping[str, str | None]) -> dict[str, str]:
    """What is to be sent, by kind."""
    found = {what: sources.get(f"upload_{what}") for what in _UPLOADS}
    return {what: source for what, source in found.items() if source}


def send_all(call: CommandContext, uploads: Mapping[str, str], *, exist_ok: bool) -> dict[str, str]:
    """Send everything; the references to it, by kind."""
    from nemo_helix_plugin.cli.uploading import upload

    return {what: upload(call, what, source, exist_ok=exist_ok) for what, source in uploads.items()}


def _follow(call: CommandContext, name: str, follow: Follow) -> int:
    from nemo_helix_plugin.cli.commands.jobs.watch import Watch, run

    wanted = Watch(
        name,
        timeout=follow.timeout,
        poll_interval=follow.poll_interval,
        include_logs=follow.watch,
        report_to_stderr=True,
        shows_job=False,
    )
    call.report(f"created job '{name}'; waiting for its end.")
    return run(call, wanted)


def _guide(call: CommandContext, job: Mapping[str, Any]) -> None:
    name, place = job["name"], f"--workspace {call.workspace}"
    call.report(f"created job '{name}'; `nemo jobs watch {name} {place}` follows it,")
    call.report(f"`nemo jobs get-status {name} {place}` shows its steps, and")
    call.report(f"`nemo jobs list {place} --filter.source customization` all such jobs.")


def __getattr__(name: str) -> click.Group:
    """The command of the backend of that name, where the group of commands looks it up."""
    if name not in backends.names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return backend_group(name)
