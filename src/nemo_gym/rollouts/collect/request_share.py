"""How many rollouts may be in flight where the benchmark has its model's requests with others."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from nemo_gym.errors import ConfigError
from nemo_gym.job_paths import PARALLEL
from nemo_gym.rollouts.collect.exit_report import LINK_VARIABLE
from nemo_gym.rollouts.collect.preflight import allow_connections

_MOST: Final = 100_000


class RequestShare:
    """The number that the job writes down once another benchmark of it has ended."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        link = environ.get(LINK_VARIABLE)
        self._path = Path(link) / PARALLEL if link else None

    def __call__(self) -> int | None:
        """The number as it is now; ``None`` where there is none, or it needs too many open files."""
        with contextlib.suppress(OSError, ValueError, ConfigError):
            if self._path is not None:
                found = int(self._path.read_bytes()[:16])
                allow_connections(found)
                return found if 0 < found <= _MOST else None
        return None
