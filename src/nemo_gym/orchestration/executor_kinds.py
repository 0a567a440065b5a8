"""Which executors there are, by the ``type`` of a ``compute`` entry; `executors.registry` imports them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LOCAL: Final = "local"
"""Jobs of this machine: nobody but its own files keeps a copy of what was queued."""
SLURM: Final = "slurm"
"""Jobs of a cluster, which keeps the script that was queued."""
TYPES: Final = (LOCAL, SLURM)
"""What ``compute.<name>.type`` may be."""
JOBS: Final[Mapping[str, str]] = {LOCAL: "local job", SLURM: "Slurm job"}
"""What a job of each is called."""
