"""The source page's SDK block, statement by statement, against the real service and a real training.

Between the statements the job is driven into the status that the next one is about.
"""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.jobs_service import NAME, JobsService, training_job

from nemo_helix_plugin.client.client import NemoClient
from nemo_helix_plugin.jobs import types

pytestmark = pytest.mark.e2e

DEADLINE = 120.0
STEPS = 120
FAILS_AT = 80

BLOCK = """
from nemo_helix_plugin.client.client import NemoClient
from nemo_helix_plugin.jobs.types import JobControl
client = NemoClient.from_config()
job_name = "automodel-a1b2c3d4e5f6"
workspace = "default"
client.jobs.pause_job(name=job_name, workspace=workspace)
client.jobs.update_job_control(name=job_name, workspace=workspace, body=JobControl(pause_ttl_seconds=1209600))
client.jobs.resume_job(name=job_name, workspace=workspace)
client.jobs.rerun_job(job=job_name, workspace=workspace)
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[JobsService]:
    """A service of this test's own."""
    started = JobsService(tmp_path)
    started.start()
    yield started
    started.stop()


class Page:
    """Runs the block's statements one by one, in one namespace, as somebody at a prompt would."""

    def __init__(self) -> None:
        self.statements = ast.parse(BLOCK).body
        self.names: dict[str, Any] = {}

    def run_up_to(self, words: str) -> None:
        """Run statements up to and including the one that holds these words."""
        while True:
            statement = self.statements.pop(0)
            exec(compile(ast.Module([statement], []), "page", "exec"), self.names)
            if words in ast.unparse(statement):
                return


def until(client: NemoClient, *wanted: str) -> types.HelixJobResponse:
    end = time.monotonic() + DEADLINE
    while True:
        job = client.jobs.get_job(name=NAME, workspace="default").data()
        if job.status in wanted:
            return job
        assert job.status not in types.TERMINAL, (job.status, job.reason, job.error_details)
        assert time.monotonic() < end, (wanted, job)
        time.sleep(0.05)


def steps_of_metrics(data: Path) -> list[int]:
    """Steps with a metric after everything that was taken back was taken back."""
    (path,) = data.glob("jobs/default/*/storage/training/metrics.jsonl")
    steps: list[int] = []
    for row in map(json.loads, path.read_text().splitlines()):
        if "continue_from" in row:
            steps = [step for step in steps if step <= row["continue_from"]]
        else:
            steps.append(row["step"])
    return steps


def test_the_pages_statements_work_as_the_page_says(
    service: JobsService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NHX_BASE_URL", service.url)
    page = Page()
    with NemoClient.from_config() as own:
        # it fails once, after steps that take long enough to be paused among
        job = training_job(steps=STEPS, step_seconds=0.05, save_every=10, fail_at=FAILS_AT, fail_times=1)
        own.jobs.create_job(body=job)
        until(own, "active")

        page.run_up_to("pause_job")
        paused = until(own, "paused")
        assert paused.storage_expires_at is not None
        page.run_up_to("update_job_control")
        longer = own.jobs.get_job(name=NAME).data()
        assert longer.storage_expires_at is not None
        more = longer.storage_expires_at - paused.storage_expires_at
        assert more.total_seconds() == pytest.approx((14 - 7) * 86_400, abs=1)

        page.run_up_to("resume_job")
        failed = until(own, "error")
        assert failed.attempt_id == paused.attempt_id

        page.run_up_to("rerun_job")
        assert page.statements == []
        ended = until(own, "completed")
        assert ended.attempt_id != failed.attempt_id
        attempts = own.jobs.list_job_attempts(job=NAME).items()
        assert [(attempt.seq, attempt.status) for attempt in attempts] == [(1, "completed"), (0, "error")]
        page.names["client"].close()
    assert steps_of_metrics(service.data) == list(range(1, STEPS + 1))
