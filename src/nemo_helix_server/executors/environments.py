"""This machine as a place to run: what a step sees of it, and what names the software that it runs in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from nemo_helix_server.customizer.facts import EngineFacts, TrainingMachine
from nemo_helix_server.executors.base import EngineFinder
from nemo_helix_server.executors.environment_digest import Environments

_HANDED_ON = (
    "PATH",
    "VIRTUAL_ENV",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "LD_LIBRARY_PATH",
)
"""What a step on this machine sees of the service's own environment."""


def local_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What of the service's environment a step on the same machine is given."""
    return {name: environ[name] for name in _HANDED_ON if name in environ}


def local_program(argv: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    """Whether the program of a command is on this machine."""
    return bool(argv) and shutil.which(argv[0], path=environment.get("PATH", os.defpath)) is not None


class LocalPlace:
    """This machine, as a place to run; see `nemo_helix_server.executors.base.RunPlace`."""

    def __init__(self, environ: Mapping[str, str], environments: Environments) -> None:
        """``environ`` is the service's environment, of which runs are given a part."""
        self._environ = environ
        self._environments = environments

    def environment(self) -> Mapping[str, str]:
        """See the protocol."""
        return local_environment(self._environ)

    def machine(self) -> TrainingMachine | None:
        """See the protocol: the service's own."""
        return None

    def engine(self, name: str, here: EngineFinder) -> EngineFacts:
        """See the protocol: the service's own."""
        return here(name)

    def python(self) -> str | None:
        """See the protocol: the service's own."""
        return None

    def has_program(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> bool:
        """See the protocol."""
        return local_program(argv, environment)

    def environment_digest(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> str | None:
        """See the protocol."""
        return self._environments.digest(argv, environment)
