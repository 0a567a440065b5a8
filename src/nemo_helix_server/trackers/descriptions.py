"""The description of a job for a tracker: made of the job's own spec, in the terms of each tracker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nemo_helix_plugin.customization import backends, tracker_names
from nemo_helix_server.jobs.model import Job, Json

Tracker = Literal["wandb", "mlflow"]
TRACKERS: tuple[Tracker, ...] = ("wandb", "mlflow")
SERVICE = "nemo-helix"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerEndpoint:
    """Where a tracker is reached and as whom; jobs behind the same door share a publisher process."""

    tracker: Tracker
    address: str | None
    """As the job gives it; None: the service's own."""
    workspace: str
    secret: str | None
    """The name of the secret with the key; None: the service's own key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDescription:
    """One run, as the publisher gets it when it opens it."""

    endpoint: TrackerEndpoint
    project: str
    """W&B's project, MLflow's experiment."""
    name: str
    notes: str | None = None
    entity: str | None = None
    labels: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For the publisher."""
        return {
            "project": self.project,
            "name": self.name,
            "notes": self.notes,
            "entity": self.entity,
            "labels": list(self.labels),
            "tags": dict(self.tags),
        }


def wanted(spec: Json) -> tuple[Tracker, ...]:
    """The trackers that a job's spec asks for."""
    given = spec.get("integrations")
    if not isinstance(given, Mapping):
        return ()
    return tuple(name for name in TRACKERS if isinstance(given.get(name), Mapping))


def describe(job: Job, tracker: Tracker) -> RunDescription:
    """What is published to a tracker about a job."""
    given: Mapping[str, Any] = job.spec["integrations"][tracker]
    facts = _facts(job)
    name = _text(given.get("name")) or job.name
    default = _text(_at(job.spec, "output", "name")) or job.name
    if tracker == "wandb":
        labels = [*map(str, given.get("tags") or ()), *(f"{key}:{value}" for key, value in facts.items())]
        labels = [label[: tracker_names.LONGEST_WANDB_TAG] for label in labels if label.strip()]
        return RunDescription(
            endpoint=TrackerEndpoint(
                tracker=tracker,
                address=_text(given.get("base_url")),
                workspace=job.workspace,
                secret=_text(given.get("api_key_secret")),
            ),
            project=tracker_names.fitted_project(_text(given.get("project")) or default),
            name=tracker_names.fitted_run(name),
            notes=_text(given.get("notes")),
            entity=_text(given.get("entity")),
            labels=tuple(dict.fromkeys(labels)),
            tags=facts,
        )
    tags = {str(key): str(value) for key, value in dict(given.get("tags") or {}).items()}
    return RunDescription(
        endpoint=TrackerEndpoint(
            tracker=tracker, address=_text(given.get("tracking_uri")), workspace=job.workspace, secret=None
        ),
        project=tracker_names.fitted_experiment(_text(given.get("experiment_name")) or default),
        name=tracker_names.fitted_experiment(name),
        notes=_text(given.get("description")),
        tags=tracker_names.fitted_tags({**facts, **tags}),
    )


def training_step(job: Job) -> str:
    """The name of the step whose metrics are published: the first that can be paused, or else the last."""
    steps = job.platform_spec["steps"]
    pausable = [
        step for step in steps if int((step.get("lifecycle") or {}).get("pause_deadline_seconds") or 0)
    ]
    return str((pausable or steps[-1:])[0]["name"])


def _facts(job: Job) -> dict[str, str]:
    """What every run is marked with, as far as the job says it."""
    model = job.spec.get("model")
    found = {
        "service": SERVICE,
        "framework": _text(job.spec.get("backend")) or _backend(job),
        "workspace": job.workspace,
        "job": job.name,
        "task": _text(_at(job.spec, "training", "training_type")) or _text(_at(job.spec, "training", "type")),
        "model": _text(model) or _text(_at(job.spec, "model", "name")),
    }
    return {key: value for key, value in found.items() if value}


def _backend(job: Job) -> str | None:
    """A fine-tuning job is named after its backend, unless its user named it."""
    stem = job.name.partition("-")[0]
    return stem if job.source == "customization" and stem in backends.names() else None


def _at(spec: Any, *path: str) -> Any:
    for part in path:
        spec = spec.get(part) if isinstance(spec, Mapping) else None
    return spec


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
