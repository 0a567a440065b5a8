"""What a submission is made of, as values: everything an executor and the job script's text need, decided.

Nothing here is read from the environment or the file system again: the code that renders or queues a job
takes these values as they are. A plan holds secrets (`JobPlan.secrets`), each wrapped so that printing it
shows ``***``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nemo_gym.orchestration.executor_kinds import LOCAL, SLURM

if TYPE_CHECKING:
    from nemo_gym.chain.budget import Budget
    from nemo_gym.orchestration.config.notify_schema import NotifyConfig
    from nemo_gym.orchestration.config.schema import SubmitConfig
    from nemo_runs.secret_refs import Reference, SecretText


@dataclass(frozen=True, slots=True)
class StepImage:
    """An image in which a step runs."""

    image: str
    mounts: tuple[str, ...] = ()
    """``src``, ``src:dst`` or ``src:dst:flags``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallPlan:
    """A Gym that the job installs itself."""

    repo: str
    ref: str
    """A tag, a branch or a commit."""
    folder: Path
    """Where it is installed, once for each commit and Python, for all runs beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmPlan:
    """What a job needs to know of the cluster that runs it."""

    options: list[str]
    """Options of ``sbatch`` for the script's first lines, each one checked word."""
    runtime: Literal["pyxis", "apptainer", "none"]
    """What runs containers."""
    setup: str = ""
    """Shell lines run once before anything else of the job."""
    kill_on_invalid_dep: bool = True
    queue_from: Literal["job", "login"] = "job"
    """Where the chain's next job is queued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """One process of a model server that runs beside the driver of a benchmark."""

    name: str
    """As in the config, with the numbers of the replica and of the node where there are several; also the
    log's name."""
    kind: Literal["command", "vllm", "sglang"]
    argv: list[str] | None
    """The program and its arguments, or ``None``. ``{port}``, ``{head}`` and ``{rpc_port}`` are replaced when
    the job runs: its port, the address of the first node of its server, and a free port there."""
    shell: str | None
    """The shell text (``command``), or ``None``. ``{port}`` is replaced when the job runs."""
    port: int | None
    """A fixed port, or ``None``: a free one is chosen when the job runs."""
    model_name: str
    """The name that ``/v1/models`` must show before the driver starts, and that requests carry."""
    health_path: str
    """Empty: it is not asked, since its server answers on another node."""
    health_port: int | None = None
    """Where the health check asks when that is not the service's own port."""
    health_timeout: int
    """Seconds that the service may take until it is healthy."""
    service: str = ""
    """The service in the config that this is a process of; the same as the name unless given."""
    node: int = 0
    """Where it runs in the allocation, from 0: the driver's node."""
    head: int | None = None
    """The number of the process that answers for its server; its own unless given."""
    replica: int | None = None
    """Which of several replicas of its service it belongs to, from 0; ``None``: there is one."""
    gpus: int = 0
    """How many GPUs it fills on its node, as far as its configuration says it."""
    first_gpu: int | None = None
    """Which of the node's GPUs is its first one; ``None``: it may see all of them."""
    env: dict[str, Reference] = field(default_factory=dict)
    pre_command: str = ""
    """Shell statements that run in the same shell before the service."""
    container: StepImage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtelPlan:
    """The telemetry collector beside the services."""

    binary: str
    endpoint: str
    service_name: str
    token_env: str
    """Variable that holds the ingest token; its value is inherited through the environment, never written."""
    container: StepImage | None = None
    config: dict[str, Any]
    """The collector's own configuration, holding ``${env:<token_env>}`` in place of the token."""
    health_check_timeout_seconds: int


@dataclass(frozen=True, slots=True)
class SharedBenchmark:
    """A benchmark that runs in the job of its model."""

    name: str
    """The name of its folder, beside that of the model's job."""
    resumable: bool
    """Whether it goes on in the job's successor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """One benchmark's job, or the job of a model that several benchmarks share."""

    gym_job_id: str
    benchmark: str
    job_dir: Path
    services: list[ServicePlan]
    policy: str | None
    """The service that answers as the policy model, or ``None`` (then ``run`` names an endpoint itself)."""
    policy_host: str
    """Host part of the policy's address, as the driver sees it."""
    run: dict[str, Any] | None
    """Content of ``run.yaml``: merged, paths absolute, ``host:VAR`` as written; ``None`` with `command`.

    Its text is escaped (a backslash before ``${``) as a configuration file needs it, and
    `nemo_gym.orchestration.config.resolve.to_yaml` writes it.
    """
    prepare: dict[str, Any] | None
    """Overrides for ``gym eval prepare`` before the run, ``None``: no such step.

    With `run` they go over ``run.yaml``, which names the data already; they are empty then.
    """
    command: str | None
    """Shell text that runs instead of ``gym eval run``."""
    env: dict[str, Reference] = field(default_factory=dict)
    """Environment of the driver."""
    secrets: Mapping[str, SecretText] = field(default_factory=dict)
    """Variable of the submitting shell -> its value, for every ``host:VAR`` anywhere in this job."""
    gym: Path
    """The `gym` program that runs in the job; without a folder when the job installs it."""
    install: InstallPlan | None = None
    keeps: str = ""
    """What our programs keep of the login shell's environment, see `plan.interpreter`."""
    walltime: int | None
    """Seconds, or ``None`` for no limit."""
    drain_lead: float = 0.0
    """Seconds before the walltime at which the job is asked to drain; 0: not known."""
    budget: Budget | None = None
    """What a chain of such jobs may use; ``None``: not resumable, one job."""
    resubmission: int = 0
    """The how-manieth time it is queued again in place."""
    otel: OtelPlan | None = None
    config_files: list[Path] = field(default_factory=list)
    """Configuration files that were found for this benchmark; copied into the job's folder."""
    inputs: dict[Path, Path] = field(default_factory=dict)
    """Files of this machine that the job needs -> where in its folder they belong; for another machine."""
    container: StepImage | None = None
    """In which driver and preparation run."""
    notify: NotifyConfig | None = None
    """Who is notified of its end."""
    slurm: SlurmPlan | None = None
    """The cluster's part; ``None`` for a job of this machine."""
    shared: str = ""
    """The model in whose job this benchmark runs, also the name of that job's folder; empty: in its own."""
    benchmarks: tuple[SharedBenchmark, ...] = ()
    """The benchmarks of a shared job; empty for a benchmark's own."""

    @property
    def scheduler(self) -> str:
        """The file that answers for the scheduler of the job: ``shell/scheduler_<name>.sh``."""
        return LOCAL if self.slurm is None else SLURM


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """All jobs of one ``gym eval submit``."""

    gym_job_id: str
    run_dir: Path
    cluster: str
    """The name of the compute entry."""
    jobs: list[JobPlan]
    """One for each benchmark."""
    max_parallel: int
    """How many of the jobs may run at once."""
    config: SubmitConfig
    shared: list[JobPlan] = field(default_factory=list)
    """Jobs that benchmarks share: such a benchmark is not queued itself."""

    @property
    def folders(self) -> list[JobPlan]:
        """Everything that has a folder."""
        return [*self.shared, *self.jobs]

    @property
    def queued(self) -> list[JobPlan]:
        """What is queued, in order."""
        return [*self.shared, *(job for job in self.jobs if not job.shared)]

    def benchmarks_of(self, job: JobPlan) -> list[str]:
        """The benchmarks that run in a queued job."""
        return [benchmark.name for benchmark in job.benchmarks] or [job.benchmark]
