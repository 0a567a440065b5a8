"""The tokens that a benchmark used, from its summary, and the models that counted them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nemo_gym.errors import GymError
from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.config.price_schema import PriceList, TokenPrice
from nemo_gym.orchestration.results.bill_costs import BenchmarkCosts, JobPlace, TokenUse, costs_of


def priced(
    folders: Sequence[JobPaths],
    gpu_hours: float | None,
    allocated_hours: float,
    place: JobPlace,
    prices: PriceList,
) -> BenchmarkCosts:
    """The costs of the benchmarks of a job, one as a rule; what their files do not say is not known."""
    tokens: TokenUse | None = None
    found: dict[str, TokenUse] = {}
    own: dict[str, TokenPrice | None] = {}
    for paths in folders:
        run, summary = _run(paths), _summary(paths)
        judges = run.get("judge_models") or {}
        for name, use in (summary.get("judges") or {}).items():
            known = judges.get(name) or {}
            asked = TokenUse(
                known.get("model"),
                use.get("prompt_tokens", 0),
                use.get("completion_tokens", 0),
                served_by_job=bool(known.get("service")),
            )
            found[name] = _sum(found.get(name), asked) or asked
            own[name] = _price(known.get("price_per_million_tokens"))
        tokens = _sum(tokens, _tokens(run, summary))
    return costs_of(gpu_hours, allocated_hours, place, tokens, found, prices, judge_prices=own)


def _sum(one: TokenUse | None, other: TokenUse | None) -> TokenUse | None:
    """Tokens of one model for two benchmarks."""
    if one is None or other is None:
        return one or other
    return replace(other, input=one.input + other.input, output=one.output + other.output)


def _tokens(run: Mapping[str, Any], summary: Mapping[str, Any]) -> TokenUse | None:
    tokens = summary.get("tokens") or {}
    if "input" not in tokens or "output" not in tokens:
        return None
    model = run.get("policy_model_name") or (summary.get("run") or {}).get("model")
    return TokenUse(model, tokens["input"], tokens["output"], bool(run.get("policy_service_name")))


def _price(found: Mapping[str, float] | None) -> TokenPrice | None:
    return None if found is None else TokenPrice(input=found["input"], output=found["output"])


def _run(paths: JobPaths) -> Mapping[str, Any]:
    from nemo_gym.composition import load_yaml

    try:
        return load_yaml(paths.run_config)
    except GymError:
        return {}


def _summary(paths: JobPaths) -> Mapping[str, Any]:
    from nemo_gym.rollouts.scores.summary import load_summary

    try:
        found = load_summary(paths.rollouts)
    except GymError:
        return {}
    return {} if found is None else found.to_json()
