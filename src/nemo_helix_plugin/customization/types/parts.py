"""Parts that the input specs of several backends share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from nemo_helix_plugin.body_problems import several
from nemo_helix_plugin.customization import tracker_names
from nemo_helix_plugin.jobs.models import RequestModel

Text = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
Positive = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
"""At least 0 and below 1."""
Seed = Annotated[int, Field(ge=0, lt=2**32)]

Modules = Annotated[list[Text], Field(min_length=1)]
"""Names of a model's layers."""

Reference = Annotated[
    str,
    StringConstraints(min_length=1, max_length=4096),
    Field(
        description="A fileset or model as 'workspace/name' or 'name', a folder or file on the service's "
        "machine as 'file:///path' or '/path', or a hub name as 'hf://owner/name'."
    ),
]
"""Where a model or data come from."""


class ProgressReporting(RequestModel):
    """How often metrics are shown, and which are kept as series."""

    min_report_interval_seconds: Annotated[float, Field(ge=0)] = 10
    """0 = every logged step."""
    time_series_metrics: list[Text] | None = None
    """Globs; ``None`` = ``*_loss``, ``*_lr``, ``*_grad_norm`` and what the method adds; ``["*"]`` = all."""


def _taken_by(problem: Callable[[str], str | None]) -> AfterValidator:
    """Refuses a name that a tracker does not take."""

    def check(name: str) -> str:
        found = problem(name)
        if found:
            raise ValueError(found)
        return name

    return AfterValidator(check)


WandbProject = Annotated[Text, _taken_by(tracker_names.project_problem)]
WandbRun = Annotated[Text, _taken_by(tracker_names.run_problem)]
WandbTag = Annotated[Text, _taken_by(tracker_names.wandb_tag_problem)]
MlflowName = Annotated[Text, _taken_by(tracker_names.experiment_problem)]


class Wandb(RequestModel):
    """A Weights & Biases run that the job continues through pause, resume and rerun."""

    project: WandbProject | None = None
    name: WandbRun | None = None
    entity: WandbProject | None = None
    tags: list[WandbTag] = Field(default_factory=list)
    notes: str | None = None
    base_url: Text | None = None
    api_key_secret: Text | None = None
    """Name of a secret of the workspace."""


class Mlflow(RequestModel):
    """An MLflow run that the job continues through pause, resume and rerun."""

    experiment_name: MlflowName | None = None
    name: MlflowName | None = None
    tags: dict[str, str] = Field(default_factory=dict)
    description: str | None = None
    tracking_uri: Text | None = None

    @field_validator("tags")
    @classmethod
    def _taken(cls, tags: dict[str, str]) -> dict[str, str]:
        found = [tracker_names.tag_problem(name, value) for name, value in tags.items()]
        problems = [problem for problem in found if problem]
        if problems:
            raise several(problems)
        return tags


class Integrations(RequestModel):
    """Experiment trackers. What is named but holds nothing is refused."""

    wandb: Wandb | None = None
    mlflow: Mlflow | None = None

    @model_validator(mode="after")
    def _holds_something(self) -> Integrations:
        if not self.model_fields_set:
            raise ValueError("integrations is empty: name wandb or mlflow, or leave it out")
        named = {"wandb": self.wandb, "mlflow": self.mlflow}
        empty = [
            name for name, tracker in named.items() if tracker is not None and not tracker.model_fields_set
        ]
        if empty:
            raise several(
                f"integrations.{name} is empty: give at least one field, or leave it out" for name in empty
            )
        return self


def learning_rate_problems(rate: float, lowest: float | None) -> list[str]:
    """What is wrong where a decay does not end below where it begins."""
    if lowest is not None and lowest > rate:
        return [f"min_learning_rate {lowest:g} is more than learning_rate {rate:g}"]
    return []


class Output(RequestModel):
    """What the trained model is called."""

    name: Text | None = None
    description: str | None = None


class Parallelism(RequestModel):
    """How many devices, and how the model is spread over them."""

    num_nodes: Positive = 1
    num_gpus_per_node: Positive = 1
    tensor_parallel_size: Positive = 1
    pipeline_parallel_size: Positive = 1
    context_parallel_size: Positive = 1
    expert_parallel_size: Positive | None = None
    sequence_parallel: bool = False

    @property
    def devices(self) -> int:
        """All devices of all nodes."""
        return self.num_nodes * self.num_gpus_per_node

    @property
    def model_parallel(self) -> int:
        """Devices that hold one copy of the model together."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.context_parallel_size

    @model_validator(mode="after")
    def _divides(self) -> Parallelism:
        problems = []
        if self.devices % self.model_parallel:
            problems.append(
                f"{self.devices} GPUs (num_nodes x num_gpus_per_node) cannot be divided by tensor x pipeline "
                f"x context parallel size = {self.model_parallel}"
            )
        data_parallel = self.devices // self.model_parallel
        expert = self.expert_parallel_size or 1
        if not problems and (data_parallel * self.context_parallel_size) % expert:
            problems.append(
                f"expert_parallel_size {expert} does not divide data parallel x context parallel size = "
                f"{data_parallel * self.context_parallel_size}"
            )
        if expert > 1 and self.tensor_parallel_size > 1:
            problems.append("tensor_parallel_size must be 1 when expert_parallel_size is more than 1")
        if problems:
            raise several(problems)
        return self


Precision = Literal["bf16", "fp16", "fp32", "fp8"]
DeploymentConfig = str | dict[str, object]
"""Name of a deployment configuration, or one written out."""
