"""Benchmarks that share the job of their model, on the real Slurm."""

from dataclasses import replace

import pytest
from tests.local_jobs import service
from tests.slurm.chains import QUICK, Chain, Chains
from tests.slurm.lab import RealSlurm

from nemo_gym.chain.budget import Budget
from nemo_gym.chain.endings import BenchmarkState
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.config.sbatch_options import sbatch_options
from nemo_gym.orchestration.config.schema import SlurmCompute
from nemo_gym.orchestration.executors.slurm import SlurmExecutor
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_gym.orchestration.plan.values import SharedBenchmark, SlurmPlan
from nemo_gym.orchestration.status.gather import gather
from nemo_gym.orchestration.status.last_observation import LastSeen
from nemo_gym.orchestration.status.machines import SubmissionMachine
from nemo_gym.orchestration.status.report import assess
from nemo_gym.orchestration.submit import staging

pytestmark = [pytest.mark.slurm, pytest.mark.e2e, pytest.mark.slow]

MODEL = "small"
COMPLETE = ("ask", "rows=1", "collected=complete,0,1")
DRIVERS = {"quick": " ".join(COMPLETE), "long": f"then={'+'.join(COMPLETE)} deaf"}


class OneCluster:
    """Where the run was submitted to."""

    def __init__(self, executor: SlurmExecutor) -> None:
        self.executor = executor

    def groups(self, records):
        yield SubmissionMachine(self.executor, memory=LastSeen()), list(records)


def test_what_is_unfinished_when_the_time_is_up_goes_on_alone(
    slurm: RealSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in QUICK.items():
        monkeypatch.setenv(name, value)
    place = Chains(slurm).place
    settings = SlurmCompute(
        type="slurm",
        account="lab",
        walltime="00:05:00",
        node_pools={"all": {"partition": "main"}},  # type: ignore[dict-item]
        extra_args={"mem": "300M"},
    )
    gym_job_id = f"{slurm.prefix}campaign"

    def planned(name, words="", **changes):
        folder = place.folder / gym_job_id / name
        cluster = SlurmPlan(options=sbatch_options("lab", settings, name, folder), runtime="none")
        plan = place.plan(name, words, services=[service()], policy="policy", slurm=cluster, walltime=300)
        return replace(plan, gym_job_id=gym_job_id, job_dir=folder, **changes)

    jobs = [
        planned(f"{MODEL}.{name}", words, shared=MODEL, budget=Budget()) for name, words in DRIVERS.items()
    ]
    names = tuple(SharedBenchmark(job.benchmark, True) for job in jobs)
    shared = planned(MODEL, benchmarks=names, run=None)
    submission = replace(place.submission(*jobs), shared=[shared])
    staging.stage(submission)
    executor = SlurmExecutor(slurm.cluster)
    first, second = executor.submit(submission)
    assert first.job_id is not None, first.error
    assert first.job_id == second.job_id

    def chain_of(name: str) -> Chain:
        folder = JobPaths(place.folder / gym_job_id / name)
        return Chain(slurm, name, folder, f"{gym_job_id}/", 1, first.job_id or "")

    model, quick, long = chain_of(MODEL), *(chain_of(job.benchmark) for job in jobs)
    model.until(lambda: quick.events("job_ended") and long.events("driver_started"))
    successor = model.waiting()
    model.times_out(first.job_id)
    model.over()
    assert [len(each.events("driver_started")) for each in (quick, long)] == [1, 2]
    assert len(model.events("service_started")) == 2
    assert not quick.link(successor).folder.exists()
    assert long.decision(successor)[0] == "go_on running", long.said()
    assert "TIMEOUT" in long.decision(successor)[1] + long.decision(successor)[2]
    assert (long.number(".gym_infra_retries"), long.number(".gym_accumulated_walltime")) == (
        0,
        model.allocated()[0],
    )
    record = SubmissionRecord(
        gym_job_id=gym_job_id, gym_version="1", gym_commit=None, submitted_at="2027-01-15T08:00:00Z",
        run_dir=str(submission.run_dir), cluster="lab", executor="slurm", submitted_by="ada",
        benchmarks=tuple(
            BenchmarkEntry(
                benchmark=job.benchmark, job_dir=str(job.job_dir), job_id=first.job_id, model=MODEL
            )
            for job in jobs
        ),
    )  # fmt: skip
    known = gather([record], OneCluster(executor))
    assert [assess(each).state for each in known.values()] == [BenchmarkState.SUCCEEDED] * 2
