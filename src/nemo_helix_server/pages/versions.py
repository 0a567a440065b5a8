"""What live pages ask again and again: a text that changes with a job, its log, or the list of jobs.

It is asked every second for each open page, so it costs one small read; and it says nothing to those who may
not see the job.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.logs.pages import LogPages, Selection
from nemo_helix_server.pages.run_pages import RunObservers
from nemo_helix_server.store.reader import StoreReader
from nemo_helix_server.store.store import JobStore

JOB_TOPIC, LOG_TOPIC, JOBS = "job-", "log-", "jobs"


PROGRESS_SECONDS = 5
"""How often the list is asked for again while anything runs."""
_RUNNING = tuple(status for status in HelixJobStatus if status.holds_workload)


@dataclass(frozen=True, slots=True)
class PageVersions:
    """The present versions of topics."""

    store: JobStore
    logs: LogPages
    runs: RunObservers

    def of(self, caller: Caller, topics: Sequence[str]) -> Mapping[str, str]:
        """The versions of those topics that exist and that this caller may see."""
        found = dict(self.runs.versions(caller, topics))
        with self.store.read() as reader:
            for topic in topics:
                if topic == JOBS:
                    found[topic] = self._of_list(reader)
                    continue
                if not topic.startswith((JOB_TOPIC, LOG_TOPIC)):
                    continue
                job = reader.jobs.by_id(topic.removeprefix(JOB_TOPIC).removeprefix(LOG_TOPIC))
                if job is None or caller.workspace not in {None, job.workspace}:
                    continue
                if topic.startswith(JOB_TOPIC):
                    kept = tuple(
                        (one.id, one.present, one.pinned_at, one.problem)
                        for one in reader.checkpoints.of_job(job.id)
                    )
                    at = job.status_details.get("step")
                    found[topic] = f"{job.updated_at} {at} {job.storage_bytes} {hash(kept)}"
                elif topic.startswith(LOG_TOPIC):
                    found[topic] = f"{job.workspace}/{job.id}"
        for topic, place in found.items():
            if topic.startswith(LOG_TOPIC):
                workspace, _, job_id = place.partition("/")
                sources = self.logs.sources(workspace, job_id, Selection())[1]
                found[topic] = str(hash(tuple(source.log.mark() for source in sources)))
        return found

    def _of_list(self, reader: StoreReader) -> str:
        """Of the list: what runs makes progress without any change of a status, and a removal leaves none."""
        going = int(time.monotonic() / PROGRESS_SECONDS) if reader.jobs.any_in(_RUNNING) else ""
        return f"{reader.transitions.last()} {reader.jobs.number_in(HelixJobStatus.DELETION_PENDING)} {going}"
