"""What is known of a run at one moment: the values that pages are made of. Nothing is read here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nemo_gym.chain.evidence import Evidence
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.orchestration.jobs import SubmissionRecord
from nemo_gym.orchestration.records.run_annotations import Annotations
from nemo_gym.orchestration.results.scores import BenchmarkResult
from nemo_gym.orchestration.status.report import BenchmarkStatus, SubmissionStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBenchmark:
    """One benchmark of a run."""

    name: str
    result: BenchmarkResult
    """Scores and counts, as `gym job results` has them."""
    status: BenchmarkStatus | None = None
    """As `gym job status` has it; ``None``: of a run without jobs."""
    evidence: Evidence | None = None
    paths: RolloutPaths | None = None
    """``None``: nothing is recorded here."""
    progress_age: float | None = None
    """Seconds since the collector last said how far it is, when the run was seen."""

    @property
    def state(self) -> str:
        """The word for it: of a job its state, else how far the results are."""
        return str(self.status.state) if self.status is not None else self.result.status

    @property
    def reason(self) -> str:
        """Why it has this state."""
        return self.status.reason if self.status is not None else self.result.detail

    @property
    def done(self) -> int | None:
        """Rollouts that are recorded."""
        if self.status is not None and self.status.done is not None:
            return self.status.done
        return self.result.measured

    @property
    def expected(self) -> int | None:
        """Rollouts that make it complete."""
        if self.status is not None and self.status.expected is not None:
            return self.status.expected
        return self.result.expected

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return self.status.state.live if self.status is not None else self.result.status == "unfinished"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRun:
    """One run."""

    run_id: str
    title: str
    made_at: str
    """When it was submitted, or begun: UTC, ISO 8601."""
    seen_at: float
    """When this was read: UTC seconds."""
    record: SubmissionRecord | None
    folder: Path | None
    copy: bool
    benchmarks: tuple[KnownBenchmark, ...]
    root: Path | None = None
    """The named folder in which it was found; ``None``: in the record index."""
    annotations: Annotations = field(default_factory=Annotations)
    """Tags and note that people gave it."""

    @property
    def where(self) -> str:
        """Where its files are."""
        if self.folder is None:
            host = self.record.hostname if self.record is not None else None
            return f"on {host}" if host else "its folder is gone"
        return f"{self.folder}{' (a copy)' if self.copy else ''}"

    @property
    def state(self) -> str:
        """The states of its benchmarks, rolled up as `gym job status` does it."""
        statuses = tuple(each.status for each in self.benchmarks if each.status is not None)
        if statuses:
            return str(SubmissionStatus(gym_job_id=self.run_id, benchmarks=statuses).state)
        words = {each.result.status for each in self.benchmarks}
        order = ("unfinished", "no results", "incomplete", "complete")
        return next((word for word in order if word in words), "no results")

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return any(each.live for each in self.benchmarks)

    def benchmark(self, name: str) -> KnownBenchmark | None:
        """One of its benchmarks."""
        return next((each for each in self.benchmarks if each.name == name), None)
