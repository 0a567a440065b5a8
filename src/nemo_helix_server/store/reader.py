"""A unit of work that reads: one consistent view."""

from __future__ import annotations

from nemo_helix_server.store.entities import EntityReading
from nemo_helix_server.store.reading_records import RecordReading
from nemo_helix_server.store.reading_steps import StepReading
from nemo_helix_server.store.tracker_runs import TrackerReading


class StoreReader(StepReading, RecordReading, EntityReading, TrackerReading):
    """Everything that can be asked of the store."""
