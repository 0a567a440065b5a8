"""What the folder of a benchmark says about the time that its jobs had: links, events, rows. Only reads."""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import prod
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.errors import GymError
from nemo_gym.events import ChainEvent
from nemo_gym.job_paths import JobPaths, LinkPaths
from nemo_gym.orchestration.config import campaign
from nemo_gym.orchestration.config.schema import SubmitConfig
from nemo_gym.orchestration.jobs import BenchmarkEntry
from nemo_gym.orchestration.records.locations import SubmissionLocation
from nemo_gym.orchestration.results import bill
from nemo_gym.orchestration.results.bill import Bill, BilledLink, InFlightCounts
from nemo_gym.orchestration.results.bill_costs import JobPlace, place_of
from nemo_gym.orchestration.status.link_files import LARGEST, whole
from nemo_gym.rollouts.output.rows import read_blocks
from nemo_runs.counts import counted
from nemo_runs.durable.journal import read_journal
from nemo_runs.errors import RunsError
from nemo_runs.processes.supervise import read_exit

_NEAR_END = 400
_TIMES = re.compile(rb'"total_latency_ms":([0-9.eE+-]+),"ended_at":([0-9.]+)[},]')
_LONGEST = 100 * 24 * 3_600_000
"""Milliseconds that a job may have run: where one seems to be longer, a clock was wrong."""
_LATE = 60_000
"""Milliseconds by which a row may seem younger than its file."""


@dataclass(slots=True)
class _Seen:
    """Links with what was in flight in each."""

    links: list[BilledLink]
    kept: list[InFlightCounts] = field(default_factory=list)
    lost: list[InFlightCounts] = field(default_factory=list)
    untimed: int = 0
    timed: int = 0
    outside: int = 0

    def __post_init__(self) -> None:
        self.kept = [InFlightCounts(link.start) for link in self.links]
        self.lost = [InFlightCounts(link.start) for link in self.links]

    def add(self, in_flight: list[InFlightCounts], begin: int, end: int, latest: int) -> None:
        """Put a rollout into the link that ran when it ended: the one that started last before that."""
        at = bisect_right([link.start for link in self.links], end) - 1
        while at >= 0 and self.links[at].ended and self.links[at].end < end:
            at -= 1
        if at < 0 or end > latest or end - self.links[at].start > _LONGEST:
            self.outside += 1
            return
        self.timed += 1
        in_flight[at].add(begin, end)


def bill_of(location: SubmissionLocation, entry: BenchmarkEntry) -> Bill:
    """The bill of one benchmark's own jobs. Raises `OSError` when its files cannot be read."""
    return _bill(location, entry.benchmark, [location.job(entry.benchmark)], shared=entry.model)


def bill_of_model(location: SubmissionLocation, model: str) -> Bill:
    """The bill of the jobs that the benchmarks of a model share. Raises `OSError` as `bill_of`."""
    its = [entry.benchmark for entry in location.record.benchmarks if entry.model == model]
    folders = [location.job(model), *(location.job(benchmark) for benchmark in its)]
    return _bill(location, model, folders, shared=None)


def _bill(location: SubmissionLocation, name: str, folders: list[JobPaths], shared: str | None) -> Bill:
    """A bill of the jobs of the first folder, for the rollouts of all; without those of ``shared`` jobs."""
    events = [event for paths in folders for event in read_journal(paths.events)]
    if len(folders) > 1:
        events.sort(key=lambda event: _ms(event) or 0)
    links = _links(folders, events)
    if shared is not None:
        others = {link.name for link in _links([location.job(shared)], [])}
        links = [link for link in links if link.name not in others]
    seen = _Seen(links)
    for paths in folders:
        _take_rows(seen, paths.rollouts.output)
        _take_failures(seen, paths.rollouts.failures)
    command = not any(paths.run_config.exists() for paths in folders)
    _settle(seen, opaque=command or (seen.timed == 0 and seen.untimed > 0))
    if shared is not None:
        seen.outside = 0  # they are those of the shared jobs
    config = _config(location.paths.resolved_config)
    return Bill(
        gym_job_id=location.record.gym_job_id,
        benchmark=name,
        gpus=gpus(config, _services(config, shared or name)),
        links=bill.bill_links(seen.links, _submitted(events), seen.kept, seen.lost),
        notes=list(_notes(seen)),
    )


