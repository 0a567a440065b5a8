"""The pages of jobs: the list, one job, its log, and what its buttons send."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from pydantic import ValidationError
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from nemo_helix_plugin.access.roles import Role
from nemo_helix_plugin.job_words import tags
from nemo_helix_plugin.jobs.names import ALL
from nemo_helix_plugin.jobs.types import HelixJobStatus, JobControl, UpdateHelixJobRequest
from nemo_helix_server.api.parts import ServiceParts
from nemo_helix_server.auth import roles
from nemo_helix_server.errors import InvalidError, ServerError, StateConflictError
from nemo_helix_server.logs.pages import Selection
from nemo_helix_server.pages import job_view, listing, rows, spec_diff
from nemo_helix_server.pages.guard import PageGuard, PageVisit
from nemo_helix_server.pages.versions import JOB_TOPIC, JOBS, LOG_TOPIC, PageVersions
from nemo_pages.links import ServedLinks
from nemo_pages.rendering import Rendering, is_partial
from nemo_pages.runs.rows import StateGroup
from nemo_runs.clock import SECOND

LOG_LINES = 200
JOB = "/jobs/{workspace}/{job}"
_DONE = {
    "pause": "Asked to pause.",
    "resume": "Asked to resume.",
    "rerun": "Asked to run again.",
    "cancel": "Asked to cancel.",
    "control": "The storage window is changed.",
    "pin": "Asked to pin the checkpoint.",
    "unpin": "Asked to unpin the checkpoint.",
    "annotate": "Tags and note are kept.",
    "delete": "Asked to delete; the job disappears when its files are removed.",
}


@dataclass(frozen=True, slots=True)
class JobPages:
    """Endpoints of the pages of jobs; each is called in a thread."""

    parts: ServiceParts
    rendering: Rendering
    root_path: str
    versions: PageVersions

    def routes(self, guard: PageGuard) -> list[BaseRoute]:
        """All of them."""
        operates = Role.OPERATE
        changes: Mapping[str, Callable[[PageVisit], Response]] = {
            "pause": self.pause,
            "resume": self.resume,
            "rerun": self.rerun,
            "cancel": self.cancel,
            "control": self.control,
            "delete": self.delete,
            "pin": self.pin,
            "unpin": self.unpin,
            "annotate": self.annotate,
        }
        return [
            guard.page("/jobs", self.list),
            guard.page(JOB, self.job),
            guard.page(f"{JOB}/log", self.log),
            *(guard.change(f"{JOB}/{name}", endpoint, operates) for name, endpoint in changes.items()),
        ]

    def list(self, visit: PageVisit) -> Response:
        """The list of jobs."""
        view = listing.JobsView.read(visit.request.query_params, visit.caller.workspace)
        roles.check_workspace(visit.caller, view.workspace)
        known = self.parts.workspaces.names(visit.caller.workspace)
        versions = self.versions.of(visit.caller, [JOBS])  # before what they are versions of is read
        template = "jobs/list.html" if is_partial(visit.request) else "jobs/page.html"
        return self._page(
            visit,
            template,
            known_versions=versions,
            view=view,
            list=listing.jobs_list(self.parts.jobs, view, self._now()),
            here_query=view.query(behind=view.behind, backwards=view.backwards),
            groups=list(StateGroup),
            workspaces=[ALL, *known] if visit.caller.workspace is None else known,
            notice=_DONE.get(visit.query("done"), ""),
        )

    def job(self, visit: PageVisit) -> Response:
        """One job; a script that asks again gets what changes by itself."""
        versions = self._versions(visit)  # before what they are versions of is read
        page = job_view.job_page(
            self.parts.jobs,
            self.parts.checkpoints,
            *self._named(visit),
            now=self._now(),
            may_operate=visit.may(Role.OPERATE),
            role=visit.caller.role,
            all_events=visit.query("events") == "all",
        )
        job = page.job
        values: dict[str, Any] = {
            "page": page,
            "known_versions": versions,
            "created": rows.seconds(job["created_at"]),
            "changed": rows.seconds(job["updated_at"]),
            "group_of": lambda status: rows.group_of(HelixJobStatus(status)),
            "notice": _DONE.get(visit.query("done"), ""),
            "may_annotate": visit.may(Role.OPERATE),
        }
        if is_partial(visit.request):
            return self._page(visit, "jobs/state.html", **values)
        return self._page(
            visit, "jobs/job.html", **values, **self._log(job, ""), **self._configuration(visit, job)
        )

    def log(self, visit: PageVisit) -> Response:
        """Some lines of a job's log."""
        if not is_partial(visit.request):
            return self._back(visit)
        versions = self._versions(visit)
        job = self.parts.jobs.get(*self._named(visit))
        values = self._log(job, visit.query("before"))
        return self._page(visit, "jobs/log.html", known_versions=versions, **values)

    def pause(self, visit: PageVisit) -> Response:
        """See `Acting.pause`."""
        return self._done(visit, "pause", lambda: self.parts.jobs.pause(visit.caller, *self._named(visit)))

    def resume(self, visit: PageVisit) -> Response:
        """See `Acting.resume`."""
        return self._done(visit, "resume", lambda: self.parts.jobs.resume(visit.caller, *self._named(visit)))

    def rerun(self, visit: PageVisit) -> Response:
        """See `Acting.rerun`."""
        checkpoint = visit.form.get("checkpoint") or None
        workspace, name = self._named(visit)
        return self._done(
            visit,
            "rerun",
            lambda: self.parts.jobs.rerun(visit.caller, workspace, name, checkpoint=checkpoint),
        )

    def cancel(self, visit: PageVisit) -> Response:
        """See `Acting.cancel`."""
        return self._done(visit, "cancel", lambda: self.parts.jobs.cancel(visit.caller, *self._named(visit)))

    def control(self, visit: PageVisit) -> Response:
        """See `Acting.control`: of the window that runs, or the one of the next pause."""
        given = visit.form.get("window", "")
        if not (given.isascii() and given.isdigit() and len(given) < 12):
            raise InvalidError("window: it must be a number of seconds; load the page again")
        workspace, name = self._named(visit)
        key = job_view.window_key(self.parts.jobs.get(workspace, name))
        try:
            body = JobControl.model_validate({key: int(given)})
        except ValidationError as error:
            raise InvalidError(f"window: {error.errors()[0]['msg'].lower()}") from error
        return self._done(
            visit, "control", lambda: self.parts.jobs.control(visit.caller, workspace, name, body)
        )

    def delete(self, visit: PageVisit) -> Response:
        """See `Acting.delete`."""
        self._done(visit, "delete", lambda: self.parts.jobs.delete(visit.caller, *self._named(visit)))
        query = {"workspace": visit.path("workspace"), "done": "delete"}
        return RedirectResponse(ServedLinks(self.root_path).url("/jobs", query), HTTPStatus.SEE_OTHER)

    def annotate(self, visit: PageVisit) -> Response:
        """See `Acting.update`: tags and description alone, which change nothing that runs."""
        workspace, name = self._named(visit)
        before = tags.tags_of(self.parts.jobs.get(workspace, name)["custom_fields"])
        wanted = visit.form.get("tags", "").replace(",", " ").split()
        changes = {"add": wanted, "remove": [tag for tag in before if tag not in wanted]}
        try:
            body = UpdateHelixJobRequest.model_validate(
                {"description": visit.form.get("note", ""), "tags": changes}
            )
        except ValidationError as error:
            raise InvalidError(f"tags and note: {error.errors()[0]['msg'].lower()}") from error
        self.parts.jobs.update(visit.caller, workspace, name, body)
        return self._back(visit, done="annotate")

    def pin(self, visit: PageVisit) -> Response:
        """See `CheckpointCatalogue.pin`."""
        return self._pinned(visit, "pin")

    def unpin(self, visit: PageVisit) -> Response:
        """See `CheckpointCatalogue.unpin`."""
        return self._pinned(visit, "unpin")

    def _pinned(self, visit: PageVisit, verb: str) -> Response:
        catalogue = self.parts.checkpoints
        ask = catalogue.pin if verb == "pin" else catalogue.unpin
        checkpoint = visit.form.get("checkpoint", "")
        return self._done(visit, verb, lambda: ask(visit.caller, *self._named(visit), checkpoint))

    def _done(self, visit: PageVisit, verb: str, ask: Callable[[], object]) -> Response:
        """Do what was asked for, unless the job is another one by now than the page said."""
        job = self.parts.jobs.get(*self._named(visit))
        if visit.form.get("seen") != job_view.seen_of(job):
            raise StateConflictError(
                f"job {job['name']} has changed since its page was made: it is {job['status']} now; "
                "look at its page and ask again"
            )
        ask()
        return self._back(visit, done=verb)

    def _back(self, visit: PageVisit, **query: str) -> Response:
        path = rows.path_of(*self._named(visit))
        return RedirectResponse(ServedLinks(self.root_path).url(path, query), HTTPStatus.SEE_OTHER)

    def _versions(self, visit: PageVisit) -> Mapping[str, str]:
        job_id = self.parts.jobs.id_of(*self._named(visit))
        return self.versions.of(visit.caller, [f"{JOB_TOPIC}{job_id}", f"{LOG_TOPIC}{job_id}"])

    def _named(self, visit: PageVisit) -> tuple[str, str]:
        return visit.path("workspace"), visit.path("job")

    def _log(self, job: Mapping[str, Any], before: str) -> dict[str, Any]:
        limit = {"cursor": before, "limit": LOG_LINES} if before else {"tail": LOG_LINES}
        log = self.parts.logs.page(job["workspace"], job["id"], Selection(), **limit)
        return {
            "log": log,
            "log_older": log["prev_page"],
            "log_before": before,
            "job_id": job["id"],
            "path": rows.path_of(job["workspace"], job["name"]),
        }

    def _configuration(self, visit: PageVisit, job: Mapping[str, Any]) -> dict[str, Any]:
        """The configuration, beside that of another job where one is named that this caller may see."""
        against, other, problem = visit.query("against").strip(), None, ""
        if against:
            workspace, _, name = against.rpartition("/")
            try:
                roles.check_workspace(visit.caller, workspace or job["workspace"])
                other = _configured(self.parts.jobs.get(workspace or job["workspace"], name))
            except ServerError as error:
                problem = error.detail
        entries = spec_diff.entries(_configured(job), other)
        return {"against": against, "against_problem": problem, "entries": entries}

    def _page(self, visit: PageVisit, template: str, **values: Any) -> Response:
        return self.rendering.page(visit.request, template, seconds=rows.seconds, **values)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.parts.jobs.clock.now() / SECOND, UTC)


def _configured(job: Mapping[str, Any]) -> dict[str, Any]:
    return {"spec": job["spec"], "platform_spec": job["platform_spec"], "control": job["control"]}
