"""Executors by the type of a ``compute`` entry; each is imported when it is asked for."""

from __future__ import annotations

from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.executors.base import Executor

TYPES = ("local",)
"""What ``compute.<name>.type`` may be."""


def executor_for(type_name: str) -> Executor:
    """The executor of a compute type; raises `ConfigError` for a type that there is not."""
    if type_name == "local":
        from nemo_gym.orchestration.executors.local import LocalExecutor

        return LocalExecutor()
    raise ConfigError(f"compute: there is no executor {type_name!r}; known are {', '.join(TYPES)}")
