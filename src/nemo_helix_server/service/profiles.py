"""Execution profiles: where steps of each provider can run, and with which configuration.

A step names a provider and a profile; what is not there is refused when the job is made. Each profile says
which executor runs its steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nemo_helix_plugin.jobs.types import HelixJobSpec
from nemo_helix_server import executor_kinds
from nemo_helix_server.errors import InvalidError, UnknownNameError
from nemo_helix_server.executors.base import ExecutorKind
from nemo_helix_server.settings import JobsSettings, ProfileSettings


class _Profile(NamedTuple):
    backend: str
    config: ProfileSettings


class Profiles:
    """The profiles of a service, built-in ones and those of its settings, which win."""

    def __init__(self, settings: JobsSettings) -> None:
        name = executor_kinds.DEFAULT
        kind: ExecutorKind = executor_kinds.load(name)
        self._default = _Profile(name, settings.executor_defaults.subprocess)
        built_in = () if settings.enable_subprocess_executor is False else kind.profiles
        self._known = dict.fromkeys(built_in, self._default) | {
            (profile.provider, profile.profile): _Profile(profile.backend, profile.config)
            for profile in settings.executors
        }

    def settings(self, provider: str, profile: str) -> ProfileSettings:
        """The configuration of a profile; the default's for one that has gone since its job was made."""
        return self._known.get((provider, profile), self._default).config

    def executor(self, provider: str, profile: str) -> str:
        """The name of the executor of a profile; the default one for a profile that has gone."""
        return self._known.get((provider, profile), self._default).backend

    def has(self, provider: str, profile: str) -> bool:
        """Whether there is such a profile."""
        return (provider, profile) in self._known

    def require(self, provider: str, profile: str) -> None:
        """Raise `UnknownNameError`, naming those that there are, for a profile that is not there."""
        if not self.has(provider, profile):
            raise UnknownNameError(
                f"there is no execution profile '{provider}/{profile}'; there are {self._names()}"
            )

    def _names(self) -> str:
        return ", ".join("/".join(pair) for pair in sorted(self._known)) or "none"

    def all(self) -> list[dict[str, Any]]:
        """The profiles as they are answered; values of variables are nobody's business."""
        return [
            {
                "provider": provider,
                "profile": profile,
                "backend": known.backend,
                "config": known.config.model_dump(mode="json", exclude={"env"}),
            }
            for (provider, profile), known in sorted(self._known.items(), key=lambda item: item[0])
        ]

    def check(self, spec: HelixJobSpec) -> None:
        """Raise `InvalidError` naming the first step whose profile does not exist."""
        for step in spec.steps:
            wanted = (step.executor.provider, step.executor.profile)
            if wanted not in self._known:
                raise InvalidError(
                    f"the step '{step.name}' wants the profile {'/'.join(wanted)}, which is not there; "
                    f"there are {self._names()}"
                )
