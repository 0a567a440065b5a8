"""The submit config as a schema: every key, its type and its default; no key is ignored.

The models only say what one value may be. Rules between values are in `nemo_gym.orchestration.config.rules`,
and nothing here changes a value: a dumped config, loaded again, is the same config. ``env`` values stay text
as written (``host:VAR``), so a dump never holds a secret that was referred to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from nemo_gym.orchestration.config.notify_schema import NotifyConfig
from nemo_gym.orchestration.config.values import Count, Duration, Env, Index, Mounts, Name, Port, Text
from nemo_gym.orchestration.executor_kinds import LOCAL, SLURM, TYPES
from nemo_runs.secret_refs import VARIABLE


class ConfigSection(BaseModel):
    """A mapping of the config: unknown keys are refused, values are taken as they are."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class HealthCheck(ConfigSection):
    """When a service counts as ready; its own process must listen and name the right model all the same."""

    path: str | None = Field(default=None, pattern=r"^/")
    """``/health`` for vllm and sglang, ``/v1/models`` for a command, unless given."""
    port: Port | None = None
    """The service's own port unless given."""
    timeout_seconds: Count = 600


class BaseService(ConfigSection):
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
    replicas: Count = 1
    """How many servers of the same model: each has a port of its own, and the least busy one is asked."""


class ModelService(BaseService):
    """Servers of a model whose command lines are made here."""

    spreads_instances: ClassVar[bool]
    """Whether the instances of one server may be on several nodes."""
    model: Text
    served_model_name: str | None = Field(default=None, min_length=1)
    tensor_parallel_size: Count = 1
    pipeline_parallel_size: Count = 1
    number_of_instances: Count = 1
    """Of the model within one server (data parallel)."""
    nodes: Count = 1
    """How many nodes of the allocation one server spans."""
    trust_remote_code: bool = False
    extra_args: str = ""
    """Appended to the command, split as a shell would split it."""

    @property
    def gpus_of_server(self) -> int:
        """How many GPUs one server fills: tensor parallel x pipeline parallel x instances."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.number_of_instances

    @property
    def gpus_of_node(self) -> int:
        """How many of them are on each of its nodes."""
        return -(-self.gpus_of_server // self.nodes)

    @property
    def gpus(self) -> int:
        """How many GPUs all replicas fill."""
        return self.gpus_of_server * self.replicas


class VllmService(ModelService):
    """``vllm serve``, once for each replica and node."""

    type: Literal["vllm"]
    spreads_instances = True


class SglangService(ModelService):
    """``python3 -m sglang.launch_server``, once for each replica and node."""

    type: Literal["sglang"]
    spreads_instances = False


class CommandService(BaseService):
    """Any command that serves an OpenAI-compatible API."""

    type: Literal["command"]
    command: Text
    """Shell text; ``{port}`` stands for the port it must listen on."""
    model_name: Text
    """The name that its ``/v1/models`` shows."""


def _service_type(value: Any) -> str | None:
    """The tag of a service: no key of any service, so that a message's path cannot take one for the other."""
    found = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    return f"<{found}>" if found in ("vllm", "sglang", "command") else None


ServiceConfig = Annotated[
    Annotated[VllmService, Tag("<vllm>")]
    | Annotated[SglangService, Tag("<sglang>")]
    | Annotated[CommandService, Tag("<command>")],
    Discriminator(
        _service_type,
        custom_error_type="service_type",
        custom_error_message="type must be vllm, sglang or command",
    ),
]


class Compute(ConfigSection):
    """What every type of compute takes."""

    type: str
    """Which executor runs the jobs; it decides which of the classes below an entry is."""
    walltime: Duration = None
    """Limit of each job; none unless given."""
    output_path: str | None = Field(default=None, pattern=r"^/")
    """Base folder there; ``job.output_path`` unless given."""


class LocalCompute(Compute):
    """Jobs run on this machine, each under its own detached supervisor."""

    max_parallel: Count = 1
    """How many jobs of one submission run at once."""
    gpus: Index | None = None
    """How many GPUs there are, for arithmetic at submit; ``None``: unknown, nothing is checked."""


SbatchOptions = dict[str, str | int | bool | None]
"""Long option of ``sbatch`` without dashes -> value; ``true`` for one without a value."""


class NodePool(ConfigSection):
    """Some nodes of the allocation; all pools of an entry form one allocation, in their order."""

    partition: Text
    nodes: Count = 1
    ntasks_per_node: Count = 1
    gpus_per_node: Index | None = None
    extra_args: SbatchOptions = {}


