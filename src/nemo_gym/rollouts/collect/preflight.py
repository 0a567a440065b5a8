"""Everything about a run that can be wrong on this machine, found before the first request."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from nemo_gym.agents.registry import load_agent
from nemo_gym.errors import ConfigError, UsageError
from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.data.dataset import DatasetFacts, Planned, check_rows, materialize, read_rows
from nemo_gym.rollouts.data.prepare import data_path, ensure_data, with_definition
from nemo_gym.rollouts.judges.configured import judges_of
from nemo_gym.rollouts.judges.models import JudgeModel
from nemo_gym.rollouts.output.manifest import OutputManifest, load_manifest
from nemo_gym.rollouts.policy.api_keys import resolved_key
from nemo_gym.rollouts.policy.client import Endpoint
from nemo_gym.rollouts.run_config.schema import RunConfig, require_policy
from nemo_gym.rollouts.scores.whole_answers import WholeAnswers, load_grader
from nemo_gym.types import Agent, Verifier
from nemo_runs.counts import counted

if TYPE_CHECKING:
    from nemo_gym.command_benchmark.agent import CommandAgent
    from nemo_gym.command_benchmark.results import CommandResults

_OTHER_FILES = 64
_MOST_ROLLOUTS = 100_000_000
"""Each takes three bytes of memory and a row on the disk before the first request."""

Reporter = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run whose every part was found and fits."""

    config: RunConfig
    paths: RolloutPaths
    endpoint: Endpoint
    agent: Agent
    verifier: WholeAnswers
    dataset: DatasetFacts
    planned: Planned
    judges: Mapping[str, JudgeModel]

    def rows(self) -> Iterator[bytes]:
        """The lines that `nemo_gym.rollouts.data.dataset.materialize` gives, those of many rows made
        again.
        """
        if self.planned.lines is not None:
            return iter(self.planned.lines)
        return materialize(self.config, read_rows(self.dataset.path, limit=self.config.limit))


def check(
    config: RunConfig,
    *,
    environ: Mapping[str, str],
    report: Reporter,
    function: Callable[..., Any] | None = None,
    results: CommandResults | None = None,
) -> Prepared:
    """Check the run, making its data if need be. Raises `nemo_gym.errors.GymError`, one sentence each.

    ``function`` grades, where the verifier of the benchmark describes one; ``results`` are what the command
    of the benchmark has written, where it has one.
    """
    endpoint = endpoint_of(config, environ)
    allow_connections(config.num_samples_in_parallel)
    paths = output_paths(config)
    agent = load_agent(config.benchmark.agent)
    if results is not None:
        cast("CommandAgent", agent.inner).bind(results)
    config = with_definition(config, report=report)
    judges = judges_of(config, environ)
    verifier = load_grader(config.benchmark, repeats=config.repeats, judges=judges, function=function)
    planned = Planned()
    dataset = _dataset(config, paths, verifier, report, planned)
    if dataset.num_tasks * config.repeats > _MOST_ROLLOUTS:
        raise ConfigError(
            f"num_repeats: {counted(dataset.num_tasks, 'task')}, "
            f"{counted(config.repeats, 'time')} each, are more than the "
            f"{_MOST_ROLLOUTS:,} rollouts that one run may have."
        )
    return Prepared(config, paths, endpoint, agent, verifier, dataset, planned, judges)


def endpoint_of(config: RunConfig, environ: Mapping[str, str]) -> Endpoint:
    """The server that is asked. Raises `ConfigError` where it is not fully named."""
    base_url, model = require_policy(config)
    key = resolved_key(config.policy_api_key, environ, where="policy_api_key")
    return Endpoint(
        base_url,
        model,
        config.policy_api,
        key,
        config.policy_system_role,
        replica_urls=tuple(url for url in config.policy_replica_urls if url != base_url),
    )


def allow_connections(concurrency: int) -> None:
    """Raise the limit on open files where it is too low: each rollout in flight holds a connection."""
    needed = concurrency + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        where = "num_samples_in_parallel (--concurrency)"
        raise ConfigError(f"{where}: {concurrency} needs {needed} open files, {hard} are allowed.")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def output_paths(config: RunConfig) -> RolloutPaths:
    """The files of the output, whose folder is made. Raises `ConfigError` where they cannot be there."""
    path = config.output_jsonl_fpath
    if path is None:
        raise UsageError("no output is given; name one with --output FILE, say results/rollouts.jsonl.")
    where = "output_jsonl_fpath"
    if path.is_dir():
        raise ConfigError(f"{where}: {path} is a folder; name a file in it, say {path}/rollouts.jsonl.")
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or "error").lower()
        raise ConfigError(f"{where}: the folder {folder} cannot be made ({reason}).") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"{where}: the folder {folder} cannot be written to; choose another --output.")
    _refuse_what_is_no_file(path, where)
    return RolloutPaths(path)


def _refuse_what_is_no_file(output: Path, where: str) -> None:
    """Refuse pipes, devices and folders in the places of files: opening one may block forever."""
    paths = RolloutPaths(output)
    for path in (output, paths.failures, paths.materialized_inputs, paths.manifest):
        if path.exists() and not path.is_file():
            raise ConfigError(f"{where}: {path} is there and no file; choose another --output.")


def _dataset(
    config: RunConfig, paths: RolloutPaths, verifier: Verifier, report: Reporter, planned: Planned
) -> DatasetFacts:
    """Count, digest and check the rows; when resuming, unchanged rows were checked before.

    Data that is gone is never made again for a run that has its materialized inputs: those are what counts.
    """
    known = load_manifest(paths.manifest) if config.resume_from_cache else None
    if known is None:
        return check_rows(config, ensure_data(config, report=report), verifier, planned=planned)
    path = data_path(config)
    digest = str(known.generation.get("dataset_sha256", ""))
    if not path.is_file() and _has_inputs(paths, known):
        report(f"{path} is gone; going on with {paths.materialized_inputs.name}.")
        return DatasetFacts(path, known.num_tasks, digest, known.generation.get("examples_sha256"))
    first = known.num_tasks
    facts = check_rows(config, ensure_data(config, report=report), None, first=first)
    if facts.sha256 == digest:
        return facts
    return check_rows(config, facts.path, verifier, planned=planned, first=first)


def _has_inputs(paths: RolloutPaths, known: OutputManifest) -> bool:
    try:
        return paths.materialized_inputs.stat().st_size == known.materialized.get("size")
    except FileNotFoundError:
        return False
