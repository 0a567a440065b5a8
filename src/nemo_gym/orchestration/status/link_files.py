"""The small files of a benchmark's folder as values. What is damaged is named, never read as a default."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_gym.chain.evidence import (
    CollectorProgress,
    CollectorReport,
    EndMarker,
    Link,
    RecordedDecision,
    Resubmission,
)
from nemo_gym.job_paths import JobPaths, LinkPaths, ResubmissionPaths

_LINK = re.compile(r"(?P<job_id>[^/]+)\.(?P<restart>[0-9]{1,9})")
_WHOLE = re.compile(r"[0-9]{1,15}")
_JOB = JobPaths(Path())
_RUN = LinkPaths(Path())
_AGAIN = ResubmissionPaths(Path())
"""For their names: what is read here are mappings from name to content."""
LARGEST = 253_402_300_799
"""The last second of the year 9999: no count and no time of a run is greater."""


def parse(files: Mapping[str, str]) -> dict[str, Any]:
    """The fields of an `Evidence` that come from the small files of a benchmark's folder."""
    problems: list[str] = []
    progress = _json(files.get(str(_JOB.rollouts.progress)), _JOB.rollouts.progress.name, problems)
    coverage = _json(files.get(str(_JOB.rollouts.coverage)), _JOB.rollouts.coverage.name, problems)
    links = [_link(*found, problems) for found in _folders(files, _JOB.links)]
    return {
        "links": _in_order([link for link in links if link is not None]),
        "chain": tuple(files.get(_JOB.chain.name, "").split()),
        "cancelled": ", ".join(files.get(_JOB.cancelled.name, "").splitlines()),
        "walltime": _count(
            files.get(_JOB.accumulated_walltime.name), _JOB.accumulated_walltime.name, problems
        ),
        "retries": _count(files.get(_JOB.infra_retries.name), _JOB.infra_retries.name, problems),
        "progress": _progress(progress),
        "score": _mean(coverage),
        "resubmissions": tuple(_resubmissions(files, problems)),
        "problems": tuple(problems),
    }


def _folders(files: Mapping[str, str], parent: Path) -> Iterable[tuple[str, dict[str, str]]]:
    """The numbered or named folders below one, each with its files by name."""
    found: dict[str, dict[str, str]] = {}
    for path, content in files.items():
        top, _, rest = path.partition("/")
        folder, _, name = rest.partition("/")
        if top == parent.name and name:
            found.setdefault(folder, {})[name] = content
    return found.items()


def _in_order(links: Sequence[Link]) -> tuple[Link, ...]:
    """The links by their starts, but each after the one before it, whatever the clocks of two nodes say.

    Starts are whole seconds: of two chains in one second, that with the lower first job number is first.
    """
    runs: dict[str, list[Link]] = {}
    for link in links:
        runs.setdefault(link.job_id, []).append(link)

    def before(link: Link) -> Link | None:
        earlier = [run for run in runs[link.job_id] if run.restart < link.restart]
        found = earlier or runs.get(link.predecessor, [])
        return max(found, key=lambda run: run.restart, default=None)

    def order(link: Link) -> tuple[float, int, int, int, str, int]:
        begun, depth, first, other = _begun(link), 0, link, before(link)
        # more steps than there are links: damaged files that name each other
        while other is not None and depth < len(links) and link.started is not None:
            begun, depth, first, other = max(begun, other.started or 0.0), depth + 1, other, before(other)
        return begun, _number_of(first), depth, _number_of(link), link.job_id, link.restart

    return tuple(sorted(links, key=order))


def _number_of(link: Link) -> int:
    return int(re.sub(r"\D", "", link.job_id) or 0)


def _begun(link: Link) -> float:
    return float("inf") if link.started is None else link.started


def _link(folder: str, files: Mapping[str, str], problems: list[str]) -> Link | None:
    name = _LINK.fullmatch(folder)
    if name is None:
        return None
    where = f"{_JOB.links}/{folder}"
    started = files.get(_RUN.started.name)
    return Link(
        job_id=name["job_id"],
        restart=int(name["restart"]),
        predecessor=files.get(_RUN.predecessor.name, "").strip(),
        started=None if started is None else _number(started, f"{where}/{_RUN.started}", problems),
        end=_end(files.get(_RUN.end.name)),
        exit=_json(files.get(_RUN.exit.name), f"{where}/{_RUN.exit.name}", problems),
        collected=_collected(files.get(_RUN.collected.name), f"{where}/{_RUN.collected.name}", problems),
        decision=_decision(files.get(_RUN.decision.name)),
        queued=job_of(files.get(_RUN.queued.name, "")),
        queue_error=" ".join(files.get(_RUN.queue_error.name, "").split()),
        service_died=" ".join(files.get(_RUN.service_died.name, "").split()),
        replicas_lost=whole(files.get(_RUN.replicas_lost.name, "").strip()) or 0,
        full_disks=whole(next(iter(files.get(_RUN.full_disk.name, "").split()), "")) or 0,
        waits_for_room=_full_since(files.get(_RUN.full_disk.name, "")),
        rows=whole(files.get(_RUN.rows.name, "").strip()),
        command=_RUN.command.name in files,
        walltime=whole(files.get(_RUN.walltime.name, "").strip()),
        lived=whole(files.get(_RUN.alive.name, "").strip()),
        ready=whole(files.get(_RUN.ready.name, "").strip()),
    )


