"""What the page of a job shows, from the same answers as the API's, in the words of the commands."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nemo_helix_plugin.access.roles import Role
from nemo_helix_plugin.job_words import deciding, evaluating, job_state, times, trained_models
from nemo_helix_plugin.job_words.curves import ChartMark, marks_of
from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs.action_rules import JobAction
from nemo_helix_server.jobs.ports import StorageLimits
from nemo_helix_server.pages import rows
from nemo_helix_server.pages.charts import Chart, charts_of
from nemo_helix_server.service.acting import ActionOffer
from nemo_helix_server.service.checkpoint_catalogue import CheckpointCatalogue
from nemo_helix_server.service.jobs import JobsService
from nemo_pages.runs.rows import RunRow
from nemo_runs.durations import duration_in_words

Record = Mapping[str, Any]
EVENTS_SHOWN = 50
MOST_EVENTS = 10_000
MOST_ATTEMPTS = 200
_WINDOWS = (3600, 4 * 3600, 86_400, 3 * 86_400, 7 * 86_400, 14 * 86_400, 30 * 86_400, 90 * 86_400)
_TITLES = {JobAction.CONTROL: "Keep storage longer"}
_DRAWN = 1000
"""The width of the drawing of the starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageAction:
    """A button, with what it would do, or why it is not there."""

    name: str
    title: str
    does: str
    loses: str
    refusal: str | None
    is_destructive: bool
    windows: Sequence[tuple[int, str]] = ()
    """Of the storage window: how many seconds it may be set to, each in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartBar:
    """One start of a step in the drawing of a job's time."""

    x: float
    width: float
    end: str
    row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Everything on the page."""

    job: Record
    row: RunRow
    seen: str
    """What a form sends back, so that nothing is done to a job that has changed meanwhile."""
    lines: Sequence[tuple[str, str]]
    """Words about it, each with its label."""
    warnings: Sequence[str]
    trackers: Sequence[tuple[str, str, str | None]]
    """Name, text, and address where there is one that a browser may follow."""
    storage: str
    actions: Sequence[PageAction]
    steps: Sequence[Record]
    attempts: Sequence[Record]
    bill: Record
    bars: Sequence[StartBar]
    marks: Sequence[ChartMark]
    charts: Sequence[Chart]
    evaluations: Sequence[Record]
    """Scores of checkpoints while it trained, in words."""
    answers: Sequence[Record]
    """Fixed prompts, each with its answers by step."""
    checkpoints: Sequence[Record]
    results: Sequence[Record]
    events: Sequence[Record]
    """The newest first."""
    more_events: bool


def job_page(
    service: JobsService,
    catalogue: CheckpointCatalogue,
    workspace: str,
    name: str,
    *,
    now: datetime,
    may_operate: bool,
    role: str,
    all_events: bool = False,
) -> JobPage:
    """Read everything about a job; raises `UnknownNameError`."""
    job = service.get(workspace, name)
    bill = service.bill(workspace, name)
    tree = service.status(workspace, name)
    marks = marks_of(bill)
    history = service.transitions(workspace, name, limit=MOST_EVENTS)["data"][::-1]
    refusals = service.rerun_refusals(workspace, name)
    no_role = None if may_operate else f"your role is {role}, and this needs {Role.OPERATE.value}"
    checkpoints = [
        {**one, "refusal": no_role or refusals.get(one["id"]), "may_pin": may_operate}
        for one in catalogue.all(workspace, name)["data"]
    ]
    details = job_state.details(job)
    return JobPage(
        job=job,
        row=rows.row_of(job, (), now),
        seen=seen_of(job),
        lines=list(_lines(job)),
        warnings=list(dict.fromkeys([*job_state.warnings(job), *_of_steps(tree)])),
        trackers=[(name, where, _address(details, name)) for name, where in job_state.runs(job)],
        storage=job_state.kept(job, now),
        actions=[
            _action(offer, job, service.limits, now, no_role) for offer in service.offers(workspace, name)
        ],
        steps=[{**step, "note": job_state.step_note(step)} for step in tree["steps"]],
        attempts=service.attempts(workspace, name, page_size=MOST_ATTEMPTS)["data"],
        bill=bill,
        bars=bars_of(bill, now.timestamp()),
        marks=marks,
        charts=charts_of(details.get("metrics"), marks),
        evaluations=[{**one, "said": evaluating.score(one)} for one in evaluating.rows(details)],
        answers=evaluating.side_by_side(details),
        checkpoints=checkpoints,
        results=service.results(workspace, name)["data"],
        events=history if all_events else history[:EVENTS_SHOWN],
        more_events=len(history) > EVENTS_SHOWN and not all_events,
    )


def seen_of(job: Record) -> str:
    """What of a job an action was decided upon: its attempt and status."""
    return f"{job['attempt_id']} {job['status']}"


def _lines(job: Record) -> list[tuple[str, str]]:
    found = job_state.details(job)
    said = [
        ("Progress", job_state.progress(found)),
        ("Losses", job_state.losses(found)),
        ("Speed", job_state.speed(found, going_on=job["status"] == HelixJobStatus.ACTIVE)),
        ("Goes on", job_state.goes_on(found)),
        ("Saves", job_state.saves(found)),
        ("Best checkpoint", deciding.best_checkpoint(found)),
        ("Ends early", deciding.early_stopping(found)),
        ("Evaluated", evaluating.evaluation(found)),
        ("Reason", job_state.reason(job)),
        ("Error", job_state.failure(job)),
        ("Log ends", job_state.last_log_line(job)),
        ("Advice", job_state.advice(job)),
        ("Next", job_state.how_it_goes_on(job) if HelixJobStatus(job["status"]).is_settled else ""),
        ("Model", trained_models.trained_model(job)),
        ("With the model", "; ".join(trained_models.model_commands(job))),
        ("Description", str(job.get("description") or "")),
        ("Project", str(job.get("project") or "")),
        ("Source", str(job.get("source") or "")),
    ]
    return [(label, text) for label, text in said if text]


def _of_steps(tree: Record) -> list[str]:
    return [text for step in tree["steps"] for text in job_state.warnings(step)]


def _address(details: Record, name: str) -> str | None:
    """The address of a tracker's run, unless it is one that a browser would run as a program."""
    key = next((key for key, title in job_state.TRACKERS.items() if title == name), "")
    run = details.get(f"{key}_run")
    url = run.get("url") if isinstance(run, Mapping) else None
    try:
        good = isinstance(url, str) and urllib.parse.urlsplit(url).scheme in {"http", "https"}
    except ValueError:
        return None
    return url if good and isinstance(url, str) else None


