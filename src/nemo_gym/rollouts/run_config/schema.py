"""The settings of `gym eval run`: the schema, and how files, settings and overrides are merged into it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator, model_validator

from nemo_gym import errors
from nemo_gym.command_benchmark import options as command_options
from nemo_gym.command_benchmark.options import CommandOptions
from nemo_gym.composition import KnownKeys, Override, check_model, compose, drop_scratch, merge
from nemo_gym.harness import names as harness_names
from nemo_gym.harness.options import HarnessOptions
from nemo_gym.rollouts.policy.apis import Api, CannotBeSentError, request_body
from nemo_gym.rollouts.policy.instruction_roles import SystemRole
from nemo_gym.rollouts.run_config import catalog, foreign_names, includes
from nemo_gym.rollouts.run_config.dataset_schema import ChoicesConfig, DatasetConfig, DataSource
from nemo_gym.rollouts.run_config.judge_schema import JudgeModelConfig
from nemo_gym.rollouts.run_config.prompt_schema import PromptConfig, Split
from nemo_gym.rollouts.run_config.sampling_schema import SamplingConfig
from nemo_gym.rollouts.run_config.until_schema import UntilConfig
from nemo_gym.rollouts.run_config.values import (
    Count,
    Index,
    Seconds,
    Strict,
    api_key_reference,
    base_address,
)
from nemo_gym.types import AnswerEnd


class BenchmarkConfig(Strict):
    """A benchmark: data, prompt, agent, verifier, repeats."""

    name: Annotated[str, Field(pattern=r"^(lm_eval/[^/\s.][^/\s]*|[A-Za-z0-9._-]+)$")]
    description: str = ""
    datasets: dict[Split, DatasetConfig]
    parse: list[str] | None = None
    """Columns of the data that hold a list or an object as text, which is read before anything else."""
    fields: dict[str, str] | None = None
    """Fields by the names that prompt and verifier use, and the columns of the data that they are."""
    choices: ChoicesConfig | None = None
    """Where a row has its choices, and which one is right; they become ``options`` with letters."""
    lm_eval: HarnessOptions | None = None
    """The task of lm-evaluation-harness that this benchmark is; its rows are made by lm-eval."""
    command: CommandOptions | None = None
    """A program that asks the model itself, and the place of the results that it writes."""
    prompt: PromptConfig | None = None
    """Absent when the rows hold their own ``responses_create_params.input``."""
    agent: dict[str, Any] = Field(default_factory=lambda: {"type": "single_turn"})
    verifier: dict[str, Any]
    graded_ends: list[AnswerEnd] | None = None
    """Ends besides ``completed`` whose answers are put to the verifier; others get reward 0 unseen."""
    grade_reasoning: bool | None = None
    """Put thoughts that were within the text back into it before it is graded."""
    num_repeats: Count = 1
    group_by: list[str] | None = None
    """Fields of the rows; tasks that share a value get a score of their own."""
    source: DataSource | None = None
    """Where the data is from."""
    unpublished: Annotated[str, Field(min_length=1)] | None = None
    """Why questions and answers must not be published; exports and shares leave them out. Null: they may."""

    @field_validator("agent", "verifier")
    @classmethod
    def _has_type(cls, value: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(value.get("type"), str):
            raise ValueError("needs a type, the name of an agent or verifier")  # noqa: TRY004 - pydantic's protocol
        return value

    @model_validator(mode="after")
    def _is_graded_by_lm_eval(self) -> BenchmarkConfig:
        if (self.lm_eval is None) != (self.verifier["type"] != harness_names.TYPE):
            raise ValueError(
                f"a benchmark with lm_eval has the verifier type {harness_names.TYPE}, and no other has it"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _has_its_command(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or value.get("command") is None:
            return value
        of_command = {"type": command_options.TYPE}
        return {"datasets": {}, "agent": of_command, "verifier": of_command, **value}

    @model_validator(mode="after")
    def _is_a_command_alone(self) -> BenchmarkConfig:
        types = {self.agent["type"], self.verifier["type"]}
        if self.command is None:
            if command_options.TYPE in types:
                raise ValueError("agent and verifier command belong to a benchmark with command")
            return self
        if (
            self.prompt
            or self.parse
            or self.fields
            or self.choices
            or self.datasets
            or self.lm_eval
            or types != {command_options.TYPE}
        ):
            raise ValueError(
                "has a command, which asks and grades itself; leave prompt, parse, fields, datasets, "
                "lm_eval, agent and verifier out"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _has_turns_played(cls, value: Any) -> Any:
        prompt = value.get("prompt") if isinstance(value, Mapping) else None
        turns = prompt.get("turns") if isinstance(prompt, Mapping) else None
        if not isinstance(turns, str):
            return value
        agent = value.get("agent")
        if agent in (None, {"type": "single_turn"}):
            return {**value, "agent": {"type": "multi_turn", "field": turns}}
        if isinstance(agent, Mapping) and agent.get("type") == "tools":
            return {**value, "agent": {**agent, "field": turns}}
        return value

    @model_validator(mode="after")
    def _plays_its_turns(self) -> BenchmarkConfig:
        turns = None if self.prompt is None else self.prompt.turns
        kind, field = self.agent["type"], self.agent.get("field")
        plays = field == turns if kind in ("multi_turn", "tools") else turns is None
        if not plays or (kind == "multi_turn" and turns is None):
            raise ValueError(
                "prompt.turns is played by the agents multi_turn and tools alone, and sets their field; "
                "leave agent out, or name tools"
            )
        return self

    @field_validator("graded_ends", "grade_reasoning")
    @classmethod
    def _nothing_means_null(cls, value: Any) -> Any:
        return value or None


class RunConfig(Strict):
    """Everything about one `gym eval run`. Paths are absolute once loaded; times are seconds."""

    config_paths: list[str] = Field(default_factory=list)
    """Files to include; used up while loading, so a loaded configuration has none."""
    benchmark: BenchmarkConfig
    prepare_script_args: dict[str, Any] = Field(default_factory=dict)
    policy_model_name: Annotated[str, Field(min_length=1)] | None = None
    policy_model_digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    """Of the files of the model, where they are known; a run with others is another run."""
    policy_api: Api = "chat"
    policy_base_url: str | None = None
    """Up to and including ``/v1``; the route of the API may follow and is cut off."""
    policy_replica_urls: list[str] = Field(default_factory=list)
    """Further servers of the very same model; a request goes to the least busy one."""
    policy_api_key: str = "dummy"
    """``dummy``, or ``host:VAR``: the value of the environment variable VAR when the run starts."""
    policy_system_role: SystemRole | None = None
    """How the server wants instructions (messages of the roles system and developer); null: as they are."""
    policy_tokenizer: Annotated[str, Field(min_length=1)] | None = None
    """The model's tokenizer, for benchmarks that ask for likelihoods: its name on the hub, or a folder."""
    judge_models: dict[str, JudgeModelConfig] = Field(default_factory=dict)
    """Further models by a name of your own; verifiers ask them."""
    policy_service_name: str | None = None
    """Set when the policy model is a service that this job started itself."""
    check_model: bool = True
    model_endpoint_readiness_timeout_seconds: Seconds = 30
    responses_create_params: SamplingConfig = Field(default_factory=SamplingConfig)
    num_repeats_add_seed: bool = False
    """Add the repeat's number to the seed (0 if none is set), so that repeats differ if seeds are obeyed."""
    input_jsonl_fpath: Path | None = None
    """Rows that replace the benchmark's data."""
    output_jsonl_fpath: Path | None = None
    split: Split = "benchmark"
    limit: Index | None = None
    """The first N tasks; null and 0 mean all."""
    num_repeats: Count | None = None
    """Replaces the benchmark's own number."""
    until: UntilConfig | None = None
    """Ask tasks in a random order, and stop once the question that is named here is answered."""
    num_samples_in_parallel: Count = 32
    resume_from_cache: bool = False
    require_complete: bool = True
    allow_unsafe_resume: bool = False
    max_rollout_attempts: Count = 3
    request_timeout_seconds: Annotated[Seconds, Field(gt=0)] = 600
    max_request_attempts: Count = 5
    max_requests_per_minute: Count | None = None
    """Of this run, retries included."""
    max_tokens_per_minute: Count | None = None
    """Of questions and answers, as the server counts them."""
    dispatch_budget_s: Seconds | None = None
    """Stop starting rollouts after so many seconds."""
    drain_margin_s: Seconds = 10
    """How long running rollouts may take to finish once no new ones are started."""
    walltime_margin_s: Seconds | None = None
    """The same in a job that was asked to stop ahead of its walltime; ``drain_margin_s`` unless given."""
    disable_aggregation: bool = False

    @property
    def repeats(self) -> int:
        """How often each task is put to the model."""
        return self.num_repeats if self.num_repeats is not None else self.benchmark.num_repeats

    @field_validator("limit")
    @classmethod
    def _zero_means_all(cls, value: int | None) -> int | None:
        return value or None

    @field_validator("policy_api_key")
    @classmethod
    def _no_literal_key(cls, value: str) -> str:
        return api_key_reference(value)

    @field_validator("policy_base_url")
    @classmethod
    def _is_base_address(cls, value: str | None, info: ValidationInfo) -> str | None:
        return None if value is None else base_address(value, info.data.get("policy_api", "chat"))

    @field_validator("policy_replica_urls")
    @classmethod
    def _are_base_addresses(cls, value: list[str], info: ValidationInfo) -> list[str]:
        return [base_address(url, info.data.get("policy_api", "chat")) for url in value]

    @model_validator(mode="after")
    def _can_be_asked(self) -> RunConfig:
        try:
            request_body(self.policy_api, "", {"input": "", **self.responses_create_params.given()})
        except CannotBeSentError as error:
            raise ValueError(f"responses_create_params: {error}") from None
        if self.policy_api == "completions" and self.benchmark.agent["type"] == "tools":
            raise ValueError("policy_api: the completions API has no tools; the agent 'tools' needs another")
        return self

    @model_validator(mode="after")
    def _input_is_not_output(self) -> RunConfig:
        if self.input_jsonl_fpath is not None and self.input_jsonl_fpath == self.output_jsonl_fpath:
            raise ValueError("input_jsonl_fpath and output_jsonl_fpath are the same file")
        return self

    def to_plain(self) -> dict[str, Any]:
        """As plain values for YAML or JSON; loaded again (``${`` escaped) it is the same configuration."""
        return self.model_dump(mode="json")


