"""Responses are tolerant: what services of other versions answered is still read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nemo_helix_plugin.jobs import types

PAYLOADS = Path(__file__).with_name("payloads")
MODELS = {
    "job": types.HelixJobResponse,
    "status": types.HelixJobStatusResponse,
    "attempt": types.HelixJobAttemptResponse,
    "step": types.HelixJobStepResponse,
    "task": types.HelixJobTaskResponse,
    "result": types.HelixJobResultResponse,
    "logs": types.HelixJobLogPage,
    "list": types.Page[types.HelixJobResponse],
}


def payloads() -> list[Path]:
    return sorted(PAYLOADS.glob("*.json"))


def test_every_release_has_its_payloads() -> None:
    assert {path.stem.rpartition("-")[0] for path in payloads()} == {"0.8.1", "0.9", "0.10", "0.11"}


@pytest.mark.parametrize("path", payloads(), ids=lambda path: path.stem)
def test_an_old_payload_is_read_and_nothing_that_we_know_of_is_lost(path: Path) -> None:
    body = json.loads(path.read_text())
    model = MODELS[path.stem.rpartition("-")[2]]
    read = model.model_validate(body)
    shown = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for field in set(body) & set(model.model_fields) - {"data", "pagination"}:
        assert shown[field] == body[field], field


def test_a_status_and_fields_of_the_future_are_kept_or_left_out() -> None:
    body = {"id": "i", "name": "n", "workspace": "w", "status": "hibernating", "colour": "blue"}
    read = types.HelixJobResponse.model_validate(body)
    assert read.status == "hibernating"
    assert not hasattr(read, "colour")
    known = types.HelixJobResponse.model_validate({**body, "status": "paused"})
    assert known.status is types.HelixJobStatus.PAUSED


def test_an_executor_of_the_future_does_not_hide_the_job() -> None:
    spec = {"steps": [{"name": "Any Name!", "executor": {"provider": "slurm", "nodes": 9}, "new": {"a": 1}}]}
    body = {"id": "i", "name": "n", "workspace": "w", "status": "active", "platform_spec": spec}
    read = types.HelixJobResponse.model_validate(body)
    assert read.platform_spec.steps[0].executor["nodes"] == 9
    assert read.model_dump(mode="json", exclude_unset=True)["platform_spec"] == spec


@pytest.mark.parametrize(
    "text",
    ["2026-11-01T12:00:00Z", "2026-11-01T12:00:00", "2026-11-01T13:00:00+01:00", "2026-11-01T12:00:00.000Z"],
)
def test_times_are_in_utc_however_they_are_written(text: str) -> None:
    body = {"id": "i", "name": "n", "workspace": "w", "status": "active", "created_at": text}
    read = types.HelixJobResponse.model_validate(body)
    assert read.created_at == datetime(2026, 11, 1, 12, tzinfo=UTC)
    assert json.loads(read.model_dump_json())["created_at"] == "2026-11-01T12:00:00Z"


def test_a_transition_has_from_and_to_on_the_wire() -> None:
    body = {"seq": 3, "job": "n", "from": "paused", "to": "resuming", "at": "2026-11-01T12:00:00Z"}
    read = types.Transition.model_validate(body)
    assert (read.from_status, read.to_status) == ("paused", "resuming")
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == body


def test_terminal_statuses_are_those_that_nothing_leads_out_of() -> None:
    assert {str(status) for status in types.HelixJobStatus if status.is_terminal} == {
        "completed",
        "cancelled",
        "error",
    }
