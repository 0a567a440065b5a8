"""Execution profiles: where steps of each provider can run, and with which configuration.

A step names a provider and a profile; what is not there is refused when the job is made. Each profile says
which executor runs its steps.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple, get_args

from nemo_helix_plugin.jobs.platform_spec import Provider
from nemo_helix_plugin.jobs.types import HelixJobSpec
from nemo_helix_server import executor_kinds
from nemo_helix_server.errors import InvalidError, UnknownNameError
from nemo_helix_server.executors.base import ExecutorKind
from nemo_helix_server.settings import JobsSettings, ProfileSettings
from nemo_runs.extensions import entry_points

_LOG = logging.getLogger(__name__)
_PROVIDERS = get_args(Provider)


class _Profile(NamedTuple):
    backend: str
    config: ProfileSettings


class Profiles:
    """The profiles of a service: those of its settings, then built-in ones, then those of other packages."""

    def __init__(self, settings: JobsSettings) -> None:
        name = executor_kinds.DEFAULT
        self._default = _Profile(name, settings.executor_defaults.subprocess)
        kind: ExecutorKind = executor_kinds.load(name)
        built_in = () if settings.enable_subprocess_executor is False else kind.profiles
        self._known = dict.fromkeys(built_in, self._default) | {
            (profile.provider, profile.profile): _Profile(profile.backend, profile.config)
            for profile in settings.executors
        }
        for other in executor_kinds.added():
            self._known = _brought(other) | self._known

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
                "given": sorted(known.config.model_fields_set - {"env"}),
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


def _brought(name: str) -> dict[tuple[str, str], _Profile]:
    """The profiles that an executor of another package brings; none where it is broken, which is logged."""
    try:
        kind: ExecutorKind = executor_kinds.load(name)
        pairs = _pairs(kind.profiles)
        return dict.fromkeys(pairs, _Profile(name, kind.config())) if pairs else {}
    except KeyboardInterrupt:
        raise
    except executor_kinds.UnknownExecutorError as error:
        _LOG.error("%s", error)
    except BaseException as error:  # noqa: BLE001 - it is another package's code, and the service starts without it
        said = entry_points.said(error)
        _LOG.error("%s brings profiles that cannot be used: %s", executor_kinds.title(name), said)
    return {}


def _pairs(profiles: Any) -> list[tuple[str, str]]:
    """Provider and name of each profile; raises `ValueError` for what is not that."""
    try:
        pairs = [(provider, name) for provider, name in profiles]
        right = all(provider in _PROVIDERS and isinstance(name, str) and name for provider, name in pairs)
    except (TypeError, ValueError):
        right = False
    if not right:
        wanted = f"pairs of a provider ({', '.join(_PROVIDERS)}) and a name"
        raise ValueError(f"they have to be {wanted}, and are {profiles!r:.80}")
    return pairs