def _full_since(text: str) -> float | None:
    words = text.split()
    return float(whole(words[1]) or 0) if len(words) == 2 and words[0] == "waiting" else None


def job_of(text: str) -> str:
    """The id in ``id`` or ``id;cluster``."""
    return text.strip().partition(";")[0]


def _end(text: str | None) -> EndMarker | None:
    words, _, reason = (text or "").partition("\n")
    parts = [*words.split(), "", "", ""]
    if not parts[0]:
        return None
    status = whole(parts[1])
    status = 1 if status is None else status
    return EndMarker(outcome=parts[0], status=status, asked=parts[2], reason=" ".join(reason.split()))


def _decision(text: str | None) -> RecordedDecision | None:
    lines = [*(text or "").splitlines(), "", "", ""]
    action, _, chain = lines[0].strip().partition(" ")
    if not action:
        return None
    return RecordedDecision(
        action=action, chain=chain.strip(), reason=lines[1].strip(), evidence=lines[2].strip()
    )


def _collected(text: str | None, where: str, problems: list[str]) -> CollectorReport | None:
    """What a collector said at its end: lines ``key value``, or one JSON line of an earlier version."""
    if text is None or text.lstrip().startswith("{"):
        found = _json(text, where, problems)
    else:
        words = (line.partition(" ") for line in text.splitlines())
        found = {key: value.strip() for key, _, value in words}
        if "status" not in found:
            problems.append(f"{where} is damaged")
    try:
        return CollectorReport(
            state=str(found["state"]),
            status=int(found["status"]),
            expected=int(found["expected"]),
            recorded=int(found["recorded"]),
            new=int(found["new"]),
            hopeless=None if found.get("hopeless") is None else str(found["hopeless"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _progress(found: Mapping[str, Any]) -> CollectorProgress | None:
    expected, done = found.get("expected"), found.get("done")
    if not isinstance(expected, int) or not isinstance(done, int) or not 0 <= max(expected, done) <= LARGEST:
        return None
    whole = found.get("new") == done
    mean = found.get("mean_reward_all", found.get("mean_reward") if whole else None)
    return CollectorProgress(
        state=str(found.get("state", "")),
        expected=expected,
        done=done,
        mean_reward=_float(mean),
        rate=_float(found.get("rollouts_per_s")),
        eta=_float(found.get("eta_s")),
        updated_at=_float(found.get("updated_at")),
        until=" ".join(str(found.get("until") or "").split()),
        new=new if isinstance(new := found.get("new"), int) and new >= 0 else None,
    )


def _mean(coverage: Mapping[str, Any]) -> float | None:
    score = coverage.get("score")
    return _float(score.get("mean")) if isinstance(score, dict) else None


def _resubmissions(files: Mapping[str, str], problems: list[str]) -> Iterable[Resubmission]:
    numbered = [(whole(name), found) for name, found in _folders(files, _JOB.resubmissions)]
    known = [(number, found) for number, found in numbered if number is not None]
    for number, found in sorted(known, key=lambda item: item[0]):
        where = _JOB.resubmission(number)
        yield Resubmission(
            number=number,
            job_id=job_of(found.get(_AGAIN.queued.name, "")),
            error=" ".join(found.get(_AGAIN.queue_error.name, "").split()),
            owner=_json(found.get(_AGAIN.owner.name), str(where.owner), problems),
            reason=", ".join(found.get(_AGAIN.reason.name, "").splitlines()),
            max_retries=_count(found.get(_AGAIN.max_retries.name), str(where.max_retries), problems),
            max_walltime=_count(found.get(_AGAIN.max_walltime.name), str(where.max_walltime), problems),
        )


def _json(text: str | None, where: str, problems: list[str]) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return found
    problems.append(f"{where} is damaged")
    return {}


def _count(text: str | None, where: str, problems: list[str]) -> int | None:
    number = None if text is None else _number(text, where, problems)
    return None if number is None else int(number)


def _number(text: str, where: str, problems: list[str]) -> float | None:
    with contextlib.suppress(ValueError):
        number = float(text.strip())
        # said in this way round, it leaves out what is not a number too
        if 0 <= number <= LARGEST:
            return number
    problems.append(f"{where} holds no number")
    return None


def whole(text: str) -> int | None:
    """A whole number in decimal digits; `None` for anything else."""
    return int(text) if _WHOLE.fullmatch(text) else None


def _float(value: object) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known and abs(value) <= LARGEST else None  # type: ignore[arg-type]
