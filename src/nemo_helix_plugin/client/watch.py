"""Following a job to its end, as a plan: what to ask, what to say, how long to wait; it does none of it.

`follow` yields events for the caller, and `WatchCall` and `Wait` for the code that drives it (`watching`),
with or without ``await``. So the rules are here once.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from nemo_helix_plugin.client import errors
from nemo_helix_plugin.client.calls import job_parts, jobs
from nemo_helix_plugin.client.calls.call import Call
from nemo_helix_plugin.jobs import types, watch_types

LONGEST_BACKOFF = 30.0
POLL_WITH_STREAM = 10.0
"""Seconds between polls while a driver hears of changes, which it relies on."""
LOG_PAGE = 1000
LAST_DRAIN_TRIES = 3
REMEMBERED_LINES = 50_000

_TRANSIENT = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """How a job is watched, and which lines of its log."""

    poll_interval: float = 3.0
    timeout: float | None = None
    include_history: bool = True
    """Whether lines from before the watch are yielded too."""
    include_logs: bool = True
    attempt_id: str | None = None
    step_id: str | None = None
    """The step's name."""
    task_id: str | None = None
    limit: int | None = None
    """Lines a page."""
    page_cursor: str | None = None
    """Where the log is read from."""
    through_pauses: bool = False
    """Whether a pause is waited out; otherwise the watch ends there."""
    include_progress: bool = False
    """Whether changed status details alone are an event, too: for who shows progress."""


@dataclass(frozen=True, slots=True)
class WatchCall:
    """Make this call, and send its data back or throw its error."""

    call: Call[Any, Any]
    patient: bool = True
    """Whether failures are dealt with here, so that the driver does not repeat the call itself."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Let time pass."""

    seconds: float
    longest: float
    """The same for a driver that hears of changes, which end the wait early."""
    failed: bool = False
    """Whether this follows a failure, which changes do not cut short."""


Plan = Generator[WatchCall | Wait | watch_types.JobWatchEvent, Any, None]


def follow(name: str, workspace: str | None, options: WatchOptions, now: Callable[[], float]) -> Plan:
    """The plan of a watch; raises `JobWatchTimeoutError`, and any `NemoClientError` that does not pass."""
    watch = _Watch(name, workspace, options, now)
    return watch.plan()


def ends(status: str, *, through_pauses: bool = False) -> bool:
    """Whether a watch ends at this status."""
    return status in types.TERMINAL or (status == types.HelixJobStatus.PAUSED and not through_pauses)


def is_transient(error: Exception) -> bool:
    """Whether an error passes by itself: the service restarts, or something on the way to it does."""
    if isinstance(error, errors.NemoHTTPError):
        return error.status_code in _TRANSIENT
    return isinstance(error, errors.NemoTransportError) and not isinstance(error, errors.CertificateError)


class _Watch:
    def __init__(
        self, name: str, workspace: str | None, options: WatchOptions, now: Callable[[], float]
    ) -> None:
        self.name, self.workspace, self.options, self.now = name, workspace, options, now
        self.deadline = None if options.timeout is None else now() + options.timeout
        self.status = "unknown"
        self.warned: set[str] = set()
        self.log = _Log(options)

    def plan(self) -> Plan:
        last: tuple[object, ...] | None = None
        call = jobs.get_job(name=self.name, workspace=self.workspace)
        while True:
            job: types.HelixJobResponse = yield from self.asked(call, patient=last is not None)
            self.status = str(job.status)
            over = ends(job.status, through_pauses=self.options.through_pauses)
            details = job.status_details if self.options.include_progress else None
            before, last = last, (job.status, job.attempt_id, job.reason, details)
            if before != last and not over:
                yield _status_event(job, over=False)
            if self.options.include_logs:
                yield from self.drained(LAST_DRAIN_TRIES if over else None)
            if over:
                yield _status_event(job, over=True)
                return
            yield from self.waited(self.options.poll_interval)

    def asked(
        self, call: Call[Any, Any], *, patient: bool = True, tries: int | None = None
    ) -> Generator[WatchCall | Wait | watch_types.JobWatchEvent, Any, Any]:
        """The data of a call, after as many tries as it takes."""
        failures = 0
        while True:
            try:
                return (yield WatchCall(call, patient))
            except errors.NemoClientError as error:
                failures += 1
                if not patient or not is_transient(error) or failures == tries:
                    raise
                message = str(error)
            if message not in self.warned:
                self.warned.add(message)
                yield watch_types.JobWarningEvent(job_name=self.name, message=message)
            pause = max(self.options.poll_interval, 1.0) * 2.0 ** (failures - 1)
            yield from self.waited(min(pause, LONGEST_BACKOFF), failed=True)

    def waited(self, seconds: float, *, failed: bool = False) -> Plan:
        """Wait, but not past the time that the watch was given."""
        left = None if self.deadline is None else self.deadline - self.now()
        if left is not None and left <= 0:
            limit = f"within {self.options.timeout:g} seconds"
            raise watch_types.JobWatchTimeoutError(
                f"the job {self.name} did not end {limit}; it is {self.status}"
            )
        longest = max(seconds, POLL_WITH_STREAM)
        if left is None:
            yield Wait(seconds, longest, failed)
        else:
            yield Wait(min(seconds, left), min(longest, left), failed)

    def drained(self, tries: int | None) -> Plan:
        """Everything that the log has by now."""
        while True:
            query = self.log.query()
            call = job_parts.list_job_logs(name=self.name, query_params=query, workspace=self.workspace)
            try:
                page: types.HelixJobLogPage = yield from self.asked(call, tries=tries)
            except errors.NemoClientError as error:
                if self.log.restarted(error):
                    continue
                if isinstance(error, errors.NemoHTTPError) and error.status_code < 500:
                    raise
                yield from self._warning(str(error))
                break
            for line in self.log.new_lines(page):
                yield _log_event(self.name, line)
            if self.log.at_end:
                break
        self.log.caught_up()

    def _warning(self, message: str) -> Plan:
        if message not in self.warned:
            self.warned.add(message)
            yield watch_types.JobWarningEvent(job_name=self.name, message=message)


