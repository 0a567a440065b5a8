"""Bills for people and programs: tables, one JSON document, and what would have saved most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.config.price_schema import PriceList
from nemo_gym.orchestration.records.locations import SubmissionLocation
from nemo_gym.orchestration.results import bill, bill_inputs
from nemo_gym.orchestration.results.bill import OWNERS, Bill, LinkBill, Saving
from nemo_gym.orchestration.results.bill_costs import BenchmarkCosts, TokenUse, total_of
from nemo_gym.orchestration.results.bill_usage import priced
from nemo_gym.text_table import table
from nemo_runs.durations import duration_in_words

SCHEMA_VERSION = 1

COLUMNS = (
    *("ID", "BENCHMARK", "LINK"),
    *("QUEUE", "INSTALL", "LOAD", "USEFUL", "REPEATED", "TAIL", "IDLE", "ALLOCATED"),
    "GPU-HOURS",
)
"""Headings of the table."""
_NAMES = {
    "repeated": "work that was done again",
    "started_again": "starting once more in later jobs",
    "start": "the first start",
    "drained_tail": "draining",
    "idle": "idling",
    "nothing_kept": "jobs of which no rollout was kept",
}
_HOUR = 3_600_000


def bills_of(location: SubmissionLocation, prices: PriceList) -> list[Bill]:
    """One bill per benchmark of a submission, or per model of a campaign, those that never started left out.

    A benchmark of a campaign that was queued again has a bill of its own for that.
    """
    entries = location.record.benchmarks
    place = bill_inputs.place(location)
    models: dict[str, list[JobPaths]] = {}
    for entry in entries:
        if entry.model is not None:
            models.setdefault(entry.model, []).append(location.job(entry.benchmark))
    found = [(bill_inputs.bill_of_model(location, model), folders) for model, folders in models.items()]
    for entry in entries:  # tokens are on the bill of the job that is shared
        own = [location.job(entry.benchmark)] if entry.model is None else []
        found.append((bill_inputs.bill_of(location, entry), own))
    return [
        replace(each, costs=priced(folders, gpu_hours([each]), each.allocated / _HOUR, place, prices))
        for each, folders in found
        if each.links
    ]


def gpu_hours(bills: Sequence[Bill]) -> float | None:
    """GPU-hours of all; `None` when of one the number of GPUs is not known."""
    if not bills or any(each.gpus is None for each in bills):
        return None
    return sum(each.allocated * (each.gpus or 0) for each in bills) / _HOUR


def to_json(bills: Sequence[Bill]) -> dict[str, Any]:
    """The document of ``--json``. Times are whole milliseconds, so that sums add up exactly."""
    return {
        "schema_version": SCHEMA_VERSION,
        "total": {
            "queue_ms": sum(each.queue for each in bills),
            "allocated_ms": sum(each.allocated for each in bills),
            "owners_ms": _owners(bills),
            "gpu_hours": gpu_hours(bills),
            "cost": total_of(each.costs for each in bills),
            "currency": next((each.costs.currency for each in bills if each.costs), None),
        },
        "would_have_saved": [
            {"cause": saving.cause, "allocated_ms": saving.milliseconds, "advice": saving.advice}
            for saving in bill.savings(bills)
        ],
        "benchmarks": [_benchmark(each) for each in bills],
    }


def _owners(bills: Sequence[Bill]) -> dict[str, int]:
    return {owner: sum(each.owners[owner] for each in bills) for owner in OWNERS}


def _benchmark(one: Bill) -> dict[str, Any]:
    return {
        "gym_job_id": one.gym_job_id,
        "benchmark": one.benchmark,
        "gpus": one.gpus,
        "gpu_hours": gpu_hours([one]),
        "queue_ms": one.queue,
        "allocated_ms": one.allocated,
        "owners_ms": one.owners,
        **(one.costs.to_json() if one.costs else {}),
        "links": [_link(link) for link in one.links],
        "notes": one.notes,
    }


def _link(link: LinkBill) -> dict[str, Any]:
    from nemo_runs.clock import utc_text

    return {
        "link": link.name,
        "started_at": utc_text(link.start / 1000),
        "ended_at": utc_text(link.end / 1000) if link.ended else None,
        "queue_ms": link.queue,
        "allocated_ms": link.allocated,
        "owners_ms": link.owners,
    }


def to_text(bills: Sequence[Bill], width: int | None = None) -> str:
    """A table with one row a link and totals; below it notes, and what would have saved most."""
    lines = [table(COLUMNS, rows(bills), width)]
    for part in remarks(bills):
        lines += ["", *part]
    return "\n".join(lines)


def rows(bills: Sequence[Bill]) -> list[list[str]]:
    """The cells of `COLUMNS`: a row for each link, and totals."""
    found = []
    for each in bills:
        for link in each.links:
            found.append([each.gym_job_id, each.benchmark, link.name, *_times(link.queue, link.owners), ""])
        if len(each.links) > 1:
            times = _times(each.queue, each.owners)
            found.append([each.gym_job_id, each.benchmark, "all", *times, _hours(gpu_hours([each]))])
        else:
            found[-1][-1] = _hours(gpu_hours([each]))
    if len(bills) > 1:
        queue = sum(each.queue for each in bills)
        found.append(["all", "", "", *_times(queue, _owners(bills)), _hours(gpu_hours(bills))])
    return found


def remarks(bills: Sequence[Bill]) -> list[list[str]]:
    """What is said below the table, in parts: notes, tokens and money, what would have saved most."""
    notes = [f"{each.benchmark} of {each.gym_job_id}: {note}" for each in bills for note in each.notes]
    savings = bill.savings(bills)
    advice = [_advice(savings[0], sum(each.allocated for each in bills))] if savings else []
    return [part for part in (notes, _cost_lines(bills), advice) if part]


def _cost_lines(bills: Sequence[Bill]) -> list[str]:
    """Tokens and money, a line for each part; nothing where no tokens were counted and no price is known."""
    lines: list[str] = []
    for each in bills:
        if each.costs is not None:
            name = f"{each.benchmark} of {each.gym_job_id}"
            lines += [f"{name}: {line}" for line in _parts(each.costs)]
    if len(bills) > 1 and (total := total_of(each.costs for each in bills)) is not None:
        lines.append(f"all: {_money(total, bills[0].costs)}")
    return lines


def _parts(costs: BenchmarkCosts) -> Iterator[str]:
    if costs.gpu_cost is not None:
        yield f"{_hours(costs.gpu_hours)} GPU-hours, {_money(costs.gpu_cost, costs)}"
    if costs.core_hours is not None:
        money = "" if costs.core_cost is None else f", {_money(costs.core_cost, costs)}"
        yield f"{_hours(costs.core_hours)} core-hours{money}"
    if costs.tokens is not None:
        yield f"{_tokens(costs.tokens)}{_priced(costs.token_cost, costs, costs.tokens)}"
    for name, use in costs.judges.items():
        yield f"judge {name}: {_tokens(use)}{_priced(costs.judge_costs[name], costs, use)}"
    if costs.known:
        total = costs.total
        without = f"unknown: there is no price for {', '.join(costs.unknown)}"
        yield f"together {without if total is None else _money(total, costs)}"


def _tokens(use: TokenUse) -> str:
    return f"{use.input:,.0f} tokens in, {use.output:,.0f} out ({use.model or 'unknown model'})"


def _priced(cost: float | None, costs: BenchmarkCosts, use: TokenUse) -> str:
    if use.served_by_job:
        return ", answered by the job itself"
    return ", no known price" if cost is None else f", {_money(cost, costs)}"


def _money(value: float, costs: BenchmarkCosts | None) -> str:
    currency = costs.currency if costs is not None else None
    return f"{value:,.2f}{f' {currency}' if currency else ''}"


def _times(queue: int, owners: dict[str, int]) -> list[str]:
    return [_time(ms) for ms in (queue, *(owners[owner] for owner in OWNERS), sum(owners.values()))]


def _time(milliseconds: int) -> str:
    return duration_in_words(milliseconds / 1000, tenths=True)


def _hours(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.2f}"


def _advice(saving: Saving, allocated: int) -> str:
    share = saving.milliseconds / allocated if allocated else 0.0
    spent = f"{_time(saving.milliseconds)} ({share:.0%}) went into {_NAMES[saving.cause]}"
    return f"What would have saved most: {saving.advice}. {spent}."
