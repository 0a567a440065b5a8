"""A unit of work that writes: all of it or nothing, and nobody else writes meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_helix_server.store.access import SecretWriter, TokenWriter, WorkspaceWriter
from nemo_helix_server.store.attempts import AttemptWriter, ResultWriter
from nemo_helix_server.store.checkpoints import CheckpointWriter
from nemo_helix_server.store.entities import EntityWriter
from nemo_helix_server.store.job_writer import JobWriter
from nemo_helix_server.store.metric_series import SeriesWriter
from nemo_helix_server.store.reader import StoreReader
from nemo_helix_server.store.session import StoreSession
from nemo_helix_server.store.status_writer import StatusWriter
from nemo_helix_server.store.steps import StepWriter, TaskWriter
from nemo_helix_server.store.tracker_runs import TrackerRunWriter
from nemo_helix_server.store.transitions import PlaceWriter, TransitionWriter


@dataclass(frozen=True, slots=True)
class StoreWriter(StoreReader):
    """Everything that can be asked of and written to the store, by what it is about."""

    jobs: JobWriter
    attempts: AttemptWriter
    steps: StepWriter
    tasks: TaskWriter
    results: ResultWriter
    transitions: TransitionWriter
    series: SeriesWriter
    checkpoints: CheckpointWriter
    tokens: TokenWriter
    secrets: SecretWriter
    workspaces: WorkspaceWriter
    entities: EntityWriter
    tracker_runs: TrackerRunWriter
    places: PlaceWriter
    statuses: StatusWriter


def writer(session: StoreSession) -> StoreWriter:
    """The writers of one unit."""
    attempts, steps = AttemptWriter(session), StepWriter(session)
    transitions, checkpoints = TransitionWriter(session), CheckpointWriter(session)
    series, entities = SeriesWriter(session), EntityWriter(session)
    jobs = JobWriter(
        session,
        attempts=attempts,
        steps=steps,
        transitions=transitions,
        checkpoints=checkpoints,
        series=series,
    )
    tasks = TaskWriter(session, jobs=jobs, attempts=attempts, steps=steps, transitions=transitions)
    return StoreWriter(
        session=session,
        jobs=jobs,
        attempts=attempts,
        steps=steps,
        tasks=tasks,
        results=ResultWriter(session, jobs),
        transitions=transitions,
        series=series,
        checkpoints=checkpoints,
        tokens=TokenWriter(session),
        secrets=SecretWriter(session),
        workspaces=WorkspaceWriter(session, entities),
        entities=entities,
        tracker_runs=TrackerRunWriter(session),
        places=PlaceWriter(session),
        statuses=StatusWriter(
            session, jobs=jobs, attempts=attempts, steps=steps, tasks=tasks, transitions=transitions
        ),
    )