_TYPED = KnownKeys({"type": KnownKeys()}, free=True, checked_later=True)
"""Agents and verifiers: a type, and options that only their own schemas know."""
_ARGUMENTS = KnownKeys(free=True, checked_later=True)
"""Arguments of a prepare script, which is asked for their names."""
_SAMPLING = replace(KnownKeys.of(SamplingConfig), aliases=foreign_names.SAMPLING)
RUN_KEYS = replace(
    KnownKeys.of(RunConfig)
    .with_keys(("responses_create_params",), _SAMPLING)
    .with_keys(("judge_models", "*", "params"), _SAMPLING)
    .with_keys(("benchmark", "agent"), _TYPED)
    .with_keys(("benchmark", "verifier"), _TYPED)
    .with_keys(("prepare_script_args",), _ARGUMENTS),
    aliases={
        **foreign_names.above("responses_create_params"),
        "model": "policy_model_name",
        "model_url": "policy_base_url",
        "base_url": "policy_base_url",
        "model_api_key": "policy_api_key",
        "api_key": "policy_api_key",
        "input": "input_jsonl_fpath",
        "output": "output_jsonl_fpath",
        "concurrency": "num_samples_in_parallel",
        "resume": "resume_from_cache",
    },
)
"""The keys of a run, as far as they are known before the agent and the verifier are."""


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration and where it came from."""

    config: RunConfig
    files: list[Path]
    """Every file that was read, absolute, in merge order."""


def load_run_config(
    config_paths: Sequence[str],
    benchmark: str | None,
    overrides: Sequence[Override],
    *,
    search_dirs: Sequence[Path],
    base: Mapping[str, Any] | None = None,
    cwd: Path,
    base_folder: Path | None = None,
    user_env: bool = True,
    where: str = "the run configuration",
    options: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """Find, merge and check all settings of a run; later ones win.

    The benchmark named by ``--benchmark``, what ``base`` includes, then ``config_paths`` in their order (each
    over what it includes), ``env.yaml`` (unless ``user_env`` is false), ``base`` itself (the ``run`` block of
    a submission, whose file is in ``base_folder``), then ``overrides``. Relative names of data files are
    looked up beside the file that holds them, then in ``cwd``; those from the command line in ``cwd``.
    ``options`` says by which option a key was set, for what is wrong with its value.
    `errors.ConfigError` for whatever is wrong.
    """
    tree = includes.IncludeTree(cwd, search_dirs)
    on_line, rest = _included_by_overrides(overrides)
    folder = base_folder if base_folder is not None else cwd
    top = _absolute(includes.absolute_files(merge({}, base or {}), folder, cwd), cwd)
    names = [*(top.pop("config_paths", None) or []), *config_paths, *on_line]
    config = tree.over_includes(
        {"config_paths": [*_benchmark_path(benchmark, search_dirs, cwd), *names]},
        beside=folder,
        where=f"{where}: config_paths",
    )
    _refuse_submit_file(config, names)
    settings = includes.user_settings(search_dirs, cwd) if user_env else None
    if settings is not None and settings not in tree.files:
        config = merge(config, tree.load(settings))
    config = merge(includes.environment_defaults(), config)
    config = compose(merge(config, top), rest, known=RUN_KEYS, where=where)
    config = includes.with_sources(_absolute(drop_scratch(config), cwd))
    if "benchmark" not in config and config.keys() <= RUN_KEYS.names.keys():
        raise errors.ConfigError(
            "benchmark: none is given; name one with --benchmark NAME (see `gym list benchmarks`) "
            "or include its config."
        )
    checked = check_model(
        RunConfig, config, where=where, known=RUN_KEYS, files=tree.files[::-1], options=options
    )
    return LoadedConfig(checked, tree.files)


def _refuse_submit_file(config: Mapping[str, Any], names: Sequence[str]) -> None:
    """A file for `gym eval submit` holds settings of runs too, but one level further down."""
    if "driver" in config and "compute" in config:
        which = names[0] if len(names) == 1 else "FILE"
        raise errors.ConfigError(
            f"config_paths: {which} is a submit file (it has driver and compute), and the config of a "
            f"benchmark is needed here; `gym eval submit -c {which}` submits it."
        )


def _absolute(config: Mapping[str, Any], cwd: Path) -> dict[str, Any]:
    """A copy whose data and output files are absolute; names still relative are taken from ``cwd``."""
    result = includes.absolute_files(merge({}, config), cwd, cwd)
    output = result.get("output_jsonl_fpath")
    if isinstance(output, str) and output and "${" not in output:
        result["output_jsonl_fpath"] = os.path.abspath(cwd / os.path.expanduser(output))
    return result


def _benchmark_path(name: str | None, search_dirs: Sequence[Path], cwd: Path) -> list[str]:
    if name is None or harness_names.is_name(name):
        return [] if name is None else [name]
    return [str(catalog.find_benchmark(name, cwd=cwd, search_dirs=search_dirs))]


def _included_by_overrides(overrides: Sequence[Override]) -> tuple[list[str], list[Override]]:
    """Files that the command line includes by ``+config_paths=[…]``, and the other overrides."""
    names: list[str] = []
    for override in overrides:
        if override.key == "config_paths":
            value = override.value
            names += value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        raise errors.ConfigError("config_paths: must be a list of file names.")
    return names, [override for override in overrides if override.key != "config_paths"]


def require_policy(config: RunConfig) -> tuple[str, str]:
    """Base URL and name of the policy model, or `errors.ConfigError` naming all that is missing."""
    missing = []
    if config.policy_base_url is None:
        missing.append("policy_base_url (--model-url)")
    if config.policy_model_name is None:
        missing.append("policy_model_name (--model)")
    if config.policy_base_url is None or config.policy_model_name is None:
        raise errors.ConfigError(f"the policy model is not fully named: missing {', '.join(missing)}.")
    return config.policy_base_url, config.policy_model_name
