"""A unit of work that reads: one consistent view."""

from __future__ import annotations

from nemo_helix_server.store.reading_jobs import JobReading
from nemo_helix_server.store.reading_records import RecordReading


class Reader(JobReading, RecordReading):
    """Everything that can be asked of the store."""
