"""Following a job: the plan with a clock that is moved, and both drivers against a real server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.nemo_helix_plugin.client.scripted import Answer, Asked, Scripted, job, line

from nemo_helix_plugin.client import errors
from nemo_helix_plugin.client.client import NemoClient
from nemo_helix_plugin.client.watch import Wait, WatchCall, WatchOptions, ends, follow
from nemo_helix_plugin.jobs import types, watch_types

NAME = "automodel-a1b2c3d4e5f6"
JOB = f"/apis/jobs/v2/workspaces/default/jobs/{NAME}"
DEADLINE = 30.0

AWAY = errors.NemoTransportError("no service answers")


def unavailable(status: int = 503) -> errors.NemoHTTPError:
    return errors.for_status(status)(f"answered {status}", status_code=status)


class Drive:
    """Runs a plan by itself: statuses and log pages come from lists, waiting moves the clock."""

    def __init__(
        self, statuses: list[Any], pages: Callable[[dict[str, Any]], Any] | None = None, **options: Any
    ) -> None:
        self.clock = 0.0
        self.statuses = statuses
        self.pages = pages or (lambda query: {"data": []})
        self.waits: list[Wait] = []
        self.queries: list[dict[str, Any]] = []
        self.options = WatchOptions(**options)

    def run(self) -> list[watch_types.JobWatchEvent]:
        plan = follow(NAME, "default", self.options, lambda: self.clock)
        found: list[watch_types.JobWatchEvent] = []
        step = next(plan)
        try:
            while True:
                if isinstance(step, WatchCall):
                    answer = self._answer(step)
                    step = plan.throw(answer) if isinstance(answer, Exception) else plan.send(answer)
                elif isinstance(step, Wait):
                    self.waits.append(step)
                    self.clock += step.seconds
                    step = plan.send(None)
                else:
                    found.append(step)
                    step = plan.send(None)
        except StopIteration:
            return found

    def _answer(self, step: WatchCall) -> Any:
        if step.call.request.path.endswith("/logs"):
            query = dict(step.call.request.query)
            self.queries.append(query)
            page = self.pages(query)
            return page if isinstance(page, Exception) else types.HelixJobLogPage.model_validate(page)
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if isinstance(status, Exception):
            return status
        fields = status if isinstance(status, dict) else {"status": status}
        return types.HelixJobResponse.model_validate(job(**fields))


def told(events: list[watch_types.JobWatchEvent]) -> list[str]:
    return [
        str(event.status) if isinstance(event, watch_types.JobStatusEvent) else event.message
        for event in events
    ]


@pytest.mark.parametrize(
    ("status", "successful"), [("completed", True), ("error", False), ("cancelled", False), ("paused", False)]
)
def test_a_watch_ends_with_the_status_that_ends_it(status: str, successful: bool) -> None:
    *_, last = Drive(["active", status]).run()
    assert isinstance(last, watch_types.JobStatusEvent)
    assert (last.status, last.terminal, last.successful) == (status, True, successful)


def test_every_change_is_told_once_across_pause_and_resume() -> None:
    statuses = [
        "queued",
        "active",
        "active",
        "pausing",
        "paused",
        "paused",
        "resuming",
        "active",
        "completed",
    ]
    drive = Drive(statuses, through_pauses=True)
    told_now = told(drive.run())
    assert told_now == ["queued", "active", "pausing", "paused", "resuming", "active", "completed"]
    assert {wait.seconds for wait in drive.waits} == {3.0}


@pytest.mark.parametrize(("wanted", "steps"), [(False, [1, 3]), (True, [1, 2, 3])])
def test_progress_is_told_to_who_asks_for_it(wanted: bool, steps: list[int]) -> None:
    statuses = [{"status": "active", "status_details": {"step": step}} for step in (1, 2, 2)]
    drive = Drive(
        [*statuses, {"status": "completed", "status_details": {"step": 3}}], include_progress=wanted
    )
    found = [event.status_details for event in drive.run() if isinstance(event, watch_types.JobStatusEvent)]
    assert found == [{"step": step} for step in steps]


def test_a_rerun_is_told_even_where_the_status_is_the_same() -> None:
    second = {"status": "active", "attempt_id": "second"}
    events = Drive(["active", second, {"status": "completed", "attempt_id": "second"}]).run()
    attempts = [event.attempt_id for event in events if isinstance(event, watch_types.JobStatusEvent)]
    assert attempts == ["platform-job-attempt-1", "second", "second"]


def test_a_status_that_nobody_knows_does_not_end_a_watch() -> None:
    assert told(Drive(["hibernating", "completed"]).run()) == ["hibernating", "completed"]
    assert not ends("hibernating")


def test_lines_come_before_the_status_that_ends_the_watch_and_none_twice() -> None:
    log = [line(n) for n in range(2)]

    def pages(query: dict[str, Any]) -> dict[str, Any]:
        found = {"data": list(log)}
        log.append(line(len(log)))
        return found

    events = Drive(["active", "active", "completed"], pages).run()
    assert told(events) == ["active", "line 0", "line 1", "line 2", "line 3", "completed"]


def test_cursors_are_followed_and_the_last_page_is_asked_again_from_where_it_was_read() -> None:
    log = [line(n) for n in range(5)]

    def pages(query: dict[str, Any]) -> dict[str, Any]:
        start = int(query.get("page_cursor") or 0)
        found = log[start : start + 2]
        end = start + len(found)
        return {"data": found, "next_page": str(end) if end < len(log) else None}

    drive = Drive(["active", "active", "completed"], pages, limit=2)
    events = drive.run()
    assert [text for text in told(events) if text.startswith("line")] == [f"line {n}" for n in range(5)]
    assert [query.get("page_cursor") for query in drive.queries] == [None, "2", "4", "4", "4"]


def test_a_cursor_that_is_refused_starts_the_log_anew_without_repeating_lines() -> None:
    log = [line(n) for n in range(4)]
    refused: list[str] = []

    def pages(query: dict[str, Any]) -> Any:
        cursor = query.get("page_cursor")
        if cursor == "2" and not refused:
            refused.append(cursor)
            return unavailable(422)
        return {"data": log[2:]} if cursor else {"data": log[:2], "next_page": "2"}

    events = Drive(["active", "completed"], pages).run()
    assert told(events) == ["active", "line 0", "line 1", "line 2", "line 3", "completed"]
    assert refused == ["2"]


def test_a_cursor_of_the_caller_that_is_refused_is_the_callers_error() -> None:
    with pytest.raises(errors.UnprocessableEntityError):
        Drive(["active"], lambda query: unavailable(422), page_cursor="mine").run()


def test_equal_lines_are_all_told() -> None:
    events = Drive(["completed"], lambda query: {"data": [line(1), line(1), line(1)]}).run()
    assert told(events) == ["line 1"] * 3 + ["completed"]


def test_without_history_only_what_comes_later_is_told() -> None:
    log = [line(n) for n in range(3)]

    def pages(query: dict[str, Any]) -> dict[str, Any]:
        found = {"data": list(log)}
        log.append(line(len(log)))
        return found

    events = Drive(["active", "completed"], pages, include_history=False).run()
    assert told(events) == ["active", "line 3", "completed"]


def test_without_logs_none_are_asked_for() -> None:
    drive = Drive(["active", "completed"], include_logs=False)
    drive.run()
    assert drive.queries == []


def test_a_service_that_is_away_is_waited_for_ever_longer_and_said_once() -> None:
    drive = Drive(["active", *[AWAY] * 7, unavailable(), "completed"])
    assert told(drive.run()) == ["active", "no service answers", "answered 503", "completed"]
    waits = [wait.seconds for wait in drive.waits if wait.failed]
    assert waits == [3.0, 6.0, 12.0, 24.0, 30.0, 30.0, 30.0, 30.0]


def test_a_short_interval_does_not_hammer_a_service_that_is_away() -> None:
    drive = Drive(["active", AWAY, AWAY, "completed"], poll_interval=0.1)
    drive.run()
    assert [wait.seconds for wait in drive.waits if wait.failed] == [1.0, 2.0]


@pytest.mark.parametrize("error", [AWAY, unavailable(404), unavailable(503)])
def test_the_first_question_is_not_asked_for_ever(error: Exception) -> None:
    with pytest.raises(type(error)):
        Drive([error]).run()


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_what_does_not_pass_by_itself_ends_the_watch(status: int) -> None:
    with pytest.raises(errors.NemoHTTPError):
        Drive(["active", unavailable(status)]).run()


def test_logs_that_cannot_be_had_at_the_end_are_tried_three_times() -> None:
    drive = Drive(["completed"], lambda query: unavailable(503))
    assert told(drive.run()) == ["answered 503", "completed"]
    assert len(drive.queries) == 3


def test_a_log_that_fails_inside_the_service_is_warned_of_and_the_watch_goes_on() -> None:
    assert told(Drive(["active", "completed"], lambda query: unavailable(500)).run()) == [
        "active",
        "answered 500",
        "completed",
    ]


@pytest.mark.parametrize("statuses", [["active"], ["active", AWAY]])
def test_a_watch_that_runs_out_of_time_says_what_the_job_is(statuses: list[Any]) -> None:
    drive = Drive(statuses, timeout=7)
    with pytest.raises(
        watch_types.JobWatchTimeoutError, match=f"{NAME} did not end within 7 seconds; it is active"
    ):
        drive.run()
    assert drive.clock == pytest.approx(7)
    assert all(wait.longest <= 7 for wait in drive.waits)


class Story:
    """A job on a real server: statuses move on when the test says so, and watchers hear of it."""

    def __init__(self, service: Scripted, *, events: bool) -> None:
        self.status = "active"
        self.lines = 1
        self.changed = threading.Condition()
        self.listening = threading.Event()
        self.done = threading.Event()
        self.with_events = events
        service.by_rule = self.answer

    def answer(self, asked: Asked) -> Answer | None:
        if asked.path == JOB:
            return Answer(job(self.status))
        if asked.path == f"{JOB}/logs":
            return Answer({"data": [line(n) for n in range(self.lines)]})
        if asked.path == f"{JOB}/events" and self.with_events:
            return Answer(stream=self.play)
        return None

    def play(self, send: Callable[[str], None]) -> None:
        seen = ""
        self.listening.set()
        with self.changed:
            while not self.done.is_set():
                if self.status != seen:
                    seen = self.status
                    body = f'{{"id":"x","name":"{NAME}","workspace":"default","status":"{seen}"}}'
                    send(f"event: job\ndata: {body}\n\n")
                self.changed.wait(0.05)

    def move(self, status: str) -> None:
        with self.changed:
            self.status, self.lines = status, self.lines + 1
            self.changed.notify_all()


@pytest.mark.slow
def test_events_end_a_wait_that_would_have_been_long(service: Scripted) -> None:
    story = Story(service, events=True)
    started = time.monotonic()
    with NemoClient(base_url=service.base_url, workspace="default") as client:
        watch = client.jobs.watch_job(name=NAME, poll_interval=600)
        found = [next(watch)]
        assert story.listening.wait(DEADLINE) or next(watch)
        for status in ("pausing", "completed"):
            threading.Timer(0.3, story.move, [status]).start()
            while True:
                event = next(watch)
                found.append(event)
                if isinstance(event, watch_types.JobStatusEvent):
                    break
    story.done.set()
    assert told(found) == ["active", "line 0", "pausing", "line 1", "line 2", "completed"]
    assert time.monotonic() - started < DEADLINE


def test_without_events_polling_is_enough(service: Scripted) -> None:
    story = Story(service, events=False)
    found = []
    with NemoClient(base_url=service.base_url, workspace="default") as client:
        for event in client.jobs.watch_job(name=NAME, poll_interval=0.01):
            found.append(event)
            if event.kind == "log" and event.message == "line 0":
                story.move("completed")
    assert told(found) == ["active", "line 0", "line 1", "completed"]


def test_a_watch_that_is_left_hangs_up(service: Scripted) -> None:
    story = Story(service, events=True)
    with NemoClient(base_url=service.base_url, workspace="default") as client:
        watch = client.jobs.watch_job(name=NAME, poll_interval=600)
        assert told([next(watch), next(watch)]) == ["active", "line 0"]
        assert story.listening.wait(DEADLINE)
        watch.close()  # type: ignore[attr-defined]
    assert [thread for thread in threading.enumerate() if thread.name == "nemo-watch"] == []
    story.done.set()


def test_the_asynchronous_watch_tells_the_same(service: Scripted) -> None:
    story = Story(service, events=True)

    async def main() -> list[watch_types.JobWatchEvent]:
        with NemoClient(base_url=service.base_url, workspace="default") as client:
            asynchronous = client.to_async()
        found = []
        async with asynchronous as client_:
            async for event in client_.jobs.watch_job(name=NAME, poll_interval=0.05):
                found.append(event)
                if event.kind == "log" and event.message == "line 0":
                    await asyncio.get_running_loop().run_in_executor(None, story.move, "completed")
        return found

    assert told(asyncio.run(main())) == ["active", "line 0", "line 1", "completed"]
    story.done.set()
