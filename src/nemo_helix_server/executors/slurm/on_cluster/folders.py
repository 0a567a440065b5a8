"""Where things lie on the cluster's shared storage: the only place that knows the names below its root.

Standard library only: the nodes load it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

ORDER = "order.json"
"""In a run's folder: the command and its environment, without secret values."""
SECRETS = "secrets.json"
"""In a run's folder, for its owner alone: secret variables; removed when the run is over."""
NODE = "node.json"
"""In a run's folder: the allocation that has it, as its first node sees it."""
QUEUED = "queued.json"
"""In the folder of a start that was queued by the allocation before it: its job."""
SCRIPT = "job.sh"
SCHEDULER_LOG = "slurm.log"
"""What the batch script itself printed, its setup lines included."""


def part_name(name: str, sha: str) -> str:
    """The name of a file that is on its way to the cluster, by its name and its SHA-256."""
    return f".{name}.part-{sha[:12]}"


def name_mark(token: str) -> str:
    """What the name of a start's job ends with: a site may write its own comment over the token."""
    return token.removeprefix("task-")[:12]


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    """The root of one service on a cluster's shared storage."""

    root: PurePosixPath

    def code(self, digest: str) -> PurePosixPath:
        """Our own sources; one folder for each version of them."""
        return self.root / "code" / digest

    @property
    def cache(self) -> PurePosixPath:
        """Large input files by their digests; jobs have hard links to them."""
        return self.root / "cache"

    def job(self, job_id: str) -> ClusterJob:
        """What belongs to one job."""
        return ClusterJob(self.root / "jobs" / job_id)


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """The folder of one job: the same names as in the service's own folder of it."""

    folder: PurePosixPath

    @property
    def storage(self) -> PurePosixPath:
        """What all steps and attempts share: inputs, trainer paths, results."""
        return self.folder / "storage"

    def run(self, token: str) -> PurePosixPath:
        """One start: order, claim, log, end."""
        return self.folder / "runs" / token

    def scratch(self, token: str) -> PurePosixPath:
        """What one start may fill, and what goes with it."""
        return self.folder / "scratch" / token
