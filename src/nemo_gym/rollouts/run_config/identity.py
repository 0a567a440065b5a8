"""What a run's answers and grades depend on: two lists of configuration keys and their digests.

Generation is what affects answers; a change there makes recorded answers belong to something else. Scoring is
what affects grades; a change there is met by `gym eval reverify`, without new answers. Everything that
differs from one job of a chain to the next (port, host, base URL, key, concurrency, paths, time limits, job
ids) is in neither, or the chain would refuse itself. Every key of the run configuration is in exactly one of
three lists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nemo_gym.sandbox import config_files
from nemo_gym.tools.config_files import file_specs
from nemo_gym.verifiers.source_files import python_verifiers, verifier_specs

if TYPE_CHECKING:
    from nemo_gym.rollouts.run_config.schema import RunConfig

GENERATION_KEYS: Final = (
    "benchmark.agent",
    "benchmark.choices",
    "benchmark.command",  # but for how it is stopped, resumed and read
    "benchmark.fields",
    "benchmark.name",
    "benchmark.parse",
    "benchmark.prompt",
    "limit",
    "num_repeats",
    "num_repeats_add_seed",
    "policy_api",
    "policy_model_digest",
    "policy_model_name",
    "policy_system_role",
    "responses_create_params",
)
"""Keys that affect answers, besides the digest of the data set and the model that answers."""

SCORING_KEYS: Final = (
    "benchmark.grade_reasoning",
    "benchmark.graded_ends",
    "benchmark.lm_eval",  # but for what makes its questions, for which the digest of the data set stands
    "benchmark.verifier",
    "judge_models",  # of each what `JUDGE_KEYS` names
)
"""Keys that affect grades."""

JUDGE_KEYS: Final = ("model", "api", "system_role", "params")
"""What of a judge model affects grades; address, limits and prices do not."""

NEITHER_KEYS: Final = (
    "allow_unsafe_resume",
    "benchmark.datasets",  # the digest of the data set stands for it
    "benchmark.description",
    "benchmark.group_by",
    "benchmark.num_repeats",  # the effective number stands under `num_repeats`
    "benchmark.source",
    "benchmark.unpublished",
    "check_model",
    "config_paths",
    "disable_aggregation",
    "dispatch_budget_s",
    "drain_margin_s",
    "input_jsonl_fpath",  # the digest of the data set stands for it
    "max_request_attempts",
    "max_requests_per_minute",
    "max_tokens_per_minute",
    "max_rollout_attempts",
    "model_endpoint_readiness_timeout_seconds",
    "num_samples_in_parallel",
    "output_jsonl_fpath",
    "policy_api_key",
    "policy_base_url",
    "policy_replica_urls",
    "policy_service_name",
    "policy_tokenizer",  # the digest of the data set stands for it: its rows hold the tokens
    "prepare_script_args",  # the digest of the data set stands for it
    "request_timeout_seconds",
    "require_complete",
    "resume_from_cache",
    "split",  # the digest of the data set stands for it
    "until",  # which tasks are asked, and not how; its plan is beside the results
    "walltime_margin_s",
)
"""Keys that affect neither, so that they may differ from one job of a chain to the next."""

MODEL_KEYS: Final = ("name", "server_version", "fingerprint")
"""What of an endpoint's self-description distinguishes one model from another; times, ids and paths do
not."""

_OF_QUESTIONS: Final = (
    "apply_chat_template",
    "fewshot_as_multiturn",
    "fewshot_seed",
    "gen_kwargs",
    "max_length",
    "num_fewshot",
    "system_instruction",
)
"""Of ``benchmark.lm_eval``: the data set holds what they made."""
_NOT_OF_ANSWERS: Final = ("files", "limit_args", "resume_args", "stop_signal", "working_folder")
"""Of ``benchmark.command``; the digests of its files are recorded beside what it writes."""
AGENT_FACTS: Final = "agent_facts"
"""Key of what the agent says that answers depend on besides its options."""
_LEARNT: Final = ("model.", "benchmark.lm_eval.definition.", f"{AGENT_FACTS}.", "graded_with.")
"""What a run learns: where one side does not know it, that makes no difference."""
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Identity:
    """What answers and grades belong to. Values are plain JSON without nulls."""

    generation: dict[str, Any]
    scoring: dict[str, Any]
    model: dict[str, Any] | None = None
    """All that the endpoint said about its model; only `MODEL_KEYS` of it are part of ``generation``."""

    @property
    def generation_digest(self) -> str:
        """Sixty-four hexadecimal digits that change when answers would."""
        return digest(self.generation)

    @property
    def scoring_digest(self) -> str:
        """Sixty-four hexadecimal digits that change when grades would."""
        return digest(self.scoring)


def identity_of(
    config: RunConfig,
    *,
    dataset_sha256: str,
    examples_sha256: str | None = None,
    model: Mapping[str, Any] | None,
    agent_facts: Mapping[str, str] | None = None,
    graded_with: Mapping[str, str] | None = None,
) -> Identity:
    """The identity of a run: the listed keys, the data set's digest and the model that answers.

    A setting that is null counts as absent, so that a new optional key changes no digest. ``model`` is what
    the endpoint says about itself, ``agent_facts`` what the agent says that answers depend on besides its
    options, ``graded_with`` digests of what the verifier compares answers with besides its options; each is
    ``None`` if it was not asked.
    """
    plain = config.model_dump(mode="json")
    generation = _pick(plain, GENERATION_KEYS)
    generation["num_repeats"] = config.repeats
    harness = config.benchmark.lm_eval
    if harness is not None and harness.definition is None and config.num_repeats is None:
        del generation["num_repeats"]  # the task says how many, and was not read yet
    if not generation.get("limit"):
        generation.pop("limit", None)
    generation["dataset_sha256"] = dataset_sha256
    if examples_sha256 is not None:
        generation["examples_sha256"] = examples_sha256
    if model:
        generation["model"] = {key: model[key] for key in MODEL_KEYS if model.get(key) is not None}
    if agent_facts:
        generation[AGENT_FACTS] = dict(agent_facts)
    scoring = _pick(plain, SCORING_KEYS)
    if config.benchmark.command is not None:
        _identify_command(generation, scoring)
    if harness is not None:
        for key in (*_OF_QUESTIONS, "include_path"):
            scoring["benchmark"]["lm_eval"].pop(key)
    if graded_with:
        scoring["graded_with"] = dict(graded_with)
    judges = {name: _pick(judge, JUDGE_KEYS) for name, judge in scoring.pop("judge_models").items()}
    if judges:
        scoring["judge_models"] = judges
    return Identity(
        generation=_without_nulls(_with_tool_digests(generation)),
        scoring=_without_nulls(_with_digests(scoring)),
        model=dict(model) if model else None,
    )


def _identify_command(generation: dict[str, Any], scoring: dict[str, Any]) -> None:
    """Take out of a command what its answers do not depend on; its mapping is how they are graded."""
    command = generation["benchmark"]["command"]
    for key in _NOT_OF_ANSWERS:
        command.pop(key)
    scoring["benchmark"]["command"] = {"results": command.pop("results")}


def digest(values: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of a mapping."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Say key by key what changed, as ``responses_create_params.temperature: 0.0 → 0.7``.

    What only one side knows about the model is not a difference: an endpoint that was not asked, or does not
    say, proves no change.
    """
    before, after = _flatten(old), _flatten(new)
    changed: list[str] = []
    for key in sorted(before.keys() | after.keys()):
        if key.startswith(_LEARNT) and (key not in before or key not in after):
            continue
        if key not in before or key not in after or _differ(before[key], after[key]):
            changed.append(f"{key}: {_show(before, key)} → {_show(after, key)}")
    return changed


