"""API keys: named in a configuration, taken from the environment when a run starts."""

from __future__ import annotations

from collections.abc import Mapping

from nemo_gym.errors import ConfigError
from nemo_runs.secret_refs import SecretText, parse_reference, resolve_host


def resolved_key(value: str, environ: Mapping[str, str], *, where: str) -> SecretText | None:
    """The key that ``host:VAR`` names, ``None`` for ``dummy`` and an empty variable.

    Raises `nemo_gym.errors.GymError` at ``where`` for a variable that is not set or holds no key.
    """
    if value == "dummy":
        return None
    reference = parse_reference(value, where=where)
    key = resolve_host(reference, environ, where=where).reveal().strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{where}: {reference.text} holds something that no HTTP header can carry.")
    return SecretText(key) if key else None
