"""From a resolved config to the plan of every job. Pure: whatever it needs from outside is passed in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nemo_gym.chain.budget import Budget
from nemo_gym.job_paths import RunPaths, gym_copies
from nemo_gym.orchestration.config import campaign
from nemo_gym.orchestration.config.sbatch_options import sbatch_options
from nemo_gym.orchestration.config.schema import (
    BenchmarkJob,
    OtelConfig,
    SlurmCompute,
    SubmitConfig,
)
from nemo_gym.orchestration.plan.benchmark_runs import SERVICE_KEY, BenchmarkRun, lead_of
from nemo_gym.orchestration.plan.servers import service_plans
from nemo_gym.orchestration.plan.telemetry import collector_config
from nemo_gym.orchestration.plan.values import (
    InstallPlan,
    JobPlan,
    OtelPlan,
    ServicePlan,
    SharedBenchmark,
    SlurmPlan,
    StepImage,
    Submission,
)
from nemo_runs.durations import parse_duration
from nemo_runs.secret_refs import Reference, SecretText, host_references, parse_reference, resolve_host


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """What a plan takes from the machine and the user."""

    gym: Path | None
    """The `gym` program for the jobs; ``None``: they install ``driver.gym_install``."""
    user: str
    environ: Mapping[str, str]
    """The environment of the submitting shell: where ``host:VAR`` is looked up."""
    keeps: str = ""
    """What our programs keep of the login shell's environment, see `plan.interpreter`."""


def plan_submission(
    config: SubmitConfig, runs: Mapping[str, BenchmarkRun], gym_job_id: str, around: PlanContext
) -> Submission:
    """Plan every job. Raises `SecretReferenceError` when a ``host:`` variable is not set."""
    shares = campaign.shares(config)
    if shares:
        return _plan_campaign(config, shares, runs, gym_job_id, around)
    run_dir = Path(config.job.output_path) / gym_job_id
    services = service_plans(config)
    jobs = [
        _job(config, benchmark, runs[benchmark], services, run_dir, around)
        for benchmark in config.driver.benchmarks
    ]
    return Submission(
        gym_job_id=gym_job_id,
        run_dir=run_dir,
        cluster=config.cluster,
        jobs=jobs,
        max_parallel=config.machine.max_parallel or len(jobs),
        config=config,
    )


def _plan_campaign(
    config: SubmitConfig,
    shares: list[campaign.ModelShare],
    runs: Mapping[str, BenchmarkRun],
    gym_job_id: str,
    around: PlanContext,
) -> Submission:
    """Every benchmark's own job as it would be without others, and a job for each model that runs them."""
    jobs: list[JobPlan] = []
    shared: list[JobPlan] = []
    for share in shares:
        alone = plan_submission(share.config, runs, gym_job_id, around)
        jobs += [replace(job, shared=share.name) for job in alone.jobs]
        shared.append(_shared_job(share, alone, around))
    return Submission(
        gym_job_id=gym_job_id,
        run_dir=Path(config.job.output_path) / gym_job_id,
        cluster=config.cluster,
        jobs=jobs,
        max_parallel=config.machine.max_parallel or len(shared),
        config=config,
        shared=shared,
    )


def _shared_job(share: campaign.ModelShare, alone: Submission, around: PlanContext) -> JobPlan:
    """The job of one model: its services, and the names of the benchmarks that run beside them."""
    config, first = share.config, alone.jobs[0]
    paths = RunPaths(alone.run_dir).job(share.name)
    mounts = [str(paths.job_dir), *config.driver.mounts]
    return replace(
        first,
        benchmark=share.name,
        job_dir=paths.job_dir,
        run=None,
        prepare=None,
        command=None,
        env={},
        secrets=_secrets(config, "", None, around.environ),
        budget=None,
        otel=_otel(config, share.name, paths.job_dir, first.services, around.user),
        notify=None,  # each benchmark notifies of its own end
        config_files=[],
        inputs={},
        container=_container(config.driver.container, mounts),
        slurm=_slurm(config, share.name, paths.job_dir),
        benchmarks=tuple(SharedBenchmark(job.benchmark, job.budget is not None) for job in alone.jobs),
    )


def plan_again(
    config: SubmitConfig, gym_job_id: str, benchmark: str, job_dir: Path, *, resubmission: int, user: str
) -> Submission:
    """Plan again one job of a submission whose folder is written already: what queueing it takes, no more."""
    walltime = config.machine.walltime
    job = JobPlan(
        gym_job_id=gym_job_id,
        benchmark=benchmark,
        job_dir=job_dir,
        services=[],
        policy=None,
        policy_host=config.driver.policy_host,
        run=None,
        prepare=None,
        command=None,
        gym=Path(config.driver.gym or "gym"),
        walltime=None if walltime is None else parse_duration(walltime, where="walltime"),
        budget=_budget(config.driver.benchmarks[benchmark], benchmark),
        resubmission=resubmission,
        otel=_otel(config, benchmark, job_dir, [], user),
        slurm=_slurm(config, benchmark, job_dir),
    )
    return Submission(
        gym_job_id=gym_job_id,
        run_dir=job_dir.parent,
        cluster=config.cluster,
        jobs=[job],
        max_parallel=config.machine.max_parallel or len(config.driver.benchmarks),
        config=config,
    )


