"""What surrounds a submission in earnest: the executor, the machine of its jobs, and what is asked of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_gym.orchestration.executors.registry import executor_for, refuse_unusable
from nemo_gym.orchestration.submit.destination import destination_of
from nemo_gym.orchestration.submit.flow import SubmitContext

if TYPE_CHECKING:
    from nemo_gym.orchestration.config.resolve import ResolvedConfig
    from nemo_gym.orchestration.config.schema import SubmitConfig
    from nemo_gym.orchestration.records.index import Reporter
    from nemo_gym.provenance import Provenance
    from nemo_slurm.hosts import Host


def submit_context(resolved: ResolvedConfig, *, report: Reporter) -> SubmitContext:
    """The context of a submission from this process: its environment and current folder."""
    compute = resolved.config.machine
    hostname = getattr(compute, "hostname", None)
    host = None if hostname is None else _host(hostname)
    destination = destination_of(host)

    def origin() -> Provenance:
        from nemo_gym.provenance import provenance

        return provenance()

    def preflight(config: SubmitConfig) -> None:
        from nemo_gym.orchestration.submit.preflight import refuse_cheaply

        refuse_cheaply(config, host or _host(None))

    return SubmitContext(
        executor=executor_for(compute.type, host),
        stage=destination.stage,
        provenance=origin,
        environ=os.environ,
        cwd=Path.cwd(),
        report=report,
        destination=destination,
        preflight=preflight,
        ready=lambda: refuse_unusable(compute.type),
    )


def _host(hostname: str | None) -> Host:
    from nemo_slurm.ssh import host_of

    return host_of(hostname)
