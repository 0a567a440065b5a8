"""What an operator says of a cluster: the configuration of a profile whose ``backend`` is ``slurm``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from nemo_helix_server.setting_paths import WrongValueError
from nemo_helix_server.settings import Interval, ProfileSettings, SettingsSection
from nemo_runs.durations import parse_duration
from nemo_runs.errors import DurationError
from nemo_slurm import scripts
from nemo_slurm.errors import UnusableValueError

_OURS = {
    "account": "account",
    "partition": "partition",
    "qos": "qos",
    "constraint": "constraint",
    "reservation": "reservation",
    "time": "time",
    "nodes": "resources.num_nodes of a step",
    "gpus-per-node": "resources.num_gpus of a step",
    "cpus-per-task": "cpus, and resources.requests.cpu of a step",
    "mem": "memory, and resources.requests.memory of a step",
    "job-name": "nothing: jobs are named after their step",
    "output": "nothing: output goes to the job's log",
    "chdir": "nothing: a start has a folder of its own",
    "export": "env",
    "requeue": "nothing: a start is made once, and goes on as a new one",
    "no-requeue": "nothing: it is given already",
    "signal": "nothing: trainers know when their time ends",
    "dependency": "nothing: the service queues starts in order",
}
"""Options that are not set by `SlurmSettings.options`, with what sets them."""


_MEMORY = re.compile(r"0|[1-9][0-9]*[MG]i")


class SlurmContainer(SettingsSection):
    """How steps run in containers."""

    runtime: Literal["pyxis", "apptainer"] = "pyxis"
    """What the cluster has: `srun --container-image` of Pyxis, or the program `apptainer`."""
    image: str | None = None
    """Of steps that name none."""
    mounts: tuple[str, ...] = ()
    """Further folders, `FROM:TO`; the storage root is always there under its own name."""


class SlurmSettings(ProfileSettings):
    """The configuration of a profile whose steps run as jobs of a Slurm cluster."""

    root: Path
    """A folder on storage that this cluster's nodes share; made where it is missing, for its owner alone."""
    host: str | None = None
    """Where Slurm's commands are, by its name in the ssh configuration; unset = this machine."""
    account: str | None = None
    """Slurm's account."""
    partition: str | None = None
    """One partition, or several separated by commas."""
    qos: str | None = None
    """Quality of service."""
    constraint: str | None = None
    """Features that nodes must have."""
    reservation: str | None = None
    """The name of a reservation."""
    time: str | None = None
    """The walltime of one allocation, as for `sbatch --time`, in quotes; unset = the partition's own."""
    cpus: Annotated[int, Field(ge=1)] | None = None
    """Processor cores on each node, of steps that ask for none; unset = what the cluster gives."""
    memory: str | None = None
    """Memory on each node, of steps that ask for none, such as `64Gi`, or `0` = all that a node has."""
    options: dict[str, str | int | bool] = Field(default_factory=dict)
    """Further options of sbatch by their long names, such as `exclusive: true`."""
    setup: tuple[str, ...] = ()
    """Lines of bash that every job runs before its command, such as `module load cuda`."""
    python: str = "python3"
    """An interpreter of Python 3.11 or newer on the cluster, after the setup lines and on the host alike."""
    engines: dict[str, str] = Field(default_factory=dict)
    """Interpreters of training engines on the cluster, by the engine's name."""
    device: Literal["cuda", "cpu"] = "cuda"
    """What training steps train on there."""
    max_allocations: Annotated[int, Field(ge=1, le=100_000)] = 100
    """So many jobs in a row may go on with one training step, each queued by the one before it."""
    gpu_option: Literal["gpus-per-node", "gres", "none"] = "gpus-per-node"
    """The option of sbatch that asks for GPUs; none where they come with the node."""
    memory_option: Literal["mem", "mem-per-cpu", "none"] = "mem"
    """The option of sbatch that asks for memory; none where a site takes no amount."""
    gpu_type: str | None = None
    """The type of GPU to ask for, at sites that want it named, such as `a100`."""
    container: SlurmContainer | None = None
    """Unset: commands run on the nodes as they are."""
    shares_user: bool = False
    """Where steps are kept to their own files, run them still: as one user, who sees all jobs' files."""
    poll_seconds: Interval = 5.0
    """How often the cluster is looked at: one call of the scheduler and one look at files, for all jobs."""
    graceful_shutdown_timeout_seconds: Annotated[float, Field(ge=0)] = 30.0
    """Between SIGTERM and SIGKILL, when a step is stopped."""

    @field_validator("root")
    @classmethod
    def _is_absolute(cls, value: Path) -> Path:
        if not value.is_absolute():
            raise ValueError(f"{value} must be an absolute path on the cluster's shared storage")
        if not scripts.is_path(str(value)):
            raise ValueError(
                f"{value} must have only ASCII letters, digits and ._-+=@,:~ between slashes, since Slurm "
                "takes no other path for the output of a job"
            )
        return value

    @field_validator("memory", mode="before")
    @classmethod
    def _is_an_amount(cls, value: object) -> object:
        if value is not None and not _MEMORY.fullmatch(str(value)):
            raise ValueError(f"{value!r} must be a whole number with Mi or Gi, such as 64Gi, or 0")
        return None if value is None else str(value)

    @field_validator("time", mode="before")
    @classmethod
    def _is_a_duration(cls, value: object) -> object:
        if value is not None and value != "UNLIMITED":
            try:
                parse_duration(value, where="time")
            except DurationError as error:
                raise ValueError(str(error).removeprefix("time: ")) from error
        return None if value is None else str(value)

    @model_validator(mode="after")
    def _options_are_free(self) -> SlurmSettings:
        for key in self.options:
            if key in _OURS:
                raise WrongValueError(("options", key), f"it is set by {_OURS[key]}")
        try:
            scripts.options({**self.directives(), **self.options}, where="options")
        except UnusableValueError as error:
            raise ValueError(str(error)) from error
        return self

    @model_validator(mode="after")
    def _memory_can_be_shared_out(self) -> SlurmSettings:
        if self.memory == "0" and self.memory_option == "mem-per-cpu":
            raise ValueError("memory: 0 means all of a node, which mem-per-cpu cannot ask for; leave it out")
        return self

    @property
    def partition_name(self) -> str | None:
        """See `ProfileSettings`."""
        return self.partition

    @property
    def is_shared(self) -> bool:
        """See `ProfileSettings`."""
        return self.shares_user

    def directives(self) -> dict[str, scripts.OptionValue]:
        """The options of sbatch that are the same for all steps of the profile."""
        return {
            "account": self.account,
            "partition": self.partition,
            "qos": self.qos,
            "constraint": self.constraint,
            "reservation": self.reservation,
            "time": self.time,
        }
