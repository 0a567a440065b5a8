"""A unit of work that reads: one consistent view."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_helix_server.store.access import SecretReader, TokenReader, WorkspaceReader
from nemo_helix_server.store.attempts import AttemptReader, ResultReader
from nemo_helix_server.store.checkpoints import CheckpointReader
from nemo_helix_server.store.entities import EntityReader
from nemo_helix_server.store.job_reader import JobReader
from nemo_helix_server.store.metric_series import SeriesReader
from nemo_helix_server.store.session import StoreSession
from nemo_helix_server.store.steps import StepReader, TaskReader
from nemo_helix_server.store.tracker_runs import TrackerRunReader
from nemo_helix_server.store.transitions import PlaceReader, TransitionReader


@dataclass(frozen=True, slots=True)
class StoreReader:
    """Everything that can be asked of the store, by what it is about."""

    session: StoreSession
    jobs: JobReader
    attempts: AttemptReader
    steps: StepReader
    tasks: TaskReader
    results: ResultReader
    transitions: TransitionReader
    series: SeriesReader
    checkpoints: CheckpointReader
    tokens: TokenReader
    secrets: SecretReader
    workspaces: WorkspaceReader
    entities: EntityReader
    tracker_runs: TrackerRunReader
    places: PlaceReader


def reader(session: StoreSession) -> StoreReader:
    """The readers of one unit."""
    return StoreReader(
        session=session,
        jobs=JobReader(session),
        attempts=AttemptReader(session),
        steps=StepReader(session),
        tasks=TaskReader(session),
        results=ResultReader(session),
        transitions=TransitionReader(session),
        series=SeriesReader(session),
        checkpoints=CheckpointReader(session),
        tokens=TokenReader(session),
        secrets=SecretReader(session),
        workspaces=WorkspaceReader(session),
        entities=EntityReader(session),
        tracker_runs=TrackerRunReader(session),
        places=PlaceReader(session),
    )
