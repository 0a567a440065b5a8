"""Opening the executor of a service's profiles of Slurm clusters."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

from nemo_helix_server.executors.background import ObservedInBackground
from nemo_helix_server.executors.base import ExecutorKind, NeverPossibleError, StepExecutor
from nemo_helix_server.executors.slurm import checking
from nemo_helix_server.executors.slurm.connection import ClusterAddress, ClusterConnections
from nemo_helix_server.executors.slurm.executor import SlurmStepExecutor
from nemo_helix_server.executors.slurm.on_cluster.holders import ServiceMark
from nemo_helix_server.executors.slurm.settings import SlurmSettings
from nemo_helix_server.executors.slurm.storage import ClusterRunStorage
from nemo_helix_server.settings import Settings, SettingsError
from nemo_helix_server.storage import data_origin
from nemo_helix_server.storage.job_folders import JobStorage
from nemo_helix_server.storage.run_files import StepRun
from nemo_runs.clock import SystemClock

_STALE_SECONDS = 120.0
"""What was seen of a run counts for so long at least: schedulers are slow at times."""
_POLL_SECONDS = 5.0
"""Where the profiles of runs that are still there are gone."""


def _require_apart(profile: str, config: SlurmSettings, data_dir: Path) -> None:
    """Raise `SettingsError` where jobs could read the service's keys, since one folder lies in the other."""
    if checking.lie_in_each_other(data_dir, config.root, host=config.host):
        raise SettingsError(
            f"jobs.executors: the root {config.root} of the profile {profile} and the service's data "
            f"directory {data_dir} lie in each other, and jobs could read its keys; name another root"
        )


def _mark_of(data_dir: Path) -> ServiceMark:
    """How a service says on clusters which jobs are its own."""
    found = data_origin.read(data_dir)
    return ServiceMark(found.id, found.term, f"that of {data_dir} on {socket.gethostname()}")


def _open(settings: Settings) -> StepExecutor:
    """The executor of a service, for all its profiles of clusters."""
    profiles = {
        f"{one.provider}/{one.profile}": one.config
        for one in settings.jobs.executors
        if isinstance(one.config, SlurmSettings)
    }

    def settings_of(run: StepRun) -> SlurmSettings:
        found = profiles.get(run.profile)
        if found is None:
            raise NeverPossibleError(
                f"the execution profile {run.profile or 'of the step'} is not one of a Slurm cluster any "
                "more; put it back into jobs.executors of the service's settings"
            )
        return found

    for name, config in profiles.items():
        _require_apart(name, config, settings.data_dir)
    connections = ClusterConnections(service=_mark_of(settings.data_dir))
    jobs = JobStorage(settings.data_dir)
    present = [ClusterAddress.of(config) for config in profiles.values()]
    storage = ClusterRunStorage(
        jobs, connections, lambda run: ClusterAddress.of(settings_of(run)), lambda: present
    )

    def host_of(run: StepRun) -> str:
        with contextlib.suppress(NeverPossibleError):
            return storage.address(run).host or ""
        return ""  # it was handed to none

    def poll_seconds(host: str) -> float:
        """The least of the profiles of a host: one look is for all of them."""
        own = [one.poll_seconds for one in profiles.values() if (one.host or "") == host]
        return min(own, default=_POLL_SECONDS)

    most_idle = settings.jobs.max_interruptions_without_progress
    executor = SlurmStepExecutor(storage, connections, settings_of, most_idle=most_idle)
    return ObservedInBackground(
        executor,
        SystemClock(),
        stale_after=_STALE_SECONDS,
        place_of=host_of,
        interval_of=poll_seconds,
    )


KIND = ExecutorKind(open=_open, config=SlurmSettings)
