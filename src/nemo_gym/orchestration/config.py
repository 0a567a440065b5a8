"""The submit config as a schema: every key, its type and its default; no key is ignored.

The models only say what one value may be. Rules between values are in `nemo_gym.orchestration.rules`, and
nothing here changes a value: a dumped config, loaded again, is the same config. ``env`` values stay text as
written (``host:VAR``), so a dump never holds a secret that was referred to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from nemo_runs.durations import parse_duration
from nemo_runs.errors import RunsError
from nemo_runs.secret_refs import VARIABLE, parse_reference


class Section(BaseModel):
    """A mapping of the config: unknown keys are refused, values are taken as they are."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


def _checked_env(env: dict[str, str]) -> dict[str, str]:
    for key, value in env.items():
        if not re.fullmatch(VARIABLE, key):
            message = f"'{key}' is no name of a variable: letters, digits and _, not beginning with a digit"
            raise ValueError(message)
        try:
            parse_reference(value, where=key)
        except RunsError as error:
            raise ValueError(str(error)) from error
    return env


def _checked_duration(value: str | int | None) -> str | int | None:
    if value is not None:
        try:
            parse_duration(value, where="the duration")
        except RunsError as error:
            raise ValueError(str(error)) from error
    return value


def _checked_mounts(mounts: list[str]) -> list[str]:
    for mount in mounts:
        source, *rest = mount.split(":")
        if len(rest) > 2 or not all(PurePosixPath(path).is_absolute() for path in (source, *rest[:1])):
            message = f"'{mount}' is no mount: src, src:dst or src:dst:flags, with absolute paths"
            raise ValueError(message)
    return mounts


_LONGEST_NAME = 128


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
        message = f"'{name}' is no name here: letters, digits, '.', '_', '-', and neither '.' nor '-' first"
        raise ValueError(message)
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"is longer than {_LONGEST_NAME} letters; it becomes part of file names")
    return name


Env = Annotated[dict[str, str], AfterValidator(_checked_env)]
"""Variable -> ``lit:TEXT``, ``host:VAR``, ``runtime:VAR`` or a literal."""
Duration = Annotated[str | int | None, AfterValidator(_checked_duration)]
"""``MM``, ``MM:SS``, ``HH:MM:SS``, ``D-HH``, ``D-HH:MM``, ``D-HH:MM:SS``; a whole number is minutes."""
Mounts = Annotated[list[str], AfterValidator(_checked_mounts)]
Name = Annotated[str, AfterValidator(_checked_name)]
"""Becomes a file's or a folder's name."""
Port = Annotated[int, Field(ge=1, le=65535)]
Count = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]


class HealthCheck(Section):
    """When a service counts as ready; its own process must listen and name the right model all the same."""

    path: str | None = Field(default=None, pattern=r"^/")
    """``/health`` for vllm, ``/v1/models`` for a command, unless given."""
    port: Port | None = None
    """The service's own port unless given."""
    timeout_seconds: Count = 600


class Service(Section):
    """What every type of service takes."""

    type: str
    container: str | None = None
    placement: str | None = None
    """Name of the compute entry; the only one unless given."""
    node_pool: str | None = None
    port: Port | None = None
    """``None``: a free port is chosen when the job runs."""
    health_check: HealthCheck | None = None
    env: Env = {}
    mounts: Mounts = []
    pre_command: str = ""
    """Shell statements run in the same shell before the service."""


class VllmService(Service):
    """One ``vllm serve`` on one machine."""

    type: Literal["vllm"]
    model: Text
    served_model_name: str | None = Field(default=None, min_length=1)
    tensor_parallel_size: Count = 1
    pipeline_parallel_size: Count = 1
    number_of_instances: Count = 1
    trust_remote_code: bool = False
    extra_args: str = ""
    """Appended to the command, split as a shell would split it."""

    @property
    def gpus(self) -> int:
        """How many GPUs it fills: tensor parallel x pipeline parallel x instances."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.number_of_instances


class CommandService(Service):
    """Any command that serves an OpenAI-compatible API."""

    type: Literal["command"]
    command: Text
    """Shell text; ``{port}`` stands for the port it must listen on."""
    model_name: Text
    """The name that its ``/v1/models`` shows."""


def _service_type(value: Any) -> str | None:
    """The tag of a service: no key of any service, so that a message's path cannot take one for the other."""
    found = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    return f"<{found}>" if found in ("vllm", "command") else None


