"""Writing a run directory: everything a job needs, before it is queued. Nothing that exists is touched."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.config import resolve
from nemo_gym.orchestration.plan import job_script, telemetry
from nemo_gym.orchestration.plan.sealed_files import folder_name, sealed_files
from nemo_gym.orchestration.plan.values import JobPlan, Submission
from nemo_runs.durable import files

_FOLDER = 0o755
_SCRIPT = 0o600
_READABLE = 0o644
_FINISHED = 0o444


def stage(submission: Submission, *, into: Path | None = None) -> None:
    """Write the run directory of a submission with one folder per benchmark.

    With ``into`` it is written there, for a machine on which it will have its own name. Folders are 0755,
    files 0644, those that are sealed 0444, and ``job.sh`` is 0600. Raises `FileExistsError` when the run
    directory is there already (it is left as it is), and `GymError` when something cannot be written.
    """
    scripts = [job_script.render_job(plan, redacted=False) for plan in submission.folders]
    run_dir = into or submission.run_dir
    with _named(run_dir):
        run_dir.parent.mkdir(parents=True, exist_ok=True)
    with _named(run_dir, taken=FileExistsError):
        _make_folder(run_dir)
    with _named(run_dir):
        for plan, text in zip(submission.folders, scripts, strict=True):
            _stage_job(plan, JobPaths(run_dir / plan.job_dir.name), text)
        files.sync_folder(run_dir)


@contextlib.contextmanager
def _named(run_dir: Path, *, taken: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """Turn what the system refuses into a sentence; errors of the type ``taken`` are left as they are."""
    try:
        yield
    except taken:
        raise
    except OSError as error:
        where = error.filename or run_dir
        raise GymError(f"{where} cannot be written: {error.strerror}; check job.output_path") from error


def _stage_job(plan: JobPlan, paths: JobPaths, text: str) -> None:
    links = paths.links
    sealed = sealed_files(plan)
    home = paths.sealed / folder_name(sealed)
    for folder in (paths.job_dir, paths.logs, paths.artifacts, paths.config, paths.sealed, home, links):
        _make_folder(folder)
    for name, content in sealed.items():
        files.create_file(home / name, content, mode=_FINISHED)
    for source, name in _config_copies(plan.config_files):
        shutil.copyfile(source, paths.config / name)
        (paths.config / name).chmod(_READABLE)
    for source, target in plan.inputs.items():
        copy = paths.job_dir / target.relative_to(plan.job_dir)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
        copy.chmod(_READABLE)
    if plan.run is not None:
        files.create_file(paths.run_config, resolve.to_yaml(plan.run).encode(), mode=_READABLE)
    if plan.otel is not None:
        _make_folder(paths.otel)
        config = telemetry.collector_text(plan.otel.config)
        files.create_file(paths.collector_config, config, mode=_READABLE)
    files.create_file(paths.script, text.encode("utf-8", "surrogateescape"), mode=_SCRIPT)
    files.sync_folder(paths.job_dir)


def _make_folder(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(_FOLDER)


def _config_copies(sources: list[Path]) -> Iterator[tuple[Path, str]]:
    """Each file with the name of its copy: numbered, since files of different folders share names."""
    for number, source in enumerate(sources, start=1):
        yield source, f"{number:02}-{source.name}"
