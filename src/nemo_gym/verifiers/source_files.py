"""The Python files that grade: where a config names them, and their text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from nemo_gym.errors import ConfigError


def read_source(path: Path) -> str:
    """The text of a Python file; raises `ConfigError`, a phrase without the key."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error})") from error


FILE_KEYS: Final = {"python": "path", "pairwise": "reference"}
"""Types of verifiers, and the option of each that names a file."""


def python_verifiers(verifier: Any) -> Iterator[dict[str, Any]]:
    """The descriptions of verifiers that are Python files, within others too."""
    return (spec for spec in verifier_specs(verifier) if spec.get("type") == "python")


def verifier_specs(verifier: Any) -> Iterator[dict[str, Any]]:
    """The description of a verifier, and of those within it."""
    if isinstance(verifier, dict):
        yield verifier
        inner = verifier.get("verifiers")
        for spec in inner.values() if isinstance(inner, Mapping) else ():
            yield from verifier_specs(spec)