def _action(
    offer: ActionOffer, job: Record, limits: StorageLimits, now: datetime, no_role: str | None
) -> PageAction:
    is_control = offer.action is JobAction.CONTROL
    windows = _windows(job, limits, now) if is_control else ()
    refusal = no_role or offer.refusal
    if is_control and refusal is None and not windows:
        refusal = "no window of the job's storage runs or can begin any more, or it is the longest already"
    return PageAction(
        name=offer.action.value,
        title=_TITLES.get(offer.action, offer.action.value.capitalize()),
        does=offer.does,
        loses=offer.loses,
        refusal=refusal,
        is_destructive=offer.action in {JobAction.CANCEL, JobAction.DELETE},
        windows=windows,
    )


def window_key(job: Record) -> str:
    """Which of its windows is the one that runs, or that would begin next by a pause."""
    failed = HelixJobStatus(job["status"]) is HelixJobStatus.ERROR
    return "failed_ttl_seconds" if failed else "pause_ttl_seconds"


def _windows(job: Record, limits: StorageLimits, now: datetime) -> list[tuple[int, str]]:
    """The windows to choose from; of one that runs only those that end later than it does."""
    if HelixJobStatus(job["status"]).is_final and job.get("storage_expires_at") is None:
        return []
    stopped, until = times.parsed(job.get("stopped_at")), times.parsed(job.get("storage_expires_at"))
    most = limits.maximum_pause_ttl_seconds
    found = []
    for seconds in sorted({*(one for one in _WINDOWS if one < most), most}):
        words = duration_in_words(seconds)
        if until is None or stopped is None:
            found.append((seconds, f"{words} from the next pause"))
        elif (ends := stopped.timestamp() + seconds) > max(until.timestamp() + 1, now.timestamp()):
            at = datetime.fromtimestamp(ends, now.tzinfo)
            found.append((seconds, f"{words} in all, until {times.minute(at)}"))
    return found


def bars_of(bill: Record, now: float) -> list[StartBar]:
    """The starts of a job as bars of one drawing; one row for each step of each attempt."""
    lines = [
        (line, began, rows.seconds(line["ended_at"]) or now)
        for line in bill["allocations"]
        if (began := rows.seconds(line["began_at"])) is not None
    ]
    if not lines:
        return []
    first = min(began for _, began, _ in lines)
    span = max(max(ended for _, _, ended in lines) - first, 1e-3)
    places: dict[tuple[int, str], int] = {}
    return [
        StartBar(
            x=round((began - first) / span * _DRAWN, 1),
            width=max(round((ended - began) / span * _DRAWN, 1), 3.0),
            end=str(line["end"] or "running"),
            row=places.setdefault((line["attempt"], line["step"]), len(places)),
        )
        for line, began, ended in lines
    ]
