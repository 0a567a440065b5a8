"""The files of pinned packages that the sandboxes of a config name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from nemo_gym.errors import ConfigError

NAME_KEY: Final = "environment"
"""Key of ``sandbox:``: the name or the file of an environment."""
PINS_KEY: Final = "environment_pins"
"""The text of the file, once it was read."""
PINS_SUFFIX: Final = ".txt"


def is_file(name: str) -> bool:
    """Whether an environment is named by a file of its pins."""
    return "/" in name or name.endswith(PINS_SUFFIX)


def read_pins(path: Path) -> str:
    """The text of a file of pins; raises `ConfigError`, a phrase."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read ({error})") from error


def specs(*owners: Any) -> Iterator[dict[str, Any]]:
    """The options ``sandbox`` of agents and verifiers that name an environment."""
    for owner in owners:
        spec = owner.get("sandbox") if isinstance(owner, dict) else None
        if isinstance(spec, dict) and isinstance(spec.get(NAME_KEY), str):
            yield spec


def file_specs(*owners: Any) -> Iterator[dict[str, Any]]:
    """Those that name a file whose text is not beside it yet."""
    return (spec for spec in specs(*owners) if spec.get(PINS_KEY) is None and is_file(spec[NAME_KEY]))