class SlurmCompute(Compute):
    """Jobs of a Slurm cluster, one per benchmark."""

    account: Text
    hostname: Text | None = None
    """Where ``sbatch`` is called, over ssh; this machine unless given."""
    node_pools: dict[Name, NodePool] = {}
    extra_args: SbatchOptions = {}
    container_runtime: Literal["pyxis", "apptainer", "none"] | None = None
    """What runs containers; ``pyxis`` unless given when there is one, else ``none``."""
    setup: str = ""
    """Shell lines run once at the beginning of each job, for services and driver (``module load …``)."""
    max_parallel: Count | None = None
    """How many jobs of one submission run at once; all unless given."""
    kill_on_invalid_dep: bool = True
    """Whether successors are queued with ``--kill-on-invalid-dep=yes``; some sites forbid it."""
    queue_from: Literal["job", "login"] = "job"
    """Where a chain's next job is queued: in the job itself, or over ssh on the host of the submission."""
    drain_seconds: Count | None = None
    """How long before its walltime a job is asked to drain; a tenth of it, 20 to 120, unless given."""

    @property
    def gpus(self) -> int | None:
        """GPUs of the node on which services run, ``None`` when nothing is said about them."""
        return next((pool.gpus_per_node for pool in self.node_pools.values()), None)

    @property
    def nodes(self) -> int:
        """Nodes of the whole allocation."""
        return sum(pool.nodes for pool in self.node_pools.values()) or 1


def _compute_type(value: Any) -> str | None:
    """As `_service_type`, of a compute entry."""
    found = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    return f"<{found}>" if found in TYPES else None


ComputeConfig = Annotated[
    Annotated[LocalCompute, Tag(f"<{LOCAL}>")] | Annotated[SlurmCompute, Tag(f"<{SLURM}>")],
    Discriminator(
        _compute_type,
        custom_error_type="compute_type",
        custom_error_message=f"type must be {' or '.join(TYPES)}",
    ),
]


class GymInstall(ConfigSection):
    """A Gym that the job installs where there is none."""

    ref: Text
    """A tag, a branch or a commit."""
    repo: Text
    """What `git clone` takes: a URL, or an absolute path on the machine of the job."""


class Resumable(ConfigSection):
    """How often and how long a self-chaining benchmark goes on."""

    max_retries: Index = 3
    """Failures other than time limit, preemption and node failure that are retried."""
    max_walltime: Duration = None
    """Cap on the walltime of all finished links together; none unless given."""
    max_links_without_progress: Count | None = None
    """Links in a row without a new rollout before the chain stops; ``None``: never."""


class BenchmarkJob(ConfigSection):
    """One benchmark, one job."""

    prepare: dict[str, Any] = {}
    run: dict[str, Any] = {}
    """Configuration of ``gym eval run``."""
    command: str | None = Field(default=None, min_length=1)
    """Shell text that runs instead of ``gym eval run``."""
    compute: str | None = None
    """The compute entry on which it runs, where there are several and models do not say it."""
    resumable: bool | Resumable = False

    @property
    def chain(self) -> Resumable | None:
        """The chain's limits, or ``None`` when the benchmark is one job."""
        if isinstance(self.resumable, Resumable):
            return self.resumable
        return Resumable() if self.resumable else None


class PolicyModel(ConfigSection):
    """One of several models that answer all benchmarks: a service, or an address in `run`."""

    service: str | None = None
    """The service that answers; the one of the model's own name unless given."""
    model: str | None = Field(default=None, min_length=1)
    """What the service (``vllm``) serves in place of its own ``model``; ``{step}``: of the series."""
    step: list[int | str] = []
    """A series: one model for each, with ``{step}`` replaced in `model` and in the service."""
    run: dict[str, Any] = {}
    """Configuration of ``gym eval run`` for this model; it wins over what benchmarks say."""
    compute: str | None = None
    """The compute entry on which its job runs, where there are several."""


class DriverConfig(ConfigSection):
    """What runs against the services."""

    gym: str | None = None
    """Path of the `gym` program on the machine of the job; the submitting one unless given."""
    container: str | None = None
    gym_install: GymInstall | None = None
    policy_model: str | None = None
    """Name of the service that answers as the policy model."""
    models: dict[Name, PolicyModel] = {}
    """Several policy models in place of one: each answers every benchmark, in one job for each model."""
    policy_host: Text = "127.0.0.1"
    run: dict[str, Any] = {}
    """Configuration of ``gym eval run`` for all benchmarks; what one of them says itself wins."""
    benchmarks: dict[Name, BenchmarkJob] = Field(min_length=1)
    env: Env = {}
    mounts: Mounts = []


class JobConfig(ConfigSection):
    """Where a submission goes."""

    output_path: Text
    """Base folder; each submit makes one run directory in it."""


class OtelConfig(ConfigSection):
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


class SubmitConfig(ConfigSection):
    """Everything that ``gym eval submit`` reads."""

    services: dict[Name, ServiceConfig] = {}
    compute: dict[Name, ComputeConfig]
    driver: DriverConfig
    job: JobConfig
    otel: OtelConfig | None = None
    notify: NotifyConfig | None = None
    """Who is notified of ends; those of the settings unless given."""

    @property
    def cluster(self) -> str:
        """The name of the only compute entry."""
        return next(iter(self.compute))

    @property
    def machine(self) -> LocalCompute | SlurmCompute:
        """The only compute entry."""
        return self.compute[self.cluster]
