"""What the Jobs service executes: steps of a job, strict as they are submitted, open as they are shown."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from nemo_helix_plugin.jobs import models, names

_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|[kKMGTPE]i?)?")
_SHARED_MEMORY = re.compile(r"[0-9]+(Mi|Gi|M|G)")

Seconds = Annotated[int, Field(ge=0, le=10**10, strict=True)]
"""A number of whole seconds, as long as 300 years."""


def _text(value: str) -> str:
    if "\0" in value:
        raise ValueError("the text holds a NUL character, which no process can be given")
    return value


def _quantity(value: str) -> str:
    if not _QUANTITY.fullmatch(value):
        raise ValueError(f"{value!r} is not an amount; write a number with a suffix, such as 500m, 4 or 16Gi")
    return value


Text = Annotated[str, AfterValidator(_text)]
Quantity = Annotated[str, AfterValidator(_quantity)]


class SecretSource(models.RequestModel):
    """The secret whose value an environment variable gets when the step starts."""

    name: names.SecretReference


class EnvironmentVariable(models.RequestModel):
    """One variable of a step: a literal value, or the name of a secret."""

    name: names.EnvironmentName
    value: Text | None = None
    from_secret: SecretSource | None = None

    @model_validator(mode="after")
    def _one_source(self) -> EnvironmentVariable:
        if (self.value is None) == (self.from_secret is None):
            raise ValueError(f"the environment variable {self.name} needs either value or from_secret")
        return self


class Container(models.RequestModel):
    """Program of a step; executors that run processes on the host record ``image`` and run the rest."""

    image: Text | None = None
    entrypoint: list[Text] = Field(default_factory=list)
    command: list[Text] = Field(default_factory=list)


class Amounts(models.RequestModel):
    """Processor cores and memory, written as in Kubernetes: ``500m``, ``4``, ``16Gi``."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    cpu: Quantity | None = None
    memory: Quantity | None = None


class Resources(models.RequestModel):
    """What a step asks for, and what it may not exceed."""

    requests: Amounts = Field(default_factory=Amounts)
    limits: Amounts = Field(default_factory=Amounts)


class GpuResources(Resources):
    """The same with GPUs and shared memory."""

    num_gpus: int = Field(default=1, ge=0, le=4096, strict=True)
    shm_size: str | None = None

    @field_validator("shm_size")
    @classmethod
    def _shared_memory(cls, value: str | None) -> str | None:
        if value is not None and not _SHARED_MEMORY.fullmatch(value):
            raise ValueError(
                f"{value!r} is not a shared memory size; write a whole number with Mi, Gi, M or G"
            )
        return value


class DistributedResources(GpuResources):
    """The same on several nodes."""

    num_nodes: int = Field(default=1, ge=1, le=65536, strict=True)


Provider = Literal["cpu", "gpu", "gpu_distributed", "subprocess"]
"""What an executor of a step may be; with the name of a profile it says where the step runs."""


class CpuExecutor(models.RequestModel):
    """A step that needs no GPU."""

    provider: Literal["cpu"]
    profile: str = "default"
    container: Container
    resources: Resources = Field(default_factory=Resources)


class GpuExecutor(models.RequestModel):
    """A step on the GPUs of one node."""

    provider: Literal["gpu"]
    profile: str = "default"
    container: Container
    resources: GpuResources = Field(default_factory=GpuResources)


class DistributedExecutor(models.RequestModel):
    """A step on the GPUs of several nodes."""

    provider: Literal["gpu_distributed"]
    profile: str = "default"
    container: Container
    resources: DistributedResources = Field(default_factory=DistributedResources)


class SubprocessExecutor(models.RequestModel):
    """A step that is a process of the service's machine."""

    provider: Literal["subprocess"]
    profile: str = "default"
    command: list[Text] = Field(min_length=1)
    resources: Resources = Field(default_factory=Resources)


Executor = Annotated[
    CpuExecutor | GpuExecutor | DistributedExecutor | SubprocessExecutor, Field(discriminator="provider")
]


class StepLifecycle(models.RequestModel):
    """How long a step may be silent, and how long it may take to pause."""

    staleness_timeout_seconds: Seconds = 0
    """0: never stale."""
    pause_deadline_seconds: Seconds = 0
    """0: the step cannot be paused."""
    max_continuations: Annotated[int, Field(ge=0)] | None = None
    """How often it resumes after losing its allocation; unset: the service's setting."""
    max_walltime_seconds: Seconds | None = None
    """For how many seconds it may run in all before it does not resume; unset: the service's setting."""


class HelixJobStepSpec(models.RequestModel):
    """One step, as submitted."""

    name: names.EntityName
    environment: list[EnvironmentVariable] = Field(default_factory=list)
    executor: Executor
    config: models.JsonObject = Field(default_factory=dict)
    """Written to the file that NEMO_JOB_STEP_CONFIG_FILE_PATH names inside the step."""
    lifecycle: StepLifecycle = Field(default_factory=StepLifecycle)

    @field_validator("config", "lifecycle", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return {} if value is None else value

    @model_validator(mode="after")
    def _variables_once(self) -> HelixJobStepSpec:
        _unique([variable.name for variable in self.environment], f"environment variables of {self.name}")
        return self

    @property
    def pausable(self) -> bool:
        """Whether the step can be paused."""
        return self.lifecycle.pause_deadline_seconds > 0


class JobSecret(models.RequestModel):
    """A secret of the job, by reference; a literal value is refused because the job is kept and shown."""

    name: str
    ref_id: names.SecretReference | None = None
    value: Any = Field(default=None, repr=False, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _no_literal(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("value") is not None:
            remedy = "store it with 'nemo secrets create' and name it in ref_id"
            raise ValueError(f"a secret's value is not accepted in a job; {remedy}")
        return data


class HelixJobSpec(models.RequestModel):
    """The steps of a job, one after another, as submitted."""

    steps: list[HelixJobStepSpec] = Field(min_length=1)
    secrets: list[JobSecret] = Field(default_factory=list)

    @field_validator("secrets", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return [] if value is None else value

    @model_validator(mode="after")
    def _steps_once(self) -> HelixJobSpec:
        _unique([step.name for step in self.steps], "steps of platform_spec")
        return self


class HelixJobStepRecord(models.OpenModel):
    """One step, as a service shows it."""

    name: str
    environment: list[dict[str, Any]] | None = None
    executor: dict[str, Any] = Field(default_factory=dict)
    config: Any = None
    lifecycle: dict[str, Any] | None = None


class HelixJobSpecRecord(models.OpenModel):
    """The steps of a job, as a service shows them: of any age, with whatever executors it knows."""

    steps: list[HelixJobStepRecord] = Field(default_factory=list)
    secrets: list[dict[str, Any]] | None = None


def _unique(values: list[str], what: str) -> None:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValueError(f"the {what} must have different names; {', '.join(twice)} is there more than once")