def _job(
    config: SubmitConfig,
    benchmark: str,
    run: BenchmarkRun,
    services: list[ServicePlan],
    run_dir: Path,
    around: PlanContext,
) -> JobPlan:
    paths = RunPaths(run_dir).job(benchmark)
    walltime = config.machine.walltime
    return JobPlan(
        gym_job_id=run_dir.name,
        benchmark=benchmark,
        job_dir=paths.job_dir,
        services=services,
        policy=config.driver.policy_model,
        policy_host=config.driver.policy_host,
        run=None if run.run is None else {**run.run, "output_jsonl_fpath": str(paths.rollouts.output)},
        prepare=run.prepare,
        command=config.driver.benchmarks[benchmark].command,
        env=_references(config.driver.env),
        secrets=_secrets(config, benchmark, run, around.environ),
        gym=around.gym or Path("gym"),
        install=None if around.gym else _planned_install(config, run_dir),
        keeps=around.keeps,
        walltime=None if walltime is None else parse_duration(walltime, where="walltime"),
        drain_lead=lead_of(config.machine),
        budget=_budget(config.driver.benchmarks[benchmark], benchmark),
        otel=_otel(config, benchmark, paths.job_dir, services, around.user),
        config_files=list(run.files),
        inputs=dict(run.inputs),
        container=_container(config.driver.container, [str(paths.job_dir), *config.driver.mounts]),
        slurm=_slurm(config, benchmark, paths.job_dir),
        notify=config.notify,
    )


def _container(image: str | None, mounts: list[str]) -> StepImage | None:
    return None if image is None else StepImage(image, tuple(mounts))


def _slurm(config: SubmitConfig, benchmark: str, job_dir: Path) -> SlurmPlan | None:
    machine = config.machine
    if not isinstance(machine, SlurmCompute):
        return None
    return SlurmPlan(
        options=sbatch_options(config.cluster, machine, benchmark, job_dir),
        runtime=machine.container_runtime or ("pyxis" if names_container(config) else "none"),
        setup=machine.setup,
        kill_on_invalid_dep=machine.kill_on_invalid_dep,
        queue_from=machine.queue_from,
    )


def names_container(config: SubmitConfig) -> bool:
    """Whether any part of a job runs in a container."""
    named = [config.driver.container, *(service.container for service in config.services.values())]
    if config.otel is not None and config.otel.enabled:
        named.append(config.otel.container)
    return any(image is not None for image in named)


def _budget(job: BenchmarkJob, benchmark: str) -> Budget | None:
    chain = job.chain
    if chain is None:
        return None
    where = f"driver.benchmarks.{benchmark}.resumable.max_walltime"
    cap = chain.max_walltime
    return Budget(
        max_retries=chain.max_retries,
        max_walltime=None if cap is None else parse_duration(cap, where=where),
        max_links_without_progress=chain.max_links_without_progress,
        resumes=job.run.get("resume_from_cache") is not False,
    )


def _references(env: Mapping[str, str]) -> dict[str, Reference]:
    return {key: parse_reference(value, where=key) for key, value in env.items()}


def _secrets(
    config: SubmitConfig, benchmark: str, run: BenchmarkRun | None, environ: Mapping[str, str]
) -> dict[str, SecretText]:
    return {
        reference.text: resolve_host(reference, environ, where=where)
        for where, value in _values(config, benchmark, run)
        if (reference := parse_reference(value, where=where)).kind == "host"
    }


def _values(config: SubmitConfig, benchmark: str, run: BenchmarkRun | None) -> Iterator[tuple[str, str]]:
    """Every value of one job that may refer to the submitting shell, with its dotted path.

    Without a run, those of the services alone.
    """
    for name, service in config.services.items():
        yield from ((f"services.{name}.env.{key}", value) for key, value in service.env.items())
    if run is None:
        return
    yield from ((f"driver.env.{key}", value) for key, value in config.driver.env.items())
    wired = f"host:{SERVICE_KEY}"  # the job makes this one
    where = f"driver.benchmarks.{benchmark}"
    for key, value in host_references({"run": run.run or {}, "prepare": run.prepare or {}}):
        if value != wired:
            yield f"{where}.{key}", value
    if config.notify is not None:
        yield from config.notify.values().items()


def _otel(
    config: SubmitConfig, benchmark: str, job_dir: Path, services: list[ServicePlan], user: str
) -> OtelPlan | None:
    otel = config.otel
    if otel is None or not otel.enabled:
        return None
    assert otel.endpoint is not None
    assert otel.service_name is not None
    return OtelPlan(
        binary=otel.binary,
        endpoint=otel.endpoint,
        service_name=otel.service_name,
        token_env=otel.token_env,
        container=_container(otel.container, [str(job_dir)]),
        config=_collector(otel, config, benchmark, job_dir.parent.name, services, user),
        health_check_timeout_seconds=otel.health_check_timeout_seconds,
    )


def _collector(
    otel: OtelConfig,
    config: SubmitConfig,
    benchmark: str,
    gym_job_id: str,
    services: list[ServicePlan],
    user: str,
) -> dict[str, Any]:
    policy = next((s.model_name for s in services if s.service == config.driver.policy_model), "")
    marks = {
        "user": user,
        "run_id": gym_job_id,
        "benchmark": benchmark,
        "cluster": config.cluster,
        "model": policy,
    }
    return collector_config(
        endpoint=otel.endpoint or "",
        token_env=otel.token_env,
        service_name=otel.service_name or "",
        component=otel.component,
        services=[one.name if one.health_path and not one.node else "" for one in services],
        attributes=marks,
        gpu_metrics_port=otel.gpu_metrics_port,
        node_metrics_port=otel.node_metrics_port,
        scrape_interval_seconds=otel.scrape_interval_seconds,
    )


def _planned_install(config: SubmitConfig, run_dir: Path) -> InstallPlan | None:
    install = config.driver.gym_install
    if install is None:
        return None
    return InstallPlan(repo=install.repo, ref=install.ref, folder=gym_copies(run_dir.parent))
