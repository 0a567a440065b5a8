"""Checks of execution profiles: what the executor of one finds out without a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from nemo_helix_plugin.jobs.platform_spec import Provider
from nemo_helix_server.executors.base import (
    CapacityRequest,
    ExecutorError,
    NeverPossibleError,
    NotConfinedError,
    ResourceNeeds,
)
from nemo_helix_server.executors.dispatch import Executors
from nemo_helix_server.service.profiles import Profiles
from nemo_helix_server.settings import ProfileSettings
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs import findings
from nemo_runs.findings import Finding

_FILE_ACCESS = "file access"


class ProfileChecks:
    """Asks executors about their profiles."""

    def __init__(self, profiles: Profiles, executors: Executors, *, isolated: bool = False) -> None:
        """``isolated``: whether the service keeps steps to their own files."""
        self._profiles = profiles
        self._executors = executors
        self._isolated = isolated

    def check(self, provider: str, profile: str) -> dict[str, Any]:
        """What was found, as it is answered; raises `UnknownNameError` for a profile that is not there."""
        self._profiles.require(provider, profile)
        found = list(self._found(provider, profile))
        return {
            "provider": provider,
            "profile": profile,
            "backend": self._profiles.executor(provider, profile),
            "ok": findings.passed(found),
            "findings": [finding.to_json() for finding in found],
        }

    def _found(self, provider: str, profile: str) -> Sequence[Finding]:
        name = self._profiles.executor(provider, profile)
        try:
            settings = self._profiles.settings(provider, profile)
            found = list(self._file_access(settings, name, f"{provider}/{profile}"))
            return [*found, *self._executors.check(name, settings, cast("Provider", provider))]
        except ExecutorError as error:
            return [findings.problem("executor", f"{error}.")]

    def _file_access(self, settings: ProfileSettings, name: str, profile: str) -> Iterator[Finding]:
        """Whether steps of a profile can be kept to their own files, where the service does that."""
        if not self._isolated:
            return
        if settings.is_shared:
            text = "config.shares_user: steps run as one user, who can read the files and secrets of all jobs"
            yield findings.warning(_FILE_ACCESS, f"{text} there")
            return
        run = StepRun("", "", "", "check", "check", name, profile)
        request = CapacityRequest(run, "check", "", ResourceNeeds(), 0, (0.0, 0), confined=True)
        try:
            self._executors.require_possible(request)
        except NotConfinedError as error:
            yield findings.problem(_FILE_ACCESS, f"{error}.")
        except NeverPossibleError:
            return  # no finding of this kind