def place(location: SubmissionLocation) -> JobPlace:
    """Where the jobs of a submission run, by the names that a price list may use."""
    return place_of(_config(location.paths.resolved_config))


def _services(config: Mapping[str, Any], model: str) -> Collection[str]:
    """The services of one job: all but those of other models of a campaign."""
    services = config.get("services") or {}
    if not (config.get("driver") or {}).get("models"):
        return set(services)
    try:
        shares = campaign.shares(SubmitConfig.model_validate(config))
    except ValueError:
        return set(services)
    return next((set(share.config.services) for share in shares if share.name == model), set(services))


def _settle(seen: _Seen, *, opaque: bool) -> None:
    """Give links whose end nobody saw their last sign of life, rows included."""
    for at, (link, kept, lost) in enumerate(zip(seen.links, seen.kept, seen.lost, strict=True)):
        end = link.end if link.ended and link.charged is not None else max(link.end, kept.last, lost.last)
        last = at + 1 == len(seen.links)
        if not last and not link.ended:
            end = max(link.end, min(end, seen.links[at + 1].start))
        seen.links[at] = replace(link, end=end, ended=link.ended or not last, opaque=opaque)


def _notes(seen: _Seen) -> Iterator[str]:
    if seen.untimed:
        rows = counted(seen.untimed, "row does", "rows do")
        yield f"{rows} not say when the rollout ended, as an older gym wrote them"
    if seen.outside:
        rows = counted(seen.outside, "rollout")
        yield f"{rows} ended while none of these jobs ran, and counted for none"
    for link in seen.links:
        if not link.ended:
            yield f"{link.name} has not ended as far as its folder shows: billed up to its last sign of life"


def _links(folders: list[JobPaths], events: list[dict[str, Any]]) -> list[BilledLink]:
    """The links of the first folder; what was charged for them may be noted in the others."""
    paths = folders[0]
    events_of: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        events_of[f"{event.get('job_id')}.{event.get('restart', 0)}"].append(event)
    folder = paths.link("0").folder.parent
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
    charged = _charged([LinkPaths(link) for its in folders for link in its.links.glob("*") if link.is_dir()])
    found = [_link(name, LinkPaths(folder / name), events_of[name], charged.get(name)) for name in names]
    return sorted((link for link in found if link is not None), key=lambda link: (link.start, link.name))


def _link(
    name: str, paths: LinkPaths, events: list[dict[str, Any]], charged: int | None
) -> BilledLink | None:
    """One link; `None` for one that never started."""
    exit_ = None
    with contextlib.suppress(RunsError):
        exit_ = read_exit(paths.exit)
    moments = {event: [_ms(e) for e in events if e.get("event") == event.value] for event in ChainEvent}
    script = [at for at in moments[ChainEvent.JOB_STARTED] if at]
    start = round(1000 * exit_.started_at) if exit_ else script[0] if script else _started(paths.started)
    if start is None:
        return None
    ended = [at for at in moments[ChainEvent.JOB_ENDED] if at]
    signs = [at for event in events if (at := _ms(event)) and event.get("event") != ChainEvent.QUEUED.value]
    if exit_:
        end: int | None = round(1000 * exit_.ended_at)
    elif charged is not None:
        end = max(start + charged, *ended[-1:], start)
    else:
        end = ended[-1] if ended else None
    statuses = [e.get("status") for e in events if e.get("event") == ChainEvent.DRIVER_ENDED.value]
    status = statuses[-1] if statuses and isinstance(statuses[-1], int) else None
    return BilledLink(
        name=name,
        start=start,
        end=min(max(start, end if end is not None else max(signs, default=start)), 1000 * LARGEST),
        ended=end is not None,
        charged=charged,
        loading=min(filter(None, moments[ChainEvent.SERVICE_STARTED]), default=None),
        driver=min(filter(None, moments[ChainEvent.DRIVER_STARTED]), default=None),
        driver_ended=max(filter(None, moments[ChainEvent.DRIVER_ENDED]), default=None),
        driver_status=status,
        stop_asked=min(filter(None, moments[ChainEvent.STOP_ASKED]), default=None),
    )


