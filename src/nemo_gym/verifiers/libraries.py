"""Libraries that only some verifiers need."""

from __future__ import annotations

import importlib.util

from nemo_gym.errors import ConfigError


def require(module: str, package: str, verifier: str) -> None:
    """Raise `ConfigError` with what to install where a library is missing; it is not imported."""
    if importlib.util.find_spec(module) is None:
        raise ConfigError(
            f"the verifier '{verifier}' needs the package {package}: pip install 'nemo-baton[verifiers]'"
        )