ServiceConfig = Annotated[
    Annotated[VllmService, Tag("<vllm>")] | Annotated[CommandService, Tag("<command>")],
    Discriminator(
        _service_type,
        custom_error_type="service_type",
        custom_error_message="type must be vllm or command",
    ),
]


class Compute(Section):
    """What every type of compute takes."""

    type: str
    walltime: Duration = None
    """Limit of each job; none unless given."""


class LocalCompute(Compute):
    """Jobs run on this machine, each under its own detached supervisor."""

    type: Literal["local"]
    max_parallel: Count = 1
    """How many jobs of one submission run at once."""
    gpus: int | None = Field(default=None, ge=0)
    """How many GPUs there are, for arithmetic at submit; ``None``: unknown, nothing is checked."""


ComputeConfig = LocalCompute
"""The union of compute types; a second one makes this ``LocalCompute | …`` discriminated by ``type``."""


class GymInstall(Section):
    """A Gym to be installed in the job's container."""

    ref: Text
    repo: str | None = None


class Resumable(Section):
    """How often and how long a self-chaining benchmark goes on."""

    max_retries: int = Field(default=3, ge=0)
    """Failures other than time limit, preemption and node failure that are retried."""
    max_walltime: Duration = None
    """Cap on the walltime of all finished links together; none unless given."""
    max_links_without_progress: int | None = Field(default=5, ge=1)
    """Links in a row without a new rollout before the chain stops; ``None``: never."""


class BenchmarkJob(Section):
    """One benchmark, one job."""

    prepare: dict[str, Any] = {}
    run: dict[str, Any] = {}
    """Configuration of ``gym eval run``."""
    command: str | None = Field(default=None, min_length=1)
    """Shell text that runs instead of ``gym eval run``."""
    resumable: bool | Resumable = False

    @property
    def chain(self) -> Resumable | None:
        """The chain's limits, or ``None`` when the benchmark is one job."""
        if isinstance(self.resumable, Resumable):
            return self.resumable
        return Resumable() if self.resumable else None


class DriverConfig(Section):
    """What runs against the services."""

    gym: str | None = None
    """Path of the `gym` program on the machine of the job; the submitting one unless given."""
    container: str | None = None
    gym_install: GymInstall | None = None
    policy_model: str | None = None
    """Name of the service that answers as the policy model."""
    policy_host: Text = "127.0.0.1"
    benchmarks: dict[Name, BenchmarkJob] = Field(min_length=1)
    env: Env = {}
    mounts: Mounts = []


class JobConfig(Section):
    """Where a submission goes."""

    output_path: Text
    """Base folder; each submit makes one run directory in it."""


class OtelConfig(Section):
    """A telemetry collector beside the services."""

    enabled: bool = True
    binary: Text = "otelcol-contrib"
    container: str | None = None
    endpoint: str | None = None
    token_env: str = Field(default="OTEL_TOKEN", pattern=rf"^{VARIABLE}$")
    service_name: str | None = None
    component: Text = "gym-vllm"
    gpu_metrics_port: Port | None = 9400
    node_metrics_port: Port | None = 9100
    scrape_interval_seconds: Count = 15
    health_check_timeout_seconds: Count = 300


class SubmitConfig(Section):
    """Everything that ``gym eval submit`` reads."""

    services: dict[Name, ServiceConfig] = {}
    compute: dict[Name, ComputeConfig]
    driver: DriverConfig
    job: JobConfig
    otel: OtelConfig | None = None

    @property
    def cluster(self) -> str:
        """The name of the only compute entry."""
        return next(iter(self.compute))

    @property
    def machine(self) -> ComputeConfig:
        """The only compute entry."""
        return self.compute[self.cluster]
