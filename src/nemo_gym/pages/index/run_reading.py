"""Reading what is known of runs: small files and, on this machine, the executor; never another machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths, RolloutPaths
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records import run_annotations
from nemo_gym.orchestration.records.index import Reporter
from nemo_gym.orchestration.records.run_annotations import Annotations
from nemo_gym.orchestration.results import scores
from nemo_gym.orchestration.status.gather import gather
from nemo_gym.orchestration.status.last_status import LastStatus
from nemo_gym.orchestration.status.machines import MachinesHere
from nemo_gym.orchestration.status.report import of_submissions
from nemo_gym.pages.index.known_runs import KnownBenchmark, KnownRun
from nemo_gym.pages.index.run_places import PlacedRun
from nemo_runs.clock import SecondsClock, utc_text

Fingerprint = tuple[int, ...]


def fingerprint(place: PlacedRun) -> Fingerprint:
    """Changes when a file changes that the state of a run depends on; found by a few looks at folders."""
    watched: list[Path] = []
    if place.record is not None:
        watched.append(run_annotations.file_of(place.record))
        for entry in place.record.benchmarks:
            job = JobPaths(Path(entry.job_dir))
            watched += [job.job_dir, job.links, job.resubmissions, *_watched(job.rollouts)]
    else:
        for paths in place.outputs.values():
            watched += _watched(paths)
    return tuple(_changed(path) for path in watched)


def _watched(paths: RolloutPaths) -> list[Path]:
    return [paths.output.parent, paths.progress, paths.coverage, paths.manifest]


def _changed(path: Path) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def read_runs(
    places: Sequence[PlacedRun], machines: MachinesHere, *, clock: SecondsClock, report: Reporter
) -> Iterator[KnownRun]:
    """What is known of some runs now, in their order."""
    records = [place.record for place in places if place.record is not None]
    evidence = gather(records, machines, clock=clock)
    found = LastStatus().completed(of_submissions(evidence.values()), now=clock.seconds())
    statuses = {(each.gym_job_id, each.benchmark): each for one in found for each in one.benchmarks}
    for place in places:
        if place.record is None:
            yield _of_output(place, clock, report)
            continue
        results = scores.results(place.record, report=report)
        yield KnownRun(
            run_id=place.run_id,
            title=place.title,
            made_at=place.record.submitted_at,
            seen_at=clock.seconds(),
            record=place.record,
            folder=place.folder,
            copy=place.copy,
            root=place.root,
            annotations=_annotations(place.record, report),
            benchmarks=tuple(
                KnownBenchmark(
                    name=result.benchmark,
                    result=result,
                    status=statuses.get((place.run_id, result.benchmark)),
                    evidence=evidence.get((place.run_id, result.benchmark)),
                    paths=place.outputs.get(result.benchmark),
                )
                for result in results
            ),
        )


def _annotations(record: SubmissionRecord, report: Reporter) -> Annotations:
    try:
        return run_annotations.read(run_annotations.file_of(record))
    except GymError as error:
        report(str(error))
        return Annotations()


def _of_output(place: PlacedRun, clock: SecondsClock, report: Reporter) -> KnownRun:
    now, made = clock.seconds(), []
    known = []
    found = scores.results_without_record(place.run_id, place.outputs, report=report)
    results = {result.benchmark: result for result in found}
    for name, paths in place.outputs.items():
        changed = _changed(paths.progress) / 1e9
        made.append(_changed(paths.materialized_inputs) or _changed(paths.output))
        known.append(
            KnownBenchmark(
                name=name,
                result=results[name],
                paths=paths,
                progress_age=max(0.0, now - changed) if changed else None,
            )
        )
    return KnownRun(
        run_id=place.run_id,
        title=place.title,
        made_at=utc_text(min(made, default=0) / 1e9),
        seen_at=now,
        record=None,
        folder=place.folder,
        copy=False,
        root=place.root,
        benchmarks=tuple(known),
    )
