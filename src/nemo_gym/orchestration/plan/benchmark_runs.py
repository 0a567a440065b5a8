"""The run configuration of each benchmark, loaded and checked at submit, so that a typo costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_gym import composition
from nemo_gym.errors import ConfigError
from nemo_gym.orchestration.config import campaign
from nemo_gym.orchestration.config.drain_lead import drain_lead
from nemo_gym.orchestration.config.resolve import ResolvedConfig, escaped
from nemo_gym.orchestration.config.sbatch_options import drain_seconds
from nemo_gym.orchestration.config.schema import (
    BenchmarkJob,
    CommandService,
    LocalCompute,
    ServiceConfig,
    SlurmCompute,
    SubmitConfig,
)
from nemo_gym.rollouts.data.prepare import check_script
from nemo_gym.rollouts.run_config.schema import LoadedConfig, RunConfig, load_run_config, require_policy
from nemo_runs.durations import parse_duration
from nemo_runs.suggestions import suggestion

if TYPE_CHECKING:
    from nemo_gym.rollouts.judges.models import JudgeModel

SERVICE_KEY = "NEMO_GYM_POLICY_API_KEY"
"""The variable in which a job gives its driver the random key of its own service."""
_TO_LEAVE = 10.0
"""Seconds between the driver's end and the job's walltime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRun:
    """What one benchmark runs."""

    run: dict[str, Any] | None
    """Content of ``run.yaml`` but for the output, or ``None`` when a command runs."""
    prepare: dict[str, Any] | None
    """Overrides for ``gym eval prepare``, over ``run`` where there is one; ``None``: not asked for."""
    files: list[Path] = field(default_factory=list)
    """Every configuration file that was read."""
    inputs: dict[Path, Path] = field(default_factory=dict)
    """Files of this machine that the job needs there -> where, on the machine of the job."""


def load_runs(resolved: ResolvedConfig, *, cwd: Path) -> dict[str, BenchmarkRun]:
    """Load every benchmark's run configuration, of a campaign one for each model.

    Raises `ConfigError` naming the benchmark's dotted path.
    """
    found: dict[str, BenchmarkRun] = {}
    for share in campaign.shares(resolved.config):
        try:
            found |= _load_all(replace(resolved, config=share.config), cwd)
        except ConfigError as error:
            raise ConfigError(_in_own_words(str(error), share)) from None
    return found or _load_all(resolved, cwd)


def _in_own_words(sentence: str, share: campaign.ModelShare) -> str:
    """With the path as it is in the file, and the model."""
    for folder, benchmark in share.benchmarks.items():
        sentence = sentence.replace(f"driver.benchmarks.{folder}", f"driver.benchmarks.{benchmark}")
    return f"model {share.name}: {sentence}"


def _load_all(resolved: ResolvedConfig, cwd: Path) -> dict[str, BenchmarkRun]:
    policy = resolved.config.driver.policy_model
    model_name = served_name(resolved.config.services[policy]) if policy is not None else None
    return {
        name: _load(name, job, resolved, cwd, model_name)
        for name, job in resolved.config.driver.benchmarks.items()
    }


def _load(
    name: str, job: BenchmarkJob, resolved: ResolvedConfig, cwd: Path, model_name: str | None
) -> BenchmarkRun:
    where = f"driver.benchmarks.{name}"
    reader = _Reader(resolved.source.parent, cwd)
    if job.command is not None:
        return _command(job, reader, where)
    base = {
        **_defaults(resolved.config),
        **_with_prepare_args(job, where),
        **_wired(resolved.config, model_name),
    }
    loaded = reader.read(base, f"{where}.run")
    if resolved.config.driver.policy_model is None:
        _check_endpoint(loaded.config, where)
    check_data(loaded.config, f"{where}.run")
    if resolved.config.driver.gym is None and resolved.config.driver.gym_install is None:
        _check_plugins(loaded.config, f"{where}.run")
    prepare: dict[str, Any] | None = None
    if job.prepare:
        preparing = reader.read(composition.merge(base, job.prepare), f"{where}.prepare")
        _check_same_data(preparing.config, loaded.config, where)
        prepare = {}
    run = _with_judges(loaded.config, resolved.config, f"{where}.run")
    return BenchmarkRun(run=_plain(run), prepare=prepare, files=loaded.files)


def _command(job: BenchmarkJob, reader: _Reader, where: str) -> BenchmarkRun:
    if not job.prepare:
        return BenchmarkRun(run=None, prepare=None)
    preparing = reader.read(job.prepare, f"{where}.prepare")
    check_data(preparing.config, f"{where}.prepare")
    plain = _plain(preparing.config)
    prepare = {key: plain[key] for key in ("benchmark", "prepare_script_args", "split")}
    return BenchmarkRun(run=None, prepare=prepare, files=preparing.files)


@dataclass(frozen=True, slots=True)
class _Reader:
    folder: Path
    cwd: Path

    def read(self, base: Mapping[str, Any], where: str) -> LoadedConfig:
        """One mapping of the submit file as a run configuration. What it holds was interpolated before."""
        return load_run_config(
            [],
            None,
            [],
            search_dirs=[],
            base=escaped(dict(base)),
            cwd=self.cwd,
            base_folder=self.folder,
            user_env=False,
            where=where,
        )


def served_name(service: ServiceConfig) -> str:
    """The name under which a service's model is asked."""
    if isinstance(service, CommandService):
        return service.model_name
    return service.served_model_name or service.model


