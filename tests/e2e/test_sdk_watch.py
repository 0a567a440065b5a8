"""A watch of a real training through pause, resume and a killed service: nothing missed, nothing twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.jobs_service import NAME, JobsService, training_job

from nemo_helix_plugin.client.client import NemoClient
from nemo_helix_plugin.jobs import watch_types

pytestmark = pytest.mark.e2e

DEADLINE = 120.0


@pytest.fixture
def service(tmp_path: Path) -> Iterator[JobsService]:
    started = JobsService(tmp_path)
    started.start()
    yield started
    started.stop()


class Watcher:
    """Watches in a thread, and keeps what it is told."""

    def __init__(self, client: NemoClient) -> None:
        self.events: list[watch_types.JobWatchEvent] = []
        self.error: BaseException | None = None
        self._client = client
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        try:
            for event in self._client.jobs.watch_job(
                name=NAME, timeout=DEADLINE, poll_interval=1, through_pauses=True
            ):
                self.events.append(event)
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.error = error

    def statuses(self) -> list[str]:
        return [str(event.status) for event in self.events if isinstance(event, watch_types.JobStatusEvent)]

    def lines(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, watch_types.JobLogEvent)]

    def ended(self) -> bool:
        return not self._thread.is_alive()

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + DEADLINE
        while not condition():
            assert self.error is None, self.error
            assert time.monotonic() < end, self.events[-5:]
            time.sleep(0.02)


def test_a_watch_goes_on_through_pause_resume_and_a_killed_service(service: JobsService) -> None:
    with NemoClient(base_url=service.url, workspace="default") as client:
        client.jobs.create_job(body=training_job(steps=120, step_seconds=0.05, save_every=10))
        watcher = Watcher(client)
        watcher.until(lambda: "active" in watcher.statuses() and bool(watcher.lines()))
        client.jobs.pause_job(name=NAME)
        watcher.until(lambda: "paused" in watcher.statuses())
        client.jobs.resume_job(name=NAME)
        watcher.until(lambda: watcher.statuses()[-1] == "active")
        service.kill()
        watcher.until(lambda: watcher.events[-1].kind == "warning")
        service.start()
        watcher.until(watcher.ended)
        assert watcher.error is None
        whole = [line.message for line in client.jobs.list_job_logs(name=NAME).items()]
    known = [
        "created",
        "pending",
        "active",
        "pausing",
        "paused",
        "resuming",
        "pending",
        "active",
        "completed",
    ]
    seen = watcher.statuses()
    rest = iter(known)
    assert all(status in rest for status in seen), (
        seen
    )  # in this order; short ones may pass between two looks
    assert {"paused", "completed"} <= set(seen)
    assert watcher.lines() == whole
    assert isinstance(watcher.events[-1], watch_types.JobStatusEvent)
    assert watcher.events[-1].successful
