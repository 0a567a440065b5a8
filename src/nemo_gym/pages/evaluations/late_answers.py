"""Bills, certificates and comparisons of runs, as pages ask for them: worked out behind the pages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths, RolloutPaths
from nemo_gym.orchestration.config.settings import load_settings
from nemo_gym.orchestration.records.locations import SubmissionLocation
from nemo_gym.orchestration.results import bill_report
from nemo_gym.orchestration.results.bill import Bill
from nemo_gym.orchestration.results.verify import Verification, Verified
from nemo_gym.orchestration.results.verify import verify as verify_submission
from nemo_gym.pages.index import rollout_query as queries
from nemo_gym.pages.index.background_answers import LateAnswer
from nemo_gym.pages.index.known_runs import KnownRun
from nemo_gym.pages.index.observer import EvaluationIndex
from nemo_gym.rollouts.scores.certificate import certify
from nemo_gym.rollouts.scores.compare import Comparison
from nemo_gym.rollouts.scores.compare_many import NamedOutputs, RunComparison, compare_many

MOST_FLIPS = 200
"""Tasks whose answers differ that a page lists of one benchmark."""

Files = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class FlippedTask:
    """A task on which two runs differ."""

    task: int
    first: float
    second: float
    """Mean rewards of its measured rollouts."""
    repeats: tuple[int, int]
    """The first measured repeat of each."""


@dataclass(frozen=True, slots=True)
class ComparedBenchmark:
    """One benchmark of two runs."""

    comparison: Comparison
    names: tuple[str, str]
    """What the benchmark is called in each."""
    flips: list[FlippedTask]
    """The largest differences first, those that got worse before those that got better."""
    flipped: int
    """How many there are in all."""


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """All runs against the first; of the second one task by task."""

    found: list[RunComparison]
    benchmarks: list[ComparedBenchmark]


def bill_of(index: EvaluationIndex, run: KnownRun) -> LateAnswer[list[Bill]]:
    """What the time of a run's jobs went into; nothing for a run without jobs."""

    def work() -> list[Bill]:
        if run.record is None or run.folder is None:
            return []
        return bill_report.bills_of(SubmissionLocation(run.record, run.folder), load_settings().prices)

    return index.answers.ask(("bill", run.run_id), _files(run), work)


def certificate_of(index: EvaluationIndex, run: KnownRun) -> LateAnswer[Verification]:
    """Whether the results of a run are whole."""

    def work() -> Verification:
        if run.record is not None and run.folder is not None:
            return verify_submission(SubmissionLocation(run.record, run.folder), None)
        return Verification(
            gym_job_id=run.run_id,
            run_dir=str(run.folder),
            config_digest=None,
            benchmarks=[
                _certified(each.name, each.paths) for each in run.benchmarks if each.paths is not None
            ],
            problems=[],
        )

    return index.answers.ask(("certificate", run.run_id), _files(run), work)


def _certified(name: str, paths: RolloutPaths) -> Verified:
    certificate = certify(paths)
    return Verified(
        benchmark=name,
        job_dir=str(paths.output.parent),
        certificate=certificate,
        problems=list(certificate.problems),
        notes=list(certificate.notes),
    )


def comparison_of(index: EvaluationIndex, runs: list[KnownRun]) -> LateAnswer[ComparedRuns]:
    """Each run against the first; of two runs the tasks that differ too."""
    key = ("compare", *(run.run_id for run in runs))
    return index.answers.ask(key, tuple(map(_files, runs)), lambda: _compared(index, runs))


def _compared(index: EvaluationIndex, runs: list[KnownRun]) -> ComparedRuns:
    named = [NamedOutputs(run.title, _outputs(run)) for run in runs]
    for run, given in zip(runs, named, strict=True):
        if not given.outputs:
            raise GymError(f"nothing is recorded here of {run.title}; it is {run.where}.")
    found = compare_many(named)
    benchmarks = []
    for comparison in found[0].comparisons.shared:
        sides = [
            _side(index, run, path) for run, path in zip(runs, (comparison.a, comparison.b), strict=False)
        ]
        (name_a, means_a), (name_b, means_b) = sides
        both = [
            FlippedTask(task, means_a[task][0], means_b[task][0], (means_a[task][1], means_b[task][1]))
            for task in means_a.keys() & means_b.keys()
            if means_a[task][0] != means_b[task][0]
        ]
        both.sort(key=lambda flip: (-abs(flip.second - flip.first), flip.second - flip.first, flip.task))
        benchmarks.append(ComparedBenchmark(comparison, (name_a, name_b), both[:MOST_FLIPS], len(both)))
    return ComparedRuns(found, benchmarks)


def _side(index: EvaluationIndex, run: KnownRun, output: Path) -> tuple[str, dict[int, tuple[float, int]]]:
    benchmark = next(
        each for each in run.benchmarks if each.paths is not None and each.paths.output == output
    )
    table = index.rollouts(run, benchmark)
    assert table is not None
    while not table.read_on(index.now()):
        pass  # in the thread that works answers out: what is compared is whole
    return benchmark.name, table.ask(queries.measured_tasks)


def _outputs(run: KnownRun) -> dict[str, RolloutPaths]:
    return {
        each.name: each.paths
        for each in run.benchmarks
        if each.paths is not None and each.paths.manifest.is_file()
    }


def _files(run: KnownRun) -> Files:
    """Changes when a file does that these answers depend on."""
    found = []
    for each in run.benchmarks:
        if each.paths is not None:
            for path in (each.paths.output, each.paths.manifest, each.paths.failures):
                found.append(_stamp(path))
        if each.evidence is not None:
            links = JobPaths(each.evidence.job_dir).links
            found.append(_stamp(links))
            ends = sum(link.ended for link in each.evidence.links)
            found.append((each.name, len(each.evidence.links), ends))
    return tuple(found)


def _stamp(path: Path) -> tuple[str, int, int]:
    try:
        there = path.stat()
    except OSError:
        return str(path), 0, 0
    return str(path), there.st_size, there.st_mtime_ns
