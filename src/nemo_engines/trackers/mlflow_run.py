"""A run of an MLflow server.

Nothing is remembered between two requests but what the server has, so a run is open as long as one likes.
Rows are sent with a moment that the service chose before, since the server takes a point that it has, with
the very same moment, only once.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from nemo_engines.trackers.runs import MetricsRow, RunOpening

JOB_TAG, STATUS_TAG = "nhx.job_id", "nhx.status"
_STATUSES = {
    "running": "RUNNING",
    "paused": "SCHEDULED",
    "finished": "FINISHED",
    "failed": "FAILED",
    "killed": "KILLED",
}
"""A paused run neither runs nor is over; of what MLflow has for a run, SCHEDULED is the one that says so."""
_ENDED = ("FINISHED", "FAILED", "KILLED")
_MOST = 1000
"""Values that a server takes in one request."""
_UNNAMEABLE = re.compile(r"[^\w\-./: ]")


class MlflowRun:
    """See `nemo_engines.trackers.runs.OpenTrackerRun`."""

    def __init__(self, opening: RunOpening) -> None:
        from mlflow.tracking import MlflowClient  # noqa: PLC0415 - of the environment that this runs in

        self._client: Any = MlflowClient()
        experiment = _experiment(self._client, opening.project)
        self.run_id = opening.run_id or _run(self._client, experiment, opening)
        run = self._client.get_run(self.run_id)
        self.url = _page(str(self._client.tracking_uri), run.info.experiment_id, self.run_id)
        self._steps = {metric.key: int(metric.step) for metric in run.data.to_proto().metrics}
        self.last: int | None = max(self._steps.values(), default=0)

    def log(self, rows: list[MetricsRow], at: int) -> None:
        """See `Run.log`; whole rows go into one request, as far as they fit."""
        from mlflow.entities import Metric  # noqa: PLC0415 - of the environment that this runs in

        batch: list[Any] = []
        for row in rows:
            points = [
                Metric(name, value, at, row.step)
                for key, value in row.values.items()
                if row.step > self._steps.get(name := _UNNAMEABLE.sub("_", key), -1)
            ]
            if batch and len(batch) + len(points) > _MOST:
                self._send(batch)
                batch = []
            batch += points
        self._send(batch)

    def set_state(self, state: str) -> None:
        """See `Run.set_state`."""
        status = _STATUSES[state]
        self._client.set_tag(self.run_id, STATUS_TAG, state)
        if status in _ENDED:
            self._client.set_terminated(self.run_id, status=status)
        else:
            self._client.update_run(self.run_id, status=status)

    def release(self) -> None:
        """See `Run.release`: there is nothing to release."""

    def _send(self, batch: list[Any]) -> None:
        for start in range(0, len(batch), _MOST):
            part = batch[start : start + _MOST]
            self._client.log_batch(self.run_id, metrics=part)
            self._steps |= {metric.key: metric.step for metric in part}


def _page(address: str, experiment: str, run: str) -> str | None:
    """Where people see a run: at the server's address, without a name or password that it holds."""
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"}:
        return None
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
    return f"{plain}/#/experiments/{experiment}/runs/{run}"


def _experiment(client: Any, name: str) -> str:
    found = client.get_experiment_by_name(name)
    if found is None:
        from mlflow.exceptions import MlflowException  # noqa: PLC0415 - of the environment that this runs in

        try:
            return str(client.create_experiment(name))
        except MlflowException:
            found = client.get_experiment_by_name(name)  # somebody else was faster
            if found is None:
                raise
    if found.lifecycle_stage != "active":
        raise ValueError(f"the experiment '{name}' is deleted; restore it, or name another one")
    return str(found.experiment_id)


def _run(client: Any, experiment: str, opening: RunOpening) -> str:
    """The run that was made for the job before, or else a new one.

    A request to make one may be carried out after its sender gave up on it. So a run is recognised by its
    tag, and of several the oldest is taken; empty ones beside it are deleted.
    """
    if not _runs(client, experiment, opening.job):
        tags = {**opening.tags, JOB_TAG: opening.job}
        if opening.notes:
            tags["mlflow.note.content"] = opening.notes
        client.create_run(experiment, run_name=opening.name, tags=tags)
    oldest, *others = _runs(client, experiment, opening.job)
    for other in others:
        if not other.data.metrics:
            client.delete_run(other.info.run_id)
    return str(oldest.info.run_id)


def _runs(client: Any, experiment: str, job: str) -> list[Any]:
    where = f"tags.`{JOB_TAG}` = '{job}'"
    found = client.search_runs([experiment], filter_string=where)
    return sorted(found, key=lambda run: (run.info.start_time, run.info.run_id))
