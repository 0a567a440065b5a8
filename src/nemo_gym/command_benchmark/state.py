"""How far the command of an output is: what it is, how often it was started, whether it has ended well."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym.errors import ConfigError, DataError
from nemo_runs.durable.files import replace_file

SCHEMA_VERSION = 1


@dataclass(slots=True)
class CommandState:
    """What ``state.json`` in the command's folder says; values are plain JSON."""

    command: dict[str, Any]
    """What its results depend on."""
    model: dict[str, Any] | None = None
    """What the endpoint said of itself before the last start."""
    outputs: int = 0
    """The number of the outputs folder that is in use."""
    starts: int = 0
    done: bool = False
    """Whether it has ended well, so that only its results are to be read."""
    last_status: int | None = None
    """Exit status of the last start that ended by itself, as a shell says it."""
    schema_version: int = field(default=SCHEMA_VERSION)

    def save(self, folder: Path) -> None:
        """Replace the file."""
        replace_file(folder / "state.json", json.dumps(asdict(self), ensure_ascii=False).encode() + b"\n")


def load_state(folder: Path) -> CommandState | None:
    """The state of a command's folder; ``None`` before its first start. `DataError` for a damaged file."""
    path = folder / "state.json"
    try:
        return CommandState(**json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path}: not a whole state of a command ({error}).") from None


def file_digests(files: Sequence[Path]) -> Mapping[str, str]:
    """SHA-256 of each file by its name. `ConfigError` for one that cannot be read."""
    found = {}
    for path in files:
        try:
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            reason = (error.strerror or "error").lower()
            raise ConfigError(f"benchmark.command.files: {path} cannot be read ({reason}).") from None
    return found
