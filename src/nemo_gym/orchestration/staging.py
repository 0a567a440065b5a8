"""Writing a run directory: everything a job needs, before it is queued. Nothing that exists is touched."""

from __future__ import annotations

import contextlib
import pkgutil
import shutil
from collections.abc import Iterator
from pathlib import Path

import nemo_gym
from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration import otel, resolve, script
from nemo_gym.orchestration.plan import JobPlan, Submission
from nemo_runs import files
from nemo_slurm import calls

_FOLDER = 0o755
_SCRIPT = 0o600
_READABLE = 0o644


def stage(submission: Submission, *, into: Path | None = None) -> None:
    """Write the run directory of a submission with one folder a benchmark.

    With ``into`` it is written there, for a machine on which it will have its own name. Folders are 0755 and
    files 0644, ``job.sh`` alone is 0600. Raises `FileExistsError` when the run directory is there already (it
    is left as it is), and `GymError` when something cannot be written.
    """
    scripts = [script.render_job(plan, redacted=False) for plan in submission.jobs]
    run_dir = into or submission.run_dir
    with _named(run_dir):
        run_dir.parent.mkdir(parents=True, exist_ok=True)
    with _named(run_dir, taken=FileExistsError):
        _make_folder(run_dir)
    with _named(run_dir):
        for plan, text in zip(submission.jobs, scripts, strict=True):
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
    links = paths.job_dir / "links"
    for folder in (paths.job_dir, paths.logs, paths.artifacts, paths.config, paths.shell, links):
        _make_folder(folder)
    for name, content in shell_files(plan):
        files.create_file(paths.shell / name, content, mode=_READABLE)
    for source, name in _config_copies(plan.config_files):
        shutil.copyfile(source, paths.config / name)
        (paths.config / name).chmod(_READABLE)
    for source, target in plan.inputs.items():
        copy = paths.job_dir / target.relative_to(plan.job_dir)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, copy)
        copy.chmod(_READABLE)
    if plan.run is not None:
        files.create_file(paths.run_config, resolve.to_yaml(plan.run).encode(), mode=_READABLE)
    if plan.otel is not None:
        _make_folder(paths.otel)
        config = otel.collector_text(plan.otel.config)
        files.create_file(paths.otel / "collector.yaml", config, mode=_READABLE)
    files.create_file(paths.script, text.encode("utf-8", "surrogateescape"), mode=_SCRIPT)
    files.sync_folder(paths.job_dir)


def shell_files(plan: JobPlan) -> Iterator[tuple[str, bytes]]:
    """The static files beside one job's script."""
    for part in script.shell_parts(plan):
        source = _shell_file(part)
        yield source.name, source.read_bytes()
    yield "states.tsv", pkgutil.get_data("nemo_slurm", "states.tsv") or b""


def _shell_file(part: str) -> Path:
    if part == "clean_environment":
        return Path(calls.__file__).with_name(f"{part}.sh")
    return Path(nemo_gym.__file__).parent / "shell" / f"{part}.sh"


def _make_folder(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(_FOLDER)


def _config_copies(sources: list[Path]) -> Iterator[tuple[Path, str]]:
    """Each file with the name of its copy: numbered, since files of different folders share names."""
    for number, source in enumerate(sources, start=1):
        yield source, f"{number:02}-{source.name}"