def _pick(plain: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    picked: dict[str, Any] = {}
    for key in keys:
        *folders, leaf = key.split(".")
        source: Any = plain
        for folder in folders:
            source = source.get(folder, {})
        if leaf in source:
            target = picked
            for folder in folders:
                target = target.setdefault(folder, {})
            target[leaf] = source[leaf]
    return picked


def _with_digests(scoring: dict[str, Any]) -> dict[str, Any]:
    """The digest of a Python file that grades stands for its text."""
    for spec in python_verifiers(scoring.get("benchmark", {}).get("verifier")):
        if isinstance(spec.get("source"), str):
            spec["source"] = _digest_of(spec["source"])
    _digest_pins(*verifier_specs(scoring.get("benchmark", {}).get("verifier")))
    return scoring


def _with_tool_digests(generation: dict[str, Any]) -> dict[str, Any]:
    """The same for Python files that hold tools."""
    for spec in file_specs(generation["benchmark"]["agent"]):
        if isinstance(spec.get("source"), str):
            spec["source"] = _digest_of(spec["source"])
    _digest_pins(generation["benchmark"]["agent"])
    return generation


def _digest_pins(*owners: Any) -> None:
    """The same for the pinned packages of a sandbox; what the file is called does not matter."""
    for spec in config_files.specs(*owners):
        if isinstance(spec.get(config_files.PINS_KEY), str):
            spec[config_files.PINS_KEY] = _digest_of(spec[config_files.PINS_KEY])
            del spec[config_files.NAME_KEY]


def _digest_of(source: str) -> str:
    return "sha256:" + hashlib.sha256(source.encode()).hexdigest()


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(item) for item in value]
    return value


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _differ(before: Any, after: Any) -> bool:
    """Compared as JSON, where 1 and true are different and so are 1 and "1"."""
    return json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True)


def _show(values: Mapping[str, Any], key: str) -> str:
    if key not in values:
        return "(unset)"
    text = json.dumps(values[key], ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
