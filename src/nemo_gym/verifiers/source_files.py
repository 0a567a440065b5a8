"""The Python files that grade: where a config names them, and their text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nemo_gym.errors import ConfigError


def read_source(path: Path) -> str:
    """The text of a Python file; raises `ConfigError`, a phrase without the key."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error})") from error


def python_verifiers(verifier: Any) -> Iterator[dict[str, Any]]:
    """The descriptions of verifiers that are Python files, within others too."""
    if isinstance(verifier, dict):
        if verifier.get("type") == "python":
            yield verifier
        inner = verifier.get("verifiers")
        for spec in inner.values() if isinstance(inner, Mapping) else ():
            yield from python_verifiers(spec)
