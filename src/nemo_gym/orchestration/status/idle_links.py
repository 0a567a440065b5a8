"""Jobs of a chain in a row that recorded nothing new: how many, and what most likely keeps them from it.

A chain that the scheduler ends again and again resumes without a limit unless the user set a limit, so
somebody must see it. The job script counts in the same way for ``max_links_without_progress``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nemo_gym.chain.endings import word_of
from nemo_gym.chain.evidence import Evidence, Link
from nemo_gym.chain.run_end import Requester
from nemo_runs.counts import counted
from nemo_runs.durations import duration_in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleLinks:
    """Jobs in a row, back from the last one that has ended, without a new row."""

    links: int
    walltime: int | None
    """Seconds that the last of them was given; `None`: not known."""
    start_up: int | None
    """Seconds from its start until its driver was started or, where it was not, until its end."""
    begun: bool
    """Whether its driver was started."""
    out_of_time: bool
    """Whether its time was over."""
    ended: str
    """How it ended, where its time was not over; empty: nobody knows."""

    @property
    def sentence(self) -> str:
        """For a person: how many, the likely cause, and walltime and start-up beside each other."""
        many = counted(self.links, "job", "jobs in a row")
        return f"{many} recorded no new rollout. {self._cause}{self._figures}."

    @property
    def _cause(self) -> str:
        if not self.out_of_time:
            return f"The last of them ended so: {self.ended or 'nobody saw it'}"
        if self.begun:
            return "Likely cause: the walltime leaves too little time after the start-up"
        return "Likely cause: the walltime is shorter than the start-up"

    @property
    def _figures(self) -> str:
        parts = []
        if self.walltime is not None:
            parts.append(f"the walltime is {duration_in_words(self.walltime)}")
        if self.start_up is not None:
            took = duration_in_words(self.start_up)
            parts.append(f"the start-up took {took}" if self.begun else f"the start-up took more than {took}")
        advice = "; submit it again with a longer walltime (--walltime TIME)" if self.out_of_time else ""
        return f" ({', '.join(parts)}){advice}" if parts else advice


def idle_run(known: Evidence, *, running: bool) -> IdleLinks | None:
    """The jobs in a row that recorded nothing new, `None` when the last one did or none has ended.

    ``running``: whether the run that started last is at work; it is not counted, but what it has recorded is.
    """
    worked = [link for link in known.links if link.started is not None and not _only_decided(link)]
    rows = _rows_now(known, worked[-1] if worked else None)
    if running and worked:
        atwork = worked.pop()
        if rows is not None and rows > (atwork.rows or 0):
            return None
        rows = atwork.rows
    found: list[Link] = []
    for link in reversed(worked):
        if link.rows is None or _recorded(link, rows):
            break
        found.append(link)
        rows = link.rows
    return _described(known, found) if found else None


def _only_decided(link: Link) -> bool:
    """Whether a job only ended its chain."""
    return link.decision is not None and link.decision.ends_chain


def _rows_now(known: Evidence, last: Link | None) -> int | None:
    """Rows that are recorded now, as far as the run that started last has said."""
    progress = known.progress
    if last is None or progress is None:
        return None if last is None else last.rows
    if progress.updated_at is not None and last.started is not None and progress.updated_at < last.started:
        return last.rows
    return (last.rows or 0) + progress.new if progress.new is not None else progress.done


def _recorded(link: Link, rows_after: int | None) -> bool:
    """Whether a run has recorded anything new."""
    if link.collected is not None and link.collected.expected:
        return link.collected.new > 0
    return rows_after is not None and rows_after > (link.rows or 0)


def _described(known: Evidence, found: list[Link]) -> IdleLinks:
    last = found[0]
    seen = known.seen.get(last.job_id)
    word = word_of(last, seen.observation if seen is not None else None)
    return IdleLinks(
        links=len(found),
        walltime=last.walltime,
        start_up=last.ready if last.ready is not None else _lived(known, last),
        begun=last.ready is not None,
        out_of_time=last.asked is Requester.EARLY or (word is not None and word.name == "TIMEOUT"),
        ended=(last.end.reason if last.end is not None else "") or (word.name if word is not None else ""),
    )


def _lived(known: Evidence, link: Link) -> int | None:
    """Seconds that a run had lived at its end, or when it last said so."""
    times: list[float] = [] if link.lived is None else [link.lived]
    seen = known.seen.get(link.job_id)
    ends: Iterable[object] = (
        link.exit.get("ended_at"),
        seen.observation.ended_at if seen is not None else None,
    )
    times += [float(end) - link.started for end in ends if isinstance(end, int | float) and link.started]
    return round(max(times)) if times else None
