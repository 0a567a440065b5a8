"""What customization jobs are created with, and what is answered about backends and templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field

from nemo_helix_plugin.customization import backends
from nemo_helix_plugin.jobs import models, names
from nemo_helix_plugin.jobs.platform_spec import Quantity
from nemo_helix_plugin.jobs.requests import ShortText

if TYPE_CHECKING:
    BackendName = str
else:
    BackendName = Literal[backends.names()]
    """The name of a backend that is known here."""


class SubprocessOptions(models.RequestModel):
    """Limits of the training step where it is a process of the service's machine."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    memory: Quantity | None = None
    """Such as ``16Gi``; a training that takes more is ended."""


class HubOptions(models.RequestModel):
    """How names at the hub are fetched."""

    token_secret: names.SecretReference | None = None
    """Name of the secret that holds an access token of the hub."""


class CheckpointOptions(models.RequestModel):
    """When checkpoints are saved besides those of pauses and of the end."""

    seconds: Annotated[float, Field(gt=0)] | None = None
    """At least so often; ``None`` = every 15 minutes."""
    steps: Annotated[int, Field(gt=0)] | None = None
    interval: Literal["auto"] | None = None
    """``auto``: as often as costs least, by what saves take and how often training is interrupted."""
    max_overhead: Annotated[float, Field(gt=0, le=0.5)] | None = None
    """The share of the time that saves may take with ``auto``; ``None`` = the service's setting."""
    keep: Annotated[int, Field(ge=2)] | None = None
    """``None`` = 2, and whatever is pinned."""


class CustomizationOptions(models.RequestModel):
    """Where and how a job runs, apart from what it trains."""

    subprocess: SubprocessOptions | None = None
    hub: HubOptions | None = None
    checkpoints: CheckpointOptions | None = None


class CreateCustomizationJobRequest(models.RequestModel):
    """A new fine-tuning job: the backend's input spec, and what is around it."""

    name: names.EntityName | None = None
    description: ShortText | None = None
    project: ShortText | None = None
    spec: models.JsonObject
    """The input spec of the backend."""
    profile: ShortText | None = None
    """Execution profile of the training step."""
    options: CustomizationOptions | None = None
    ownership: models.JsonObject | None = None
    custom_fields: models.JsonObject | None = None
    output_location: ShortText | None = None


class PreviewRequest(models.RequestModel):
    """Show what a job would learn, without a job."""

    spec: models.JsonObject
    """The input spec of the backend."""
    rows: Annotated[int, Field(ge=1, le=1000)] = 3
    """How many rows to show, from the first one on."""


class PreviewPart(models.ResponseModel):
    """A part of a row that is treated alike."""

    mark: str
    """``learned``, ``read``, ``chosen``, ``rejected``, or ``cut`` for what the longest length takes away."""
    text: str
    """The tokens of this part, decoded."""


class PreviewRow(models.ResponseModel):
    """A row as the training sees it."""

    line: int
    """In its file, counted from 1."""
    file: str | None = None
    """Where there are several."""
    tokens: int
    parts: list[PreviewPart] = Field(default_factory=list)


class PreviewCounts(models.ResponseModel):
    """What is taken of one file of rows."""

    file: str
    rows: int
    tokens: int
    """Of all rows, before anything is cut."""
    tokens_learned: int
    tokens_cut: int
    shortened_lines: list[int] = Field(default_factory=list)
    """Lines of the rows that lose their end."""
    left_out_lines: list[int] = Field(default_factory=list)
    """Lines of the rows of which nothing would be left to learn."""
    unused_keys: dict[str, int] = Field(default_factory=dict)
    """Keys of rows of which nothing is learned, and in how many rows they are."""
    weight: float = 1.0
    """How often each row comes in an epoch."""


class Preview(models.ResponseModel):
    """What a training would learn."""

    engine: str
    method: str
    max_seq_length: int
    overlong: str = "truncate"
    """What becomes of rows that are longer: ``truncate``, ``drop`` or ``error``."""
    packing: bool = False
    training: PreviewCounts
    beside: list[PreviewCounts] = Field(default_factory=list)
    """Data sets that are mixed in."""
    validation: PreviewCounts | None = None
    rows: list[PreviewRow] = Field(default_factory=list)


class CheckFinding(models.ResponseModel):
    """One thing that was looked at."""

    verdict: str
    """``ok``, ``unknown``, ``warning``, or ``problem`` for what would make the job fail."""
    about: str
    text: str


class TrainingEstimate(models.ResponseModel):
    """What a training will take."""

    method: str
    precision: str
    processes: int = 1
    parameters: int = 0
    trained_parameters: int = 0
    sizes: dict[str, float] = Field(default_factory=dict)
    """Rows, tokens of a row, rows of a step, steps."""
    memory: dict[str, int] = Field(default_factory=dict)
    """Bytes on each device at the moment when they are most, by parts: ``weights``, ``gradients``,
    ``optimizer``, ``activations``, ``workspace``; their ``total``; and the ``lower_bound``, without which it
    cannot work."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """``shortest`` and ``longest``; ``measured_on`` is the number of trainings that this is known from."""
    saved: dict[str, int] = Field(default_factory=dict)
    """Bytes of a ``checkpoint`` and of the ``output``."""


class DryRun(models.ResponseModel):
    """A job that was tried and not made."""

    job: str
    output: str
    backend: str
    engine: str
    device: str
    fits: bool
    """Whether there is no problem among the findings."""
    findings: list[CheckFinding] = Field(default_factory=list)
    estimate: TrainingEstimate | None = None


class EngineState(models.ResponseModel):
    """The engine behind a backend, on the service's machine."""

    name: str
    installed: bool = False
    device: str | None = None
    python: str | None = None
    problem: str | None = None
    """Why it cannot be used, with the command that helps."""


class Explanation(models.ResponseModel):
    """JSON schemas of a backend, and the state of its engine."""

    backend: str
    engine: EngineState | None = None
    """``None``: the service was not asked."""
    profiles: list[str] = Field(default_factory=list)
    """Execution profiles that a training step can be given."""
    input: dict[str, Any] = Field(default_factory=dict)
    output: dict[str, Any] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    refused: dict[str, str] = Field(default_factory=dict)
    """Fields that are not supported here, and why; by dotted name."""


class CustomizationHealth(models.ResponseModel):
    """Whether fine-tuning works."""

    plugin: str
    status: str
    contributors: list[str] = Field(default_factory=list)
    engines: list[EngineState] = Field(default_factory=list)


class CreateJobTemplateRequest(models.RequestModel):
    """A saved spec; it is not validated before it is submitted."""

    name: names.EntityName
    backend: BackendName
    config: models.JsonObject
    description: ShortText | None = None


class UpdateJobTemplateRequest(models.RequestModel):
    """Changes of a saved spec."""

    backend: BackendName | None = None
    config: models.JsonObject | None = None
    description: ShortText | None = None


class JobTemplate(models.ResponseModel):
    """A saved spec."""

    name: str
    workspace: str | None = None
    backend: str
    config: dict[str, Any] = Field(default_factory=dict)
    description: str | None = None
    created_by: str | None = None
    created_at: models.Moment | None = None
    updated_at: models.Moment | None = None
