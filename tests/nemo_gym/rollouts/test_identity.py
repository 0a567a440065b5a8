"""What answers and grades depend on, and what they must not depend on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.rollouts.run_config import identity
from nemo_gym.rollouts.run_config.schema import BenchmarkConfig, RunConfig

MODEL = {"name": "m", "server_version": "1", "fingerprint": "f"}
BASE: dict[str, Any] = {
    "benchmark": {
        "name": "b",
        "datasets": {"benchmark": {"jsonl_fpath": "/data/b.jsonl"}},
        "prompt": {"user": "{question}"},
        "verifier": {"type": "match", "mode": "exact"},
        "num_repeats": 4,
    },
    "policy_model_name": "m",
    "policy_base_url": "http://127.0.0.1:8000/v1",
    "responses_create_params": {"temperature": 0.0},
}


def identity_of(model: dict[str, Any] | None = MODEL, sha: str = "aa", **changes: Any) -> identity.Identity:
    values = {**BASE, **changes}
    return identity.identity_of(RunConfig.model_validate(values), dataset_sha256=sha, model=model)


def benchmark(**changes: Any) -> dict[str, Any]:
    return {**BASE["benchmark"], **changes}


def test_every_key_of_the_configuration_is_in_exactly_one_list() -> None:
    there = {name for name in RunConfig.model_fields if name != "benchmark"}
    there |= {f"benchmark.{name}" for name in BenchmarkConfig.model_fields}
    listed = [*identity.GENERATION_KEYS, *identity.SCORING_KEYS, *identity.NEITHER_KEYS]
    assert sorted(listed) == sorted(there)


def test_the_next_link_on_another_node_and_port_is_the_same_run() -> None:
    elsewhere = identity_of(
        policy_base_url="http://10.0.0.9:31999/v1",
        policy_api_key="host:OTHER",
        policy_service_name="server",
        num_samples_in_parallel=7,
        output_jsonl_fpath=Path("/other/job-17/rollouts.jsonl"),
        input_jsonl_fpath=Path("/other/job-17/input.jsonl"),
        request_timeout_seconds=9,
        max_rollout_attempts=9,
        resume_from_cache=True,
        dispatch_budget_s=100,
        prepare_script_args={"num_tasks": 4},
        benchmark=benchmark(
            datasets={"benchmark": {"jsonl_fpath": "/copied/b.jsonl"}}, description="new words"
        ),
    )
    assert elsewhere.generation_digest == identity_of().generation_digest
    assert elsewhere.scoring_digest == identity_of().scoring_digest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"responses_create_params": {"temperature": 0.7}}, "responses_create_params.temperature: 0.0 → 0.7"),
        ({"policy_model_name": "n"}, 'policy_model_name: "m" → "n"'),
        ({"num_repeats": 8}, "num_repeats: 4 → 8"),
        ({"limit": 5}, "limit: (unset) → 5"),
        ({"sha": "bb"}, 'dataset_sha256: "aa" → "bb"'),
        ({"model": {**MODEL, "fingerprint": "g"}}, 'model.fingerprint: "f" → "g"'),
        ({"model": {**MODEL, "server_version": "2"}}, 'model.server_version: "1" → "2"'),
        ({"benchmark": benchmark(prompt={"user": "?"})}, 'benchmark.prompt.user: "{question}" → "?"'),
        ({"benchmark": benchmark(agent={"type": "loop"})}, 'benchmark.agent.type: "single_turn" → "loop"'),
    ],
)
def test_what_affects_answers_changes_the_generation_digest_only(change: dict[str, Any], said: str) -> None:
    old, new = identity_of(), identity_of(**change)
    assert identity.differences(old.generation, new.generation) == [said]
    assert old.generation_digest != new.generation_digest
    assert old.scoring_digest == new.scoring_digest


def test_a_changed_verifier_changes_the_scoring_digest_only() -> None:
    old, new = identity_of(), identity_of(benchmark=benchmark(verifier={"type": "match", "mode": "numeric"}))
    assert identity.differences(old.scoring, new.scoring) == ['benchmark.verifier.mode: "exact" → "numeric"']
    assert old.scoring_digest != new.scoring_digest
    assert old.generation_digest == new.generation_digest


def test_the_effective_number_of_repeats_counts_not_where_it_was_written() -> None:
    assert identity_of(num_repeats=4).generation_digest == identity_of().generation_digest
    assert identity_of(limit=0).generation_digest == identity_of().generation_digest


def test_a_setting_that_is_null_is_as_good_as_absent() -> None:
    unset = identity_of(responses_create_params={"temperature": 0.0, "top_p": None})
    assert unset.generation_digest == identity_of().generation_digest


@pytest.mark.parametrize("silent", [None, {"name": "m"}, {**MODEL, "fingerprint": None}])
def test_an_endpoint_that_does_not_say_who_it_is_proves_no_change(silent: dict[str, Any] | None) -> None:
    for old, new in ((silent, MODEL), (MODEL, silent)):
        assert identity.differences(identity_of(old).generation, identity_of(new).generation) == []


def test_true_one_and_the_text_one_are_different_values() -> None:
    assert identity.differences({"a": 1}, {"a": True}) == ["a: 1 → true"]
    assert identity.differences({"a": 1}, {"a": "1"}) == ['a: 1 → "1"']


def test_long_values_are_cut_in_the_difference() -> None:
    (said,) = identity.differences({"a": "x" * 500}, {"a": "y"})
    assert len(said) < 130
    assert said.endswith('… → "y"')
