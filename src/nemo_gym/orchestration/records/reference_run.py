"""The run that ``until.better_than`` names: a path as it is, or the id of a submission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nemo_gym.errors import ConfigError, GymError
from nemo_gym.rollouts.output.outputs_at import no_benchmark

if TYPE_CHECKING:
    from pathlib import Path

    from nemo_gym.job_paths import RolloutPaths
    from nemo_gym.orchestration.jobs import SubmissionRecord
    from nemo_gym.orchestration.records.index import Reporter
    from nemo_slurm.hosts import Host


def reference_rows(name: str, benchmark: str, *, where: str) -> str:
    """The rows of a benchmark's output in that run; of the only benchmark whatever it is called.

    Raises `ConfigError` for a run that is not there, has no such benchmark, or is on another machine.
    """
    from nemo_gym.orchestration.records.remote_copy import RemoteCopy
    from nemo_gym.orchestration.records.run_outputs import run_outputs

    try:
        with RemoteCopy(_refuse, report=lambda _text: None, why="") as near:
            outputs = run_outputs(name, None, near).outputs
    except GymError as error:
        raise ConfigError(f"{where}: {error}") from error
    return str(_chosen(outputs, name, benchmark, where).output)


def _chosen(outputs: Mapping[str, RolloutPaths], name: str, benchmark: str, where: str) -> RolloutPaths:
    if benchmark in outputs:
        return outputs[benchmark]
    if len(outputs) > 1:
        raise ConfigError(f"{where}: {no_benchmark(name, benchmark, list(outputs))}.")
    return next(iter(outputs.values()))


def _refuse(record: SubmissionRecord, host: Host, folder: Path, *, report: Reporter) -> None:
    del folder, report
    name = record.gym_job_id
    raise GymError(
        f"{name} is on {host.label}: `gym job fetch {name}` copies it here; then name that folder."
    )
