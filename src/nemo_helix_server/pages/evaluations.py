"""The evaluations that the service shows, and who may see them.

Jobs belong to workspaces; evaluations are files. So the settings say for each directory of evaluations which
workspace it belongs to. What they say of none, and what the service's own user submitted, only those see who
may do everything.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

from starlette.requests import Request

from nemo_gym.pages.evaluations.routes import evaluation_versions
from nemo_gym.pages.index.known_runs import KnownRun
from nemo_gym.pages.index.observer import EvaluationIndex
from nemo_gym.pages.run_observer import show_evaluations
from nemo_helix_plugin.access.roles import Role
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.settings import PagesSettings
from nemo_pages.runs.table import RunTable
from nemo_pages.runs.visibility import RunVisibility
from nemo_runs.clock import Clock

IDLE_AFTER: Final = 600.0
"""Seconds after which nobody is taken to look any more."""


def visibility_of(caller: Caller) -> RunVisibility:
    """Which runs a caller may see: what belongs to no workspace only an admin of the whole service."""
    is_admin = caller.workspace is None and caller.role == Role.ADMIN
    return RunVisibility(workspace=caller.workspace, unassigned=is_admin)


class ServiceEvaluations:
    """Reads evaluations behind the pages, while anybody looks at these."""

    def __init__(self, given: PagesSettings, table: RunTable, clock: Clock) -> None:
        self._clock = clock
        self._workspaces = {entry.folder: entry.workspace or "" for entry in given.evaluations}
        self._wanted_at: float | None = None
        self._lock = threading.Lock()
        self.is_shown = bool(given.evaluations) or given.submitted_evaluations
        """Whether there can be any."""
        self.index = EvaluationIndex(
            list(self._workspaces), records=given.submitted_evaluations, wanted=self._is_wanted
        )
        if self.is_shown:
            show_evaluations(self.index, table, self.workspace_of)

    def workspace_of(self, run: KnownRun) -> str:
        """The workspace that a run belongs to; empty: none."""
        return self._workspaces.get(run.root, "") if run.root is not None else ""

    def may_see(self, caller: Caller, run: KnownRun) -> bool:
        """Whether a caller may see a run."""
        return visibility_of(caller).includes(self.workspace_of(run))

    def is_visible(self, request: Request, run: KnownRun) -> bool:
        """The same of who sent a request that was let through."""
        return self.may_see(request.state.page_caller, run)

    def versions(self, caller: Caller, topics: Sequence[str]) -> Mapping[str, str]:
        """The versions of those topics that are evaluations which a caller may see."""
        return evaluation_versions(self.index, topics, lambda run: self.may_see(caller, run))

    def wanted(self) -> None:
        """Somebody looks: begin, or go on."""
        with self._lock:
            began, self._wanted_at = self._wanted_at is not None, self._clock.monotonic()
        if self.is_shown and not began:
            self.index.start()

    def close(self) -> None:
        """End the looking."""
        self.index.close()

    def _is_wanted(self) -> bool:
        return self._wanted_at is not None and self._clock.monotonic() - self._wanted_at <= IDLE_AFTER