def _with_judges(run: RunConfig, config: SubmitConfig, where: str) -> RunConfig:
    """The run with the names of models that its judges have as services of the job."""
    judges = dict(run.judge_models)
    for name, judge in judges.items():
        if judge.service is None:
            continue
        service = config.services.get(judge.service)
        if service is None:
            known = ", ".join(config.services) or "none"
            hint = suggestion(judge.service, config.services) or f"; there is {known}"
            raise ConfigError(
                f"{where}.judge_models.{name}.service: '{judge.service}' is not a service{hint}."
            )
        judges[name] = judge.model_copy(update={"model": judge.model or served_name(service)})
    return run.model_copy(update={"judge_models": judges}) if judges else run


def _plain(config: RunConfig) -> dict[str, Any]:
    plain = escaped(config.to_plain())
    assert isinstance(plain, dict)
    return plain


def _defaults(config: SubmitConfig) -> dict[str, Any]:
    defaults: dict[str, Any] = {"require_complete": True}
    lead = lead_of(config.machine)
    if lead:
        # the rest is for leaving: the services' end, the last rows, the successor
        defaults["walltime_margin_s"] = max(lead - _TO_LEAVE, lead / 2)
    return defaults


def lead_of(machine: LocalCompute | SlurmCompute) -> float:
    """How long before its walltime a job is asked to drain, in seconds; 0: not known."""
    if isinstance(machine, SlurmCompute):
        return 0.0 if "signal" in machine.extra_args else float(drain_seconds(machine))
    return drain_lead(parse_duration(machine.walltime, where="walltime") if machine.walltime else None)


def _with_prepare_args(job: BenchmarkJob, where: str) -> dict[str, Any]:
    """The run mapping; what it does not say about the data is taken from ``prepare``."""
    prepared = job.prepare.get("prepare_script_args")
    given = job.run.get("prepare_script_args")
    if prepared is None:
        return dict(job.run)
    if given is not None and given != prepared:
        raise ConfigError(
            f"{where}.prepare.prepare_script_args: they differ from {where}.run.prepare_script_args, so the "
            "run would read other data than is prepared; give them once."
        )
    return {**job.run, "prepare_script_args": prepared}


def _wired(config: SubmitConfig, model_name: str | None) -> dict[str, Any]:
    policy = config.driver.policy_model
    if policy is None:
        return {}
    return {
        "policy_model_name": model_name,
        "policy_api_key": f"host:{SERVICE_KEY}",
        "policy_service_name": policy,
    }


def _check_endpoint(config: RunConfig, where: str) -> None:
    try:
        require_policy(config)
    except ConfigError as error:
        raise ConfigError(
            f"{where}.run: {str(error).rstrip('.')}; set them, or driver.policy_model to a service's name."
        ) from None


def _check_plugins(config: RunConfig, where: str) -> None:
    """Build agent and verifier: the `gym` of the job is this one, so what it lacks is lacking here."""
    from nemo_gym.agents.registry import load_agent
    from nemo_gym.verifiers.registry import load_verifier

    load_agent(config.benchmark.agent, where=f"{where}.benchmark.agent")
    judges: dict[str, JudgeModel] = {}
    if config.judge_models:  # the client of models takes long to import
        from nemo_gym.rollouts.judges.configured import judges_of

        judges = judges_of(config, None)
    load_verifier(config.benchmark.verifier, judges, where=f"{where}.benchmark.verifier")


def check_data(config: RunConfig, where: str) -> None:
    """Raise `ConfigError` when the rows are neither there nor can be prepared."""
    if config.input_jsonl_fpath is not None:
        if not config.input_jsonl_fpath.is_file():
            raise ConfigError(f"{where}.input_jsonl_fpath: there is no file {config.input_jsonl_fpath}.")
        return
    if config.benchmark.command is not None:
        return  # it brings its own
    if config.benchmark.lm_eval is not None:
        from nemo_gym.harness import names

        try:  # the rows are made by lm-eval, on the machine of the job
            names.check(config.benchmark.lm_eval.task, config.benchmark.lm_eval.include_path)
        except ConfigError as error:
            raise ConfigError(f"{where}.benchmark.lm_eval.task: {error}") from None
        return
    dataset = config.benchmark.datasets.get(config.split)
    if dataset is None:
        splits = ", ".join(config.benchmark.datasets) or "none"
        raise ConfigError(
            f"{where}.split: benchmark {config.benchmark.name} has no split {config.split}; it has {splits}."
        )
    if dataset.prepare_script is not None:
        if not dataset.prepare_script.is_file():
            raise ConfigError(f"{where}: there is no prepare script {dataset.prepare_script}.")
        try:
            check_script(dataset.prepare_script, config.prepare_script_args)
        except ConfigError as error:
            raise ConfigError(f"{where}.{error}") from None
    elif dataset.jsonl_fpath is not None and not dataset.jsonl_fpath.is_file() and not dataset.huggingface:
        raise ConfigError(
            f"{where}: there is no data file {dataset.jsonl_fpath}, and nothing that prepares it."
        )


def _check_same_data(preparing: RunConfig, running: RunConfig, where: str) -> None:
    if (preparing.benchmark.datasets, preparing.split, preparing.prepare_script_args) != (
        running.benchmark.datasets,
        running.split,
        running.prepare_script_args,
    ):
        raise ConfigError(
            f"{where}.prepare: it prepares other data than {where}.run reads; "
            "give the same config_paths, split and prepare_script_args."
        )
