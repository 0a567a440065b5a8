"""What live pages ask again and again: a text that changes with a job, its log, or the list of jobs.

It is asked every second for each open page, so it costs one small read; and it says nothing to those who may
not see the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nemo_helix_server.jobs.model import Caller
from nemo_helix_server.logs.pages import LogPages, Selection
from nemo_helix_server.store.store import JobStore

JOB, LOG, JOBS = "job-", "log-", "jobs"


@dataclass(frozen=True, slots=True)
class PageVersions:
    """The present versions of topics."""

    store: JobStore
    logs: LogPages

    def of(self, caller: Caller, topics: Sequence[str]) -> Mapping[str, str]:
        """The versions of those topics that exist and that this caller may see."""
        found: dict[str, str] = {}
        with self.store.read() as reader:
            for topic in topics:
                if topic == JOBS:
                    found[topic] = str(reader.transitions.last())
                    continue
                job = reader.jobs.by_id(topic.removeprefix(JOB).removeprefix(LOG))
                if job is None or caller.workspace not in {None, job.workspace}:
                    continue
                if topic.startswith(JOB):
                    found[topic] = f"{job.updated_at} {job.status_details.get('step')} {job.storage_bytes}"
                elif topic.startswith(LOG):
                    found[topic] = f"{job.workspace}/{job.id}"
        for topic, place in found.items():
            if topic.startswith(LOG):
                workspace, _, job_id = place.partition("/")
                sources = self.logs.sources(workspace, job_id, Selection())[1]
                found[topic] = str(hash(tuple(source.log.mark() for source in sources)))
        return found
