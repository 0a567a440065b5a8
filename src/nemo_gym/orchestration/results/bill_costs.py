"""What the jobs of a benchmark cost: GPUs, cores, tokens of the model, and judges apart. Pure.

What has no known price is null, and so is a total with such a part in it; it never counts as 0. What a
benchmark did not use is left out of its total.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from nemo_gym.orchestration.config.price_schema import PriceList, TokenPrice

_DEFAULT = "default"
_TYPED = re.compile(r"(?:gpu:)?([A-Za-z][\w.-]*):\d+")
_TYPE_OPTIONS = ("gpus-per-node", "gres", "gpus", "gpus-per-task", "gpus-per-socket")


@dataclass(frozen=True, slots=True)
class TokenUse:
    """Tokens of one model, as its server counted them."""

    model: str | None
    input: float
    output: float
    served_by_job: bool = False
    """Whether GPUs of the job itself answered: then these are what is paid for."""

    def cost(self, price: TokenPrice | None) -> float | None:
        """In the currency of the price."""
        return None if price is None else (self.input * price.input + self.output * price.output) / 1_000_000


@dataclass(frozen=True, slots=True)
class JobPlace:
    """Where jobs ran, by the names that a price list may use, and what they had."""

    names: tuple[str, ...] = ()
    """Types of GPUs, partitions, the compute entry; in this order."""
    cores: int | None = None
    """Of one allocation; ``None`` where nobody said."""
    has_services: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkCosts:
    """Hours and tokens of one benchmark, and what they cost."""

    currency: str | None
    gpu_hours: float | None
    core_hours: float | None
    tokens: TokenUse | None
    """Of the model that answers; ``None`` where its server counted none."""
    judges: Mapping[str, TokenUse] = field(default_factory=dict)
    gpu_cost: float | None = None
    core_cost: float | None = None
    token_cost: float | None = None
    judge_costs: Mapping[str, float | None] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    """What was used and has no known price, in words."""

    @property
    def known(self) -> list[float]:
        """All parts that have a price."""
        parts = [self.gpu_cost, self.core_cost, self.token_cost, *self.judge_costs.values()]
        return [part for part in parts if part is not None]

    @property
    def total(self) -> float | None:
        """All of it; ``None`` where a part has no known price, or nothing was used that could have one."""
        return math.fsum(self.known) if self.known and not self.unknown else None

    def to_json(self) -> dict[str, Any]:
        """For ``--json``; what is not known is null."""
        return {
            "currency": self.currency,
            "core_hours": self.core_hours,
            "tokens": self.tokens and asdict(self.tokens),
            "judges": {
                name: {**asdict(use), "cost": self.judge_costs[name]} for name, use in self.judges.items()
            },
            "cost": {
                "gpus": self.gpu_cost,
                "cores": self.core_cost,
                "tokens": self.token_cost,
                "judges": _together(self.judge_costs.values()),
                "total": self.total,
            },
            "without_price": list(self.unknown),
        }


def costs_of(
    gpu_hours: float | None,
    allocated_hours: float,
    place: JobPlace,
    tokens: TokenUse | None,
    judges: Mapping[str, TokenUse],
    prices: PriceList,
    *,
    judge_prices: Mapping[str, TokenPrice | None],
) -> BenchmarkCosts:
    """Price what was used; ``judge_prices`` are those that the run's own config names, which go first."""
    unknown = []
    gpu_price = _first(prices.gpu_hour, place.names)
    gpu_cost = None
    if gpu_hours or (gpu_hours is None and place.has_services):
        gpu_cost = None if gpu_hours is None or gpu_price is None else gpu_hours * gpu_price
        if gpu_cost is None:
            unknown.append("GPUs" if gpu_hours is None else f"GPUs ({', '.join(place.names) or 'no name'})")
    core_hours = None if place.cores is None else allocated_hours * place.cores
    core_price = _first(prices.core_hour, place.names)
    core_cost = None if core_hours is None or core_price is None else core_hours * core_price
    token_cost = None
    if tokens is not None and not tokens.served_by_job:
        token_cost = tokens.cost(prices.million_tokens.get(tokens.model or ""))
        if token_cost is None:
            unknown.append(f"tokens of {tokens.model or 'the model'}")
    costs = {
        name: use.cost(judge_prices.get(name) or prices.million_tokens.get(use.model or ""))
        for name, use in judges.items()
        if not use.served_by_job
    }
    unknown += [f"tokens of the judge {name}" for name, cost in costs.items() if cost is None]
    return BenchmarkCosts(
        currency=prices.currency,
        gpu_hours=gpu_hours,
        core_hours=core_hours,
        tokens=tokens,
        judges=judges,
        gpu_cost=gpu_cost,
        core_cost=core_cost,
        token_cost=token_cost,
        judge_costs={name: costs.get(name) for name in judges},
        unknown=tuple(unknown),
    )


def total_of(all_costs: Iterable[BenchmarkCosts | None]) -> float | None:
    """The sum over benchmarks; ``None`` where one has no known total."""
    return _together([None if each is None else each.total for each in all_costs])


def place_of(config: Mapping[str, Any]) -> JobPlace:
    """Where the jobs of a resolved config run."""
    entries = config.get("compute") or {}
    name = next(iter(entries), "")
    compute: Mapping[str, Any] = entries.get(name) or {}
    pools = list((compute.get("node_pools") or {}).values())
    options = [pool.get("extra_args") or {} for pool in pools] + [compute.get("extra_args") or {}]
    texts = [str(given[option]) for given in options for option in _TYPE_OPTIONS if given.get(option)]
    types = [found[1] for text in texts if (found := _TYPED.search(text))]
    partitions = [str(pool["partition"]) for pool in pools if pool.get("partition")]
    if (compute.get("extra_args") or {}).get("partition"):
        partitions.append(str(compute["extra_args"]["partition"]))
    names = tuple(dict.fromkeys([*types, *partitions, *([name] if name else [])]))
    return JobPlace(names, _cores(pools, compute), bool(config.get("services")))


def _cores(pools: list[Any], compute: Mapping[str, Any]) -> int | None:
    """Cores of one allocation, as ``cpus-per-task`` says; ``None`` where a part of it says nothing."""
    total = 0
    for pool in pools or [{}]:
        options = {**(compute.get("extra_args") or {}), **(pool.get("extra_args") or {})}
        try:
            each = int(str(options["cpus-per-task"]))
        except (KeyError, ValueError):
            return None
        total += each * int(pool.get("ntasks_per_node") or 1) * int(pool.get("nodes") or 1)
    return total


def _first(listed: Mapping[str, float], names: Iterable[str]) -> float | None:
    return next((listed[name] for name in (*names, _DEFAULT) if name in listed), None)


def _together(parts: Iterable[float | None]) -> float | None:
    found = list(parts)
    known = [part for part in found if part is not None]
    return math.fsum(known) if known and len(known) == len(found) else None
