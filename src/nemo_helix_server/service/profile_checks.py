"""Checks of execution profiles: what the executor of one finds out without a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from nemo_helix_plugin.jobs.platform_spec import Provider
from nemo_helix_server.executors import options
from nemo_helix_server.executors.base import (
    CapacityRequest,
    NeverPossibleError,
    NotConfinedError,
    ResourceNeeds,
    StepExecutor,
)
from nemo_helix_server.service.profiles import Profiles
from nemo_helix_server.settings import ProfileSettings
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs import findings
from nemo_runs.findings import Finding

_LOG = logging.getLogger(__name__)
_FILE_ACCESS = "file access"


class ProfileChecks:
    """Asks executors about their profiles."""

    def __init__(
        self, profiles: Profiles, named: Callable[[str], StepExecutor], *, isolated: bool = False
    ) -> None:
        """``named`` gives the executor of a name, and may raise `NeverPossibleError`.

        ``isolated``: whether the service keeps steps to their own files.
        """
        self._profiles = profiles
        self._named = named
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
            executor, settings = self._named(name), self._profiles.settings(provider, profile)
            found = self._file_access(executor, settings, name, f"{provider}/{profile}")
            return [*found, *options.check(executor, settings, cast("Provider", provider))]
        except NeverPossibleError as error:
            return [findings.problem("executor", f"{error}.")]
        except Exception as error:  # noqa: BLE001 - it may come from another package, and the answer says so
            _LOG.exception("the executor %s cannot check the profile %s/%s", name, provider, profile)
            text = f"the check failed: {type(error).__name__}: {error}; the service's log says more."
            return [findings.problem("executor", text)]

    def _file_access(
        self, executor: StepExecutor, settings: ProfileSettings, name: str, profile: str
    ) -> Iterator[Finding]:
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
            options.require_possible(executor, request)
        except NotConfinedError as error:
            yield findings.problem(_FILE_ACCESS, f"{error}.")
        except NeverPossibleError:
            return  # no finding of this kind