class _Log:
    """How far a log has been read; no line comes twice, and none is left out."""

    def __init__(self, options: WatchOptions) -> None:
        self.options = options
        self.cursor = options.page_cursor
        self.read = 0
        """Lines of the page at the cursor that were read already."""
        self.at_end = False
        self.silent = not options.include_history
        self.recent: collections.deque[tuple[object, ...]] = collections.deque(maxlen=REMEMBERED_LINES)
        self.again: collections.Counter[tuple[object, ...]] | None = None
        """After a restart: lines that were yielded before it."""

    def query(self) -> types.JobLogsQueryParams:
        return types.JobLogsQueryParams(
            limit=self.options.limit or LOG_PAGE,
            page_cursor=self.cursor,
            attempt_id=self.options.attempt_id,
            step_id=self.options.step_id,
            task_id=self.options.task_id,
        )

    def restarted(self, error: errors.NemoClientError) -> bool:
        """Begin again if the error says that the cursor cannot be used any more."""
        refused = isinstance(error, errors.BadRequestError | errors.UnprocessableEntityError)
        if not refused or self.cursor is None or self.cursor == self.options.page_cursor:
            return False
        self.cursor, self.read = None, 0
        self.again = collections.Counter(self.recent)
        return True

    def new_lines(self, page: types.HelixJobLogPage) -> list[types.HelixJobLog]:
        """The lines of a page that were not yielded yet; moves on to the next page."""
        lines = [line for line in page.data[self.read :] if not self._was_seen(line)]
        self.recent.extend(_identity(line) for line in lines)
        if page.next_page:
            self.cursor, self.read, self.at_end = page.next_page, 0, not page.data
        else:
            self.read, self.at_end = max(self.read, len(page.data)), True
        return [] if self.silent else lines

    def caught_up(self) -> None:
        """Everything of before has been read."""
        self.silent, self.again = False, None

    def _was_seen(self, line: types.HelixJobLog) -> bool:
        if self.again is None or not self.recent:
            return False
        identity = _identity(line)
        if self.again[identity] > 0:
            self.again[identity] -= 1
            return True
        forgotten = len(self.recent) == REMEMBERED_LINES
        return forgotten and line.timestamp.timestamp() < float(str(self.recent[0][0]))


def _identity(line: types.HelixJobLog) -> tuple[object, ...]:
    return (line.timestamp.timestamp(), line.job_task, hash(line.message))


def _status_event(job: types.HelixJobResponse, *, over: bool) -> watch_types.JobStatusEvent:
    return watch_types.JobStatusEvent(
        job_name=job.name,
        status=job.status,
        reason=job.reason,
        status_details=job.status_details,
        error_details=job.error_details,
        attempt_id=job.attempt_id,
        since=job.stopped_at,
        terminal=over,
        successful=over and job.status == types.HelixJobStatus.COMPLETED,
    )


def _log_event(name: str, line: types.HelixJobLog) -> watch_types.JobLogEvent:
    return watch_types.JobLogEvent(
        job_name=name,
        timestamp=line.timestamp,
        step_id=line.job_step,
        task_id=line.job_task,
        message=line.message,
    )