def _charged(links: list[LinkPaths]) -> dict[str, int]:
    """Raw seconds of the scheduler, in milliseconds, as later links noted them; the largest note counts.

    A scheduler's count only grows until it is final.
    """
    found: dict[str, int] = {}
    for link in links:
        for line in _text(link.accounted).splitlines():
            name, _, seconds = line.strip().partition(" ")
            if (known := whole(seconds)) is not None:
                found[name] = max(found.get(name, 0), 1000 * min(known, LARGEST))
    return found


def _started(path: Path) -> int | None:
    seconds = whole(_text(path).strip())
    return 1000 * seconds if seconds is not None and seconds <= LARGEST else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _submitted(events: list[dict[str, Any]]) -> int | None:
    """When the first job was queued."""
    wanted = (ChainEvent.SUBMITTED.value, ChainEvent.QUEUED.value)
    return next((at for event in events if event.get("event") in wanted and (at := _ms(event))), None)


def _ms(event: Mapping[str, Any]) -> int | None:
    try:
        moment = round(1000 * datetime.fromisoformat(str(event.get("at"))).timestamp())
    except (ValueError, OverflowError):
        return None
    return moment if 0 <= moment <= 1000 * LARGEST else None


def _take_rows(seen: _Seen, path: Path) -> None:
    try:
        latest = path.stat().st_mtime_ns // 1_000_000 + _LATE
        for block in read_blocks(path):
            for line in block.split(b"\n"):
                times = _row_times(line)
                if times is None:
                    seen.untimed += 1
                else:
                    seen.add(seen.kept, times[1] - times[0], times[1], latest)
    except FileNotFoundError:
        return


def _row_times(line: bytes) -> tuple[int, int] | None:
    """Latency and end of a result in milliseconds; they are near its end, else the row is parsed."""
    found = _TIMES.findall(line, max(0, len(line) - _NEAR_END))
    if found:
        with contextlib.suppress(ValueError, OverflowError):
            return round(float(found[-1][0])), round(1000 * float(found[-1][1]))
    with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError):
        perf = orjson.loads(line)["ng_perf"]
        return round(float(perf["total_latency_ms"])), round(1000 * float(perf["ended_at"]))
    return None


def _take_failures(seen: _Seen, path: Path) -> None:
    try:
        latest = path.stat().st_mtime_ns // 1_000_000 + _LATE
        for block in read_blocks(path):
            for line in block.split(b"\n"):
                with contextlib.suppress(ValueError, KeyError, TypeError, OverflowError):
                    row = orjson.loads(line)
                    end = round(1000 * float(row["_ng_failure_at"]))
                    seen.add(seen.lost, end - round(float(row["_ng_failure_latency_ms"])), end, latest)
    except FileNotFoundError:
        return


def _config(path: Path) -> dict[str, Any]:
    from nemo_gym.composition import load_yaml

    try:
        return load_yaml(path)
    except GymError:
        return {}


def gpus(config: Mapping[str, Any], services: Collection[str]) -> int | None:
    """GPUs of one job: of its node pools, or of its services on a machine of one's own.

    `None` when the resolved config does not say.
    """
    compute: dict[str, Any] = next(iter((config.get("compute") or {}).values()), {}) or {}
    pools = list((compute.get("node_pools") or {}).values())
    if pools:
        known = [pool.get("gpus_per_node") for pool in pools]
        each = [pool.get("nodes") or 1 for pool in pools]
        return None if None in known else sum(a * b for a, b in zip(known, each, strict=True))
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "number_of_instances", "replicas")
    filled = 0
    for name, service in (config.get("services") or {}).items():
        if name in services and service.get("type") in ("vllm", "sglang"):
            filled += prod(service.get(size) or 1 for size in sizes)
    return filled or compute.get("gpus")
