"""A schedule: which faults come when, all of it made from one number, and what must hold at its end."""

from __future__ import annotations

import random
import subprocess
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from faults.chain import GYM, Chain
from faults.cluster import OwnSlurm, call

TASKS = 160
PATIENCE_S = 300.0
"""Seconds without a new row, run or command after which a chain counts as stalled."""
SETTLES_S = 60.0
"""Seconds after which `gym job status` must name what a person has to do."""
HELD = ("requeue and hold",)
"""Faults after which only a person's ``scontrol release`` helps."""
SUCCESSOR_GONE = ("successor cancelled by its owner", "successor cancelled by an operator")
"""Faults after which nobody goes on if the running job ends before it has queued another successor."""


@dataclass(frozen=True)
class Fault:
    """One fault: it comes when so many rows are recorded and a job runs, after a pause."""

    name: str
    rows: int
    """0: as soon as a job runs, so that it meets one that begins."""
    pause: float
    seconds: float


@dataclass
class Outcome:
    """What became of one schedule."""

    seed: int
    faults: list[str] = field(default_factory=list)
    hands: list[str] = field(default_factory=list)
    """Commands that a person had to give, as `gym job status` named them."""
    problems: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    links: int = 0
    seconds: float = 0.0

    def line(self) -> str:
        """One line for a person."""
        end = "; ".join(self.problems) if self.problems else "complete"
        hands = f", by hand: {'; '.join(self.hands)}" if self.hands else ""
        shown = ", ".join(self.faults) or "no fault came in time"
        return f"seed {self.seed}: {end} after {self.links} runs, {self.seconds:.0f} s ({shown}){hands}"


def made(seed: int) -> list[Fault]:
    """The faults of a schedule."""
    chance = random.Random(seed)
    names = list(_ACTS)
    found = []
    moments = sorted(chance.randrange(1, TASKS * 3 // 4) for _ in range(chance.randint(2, 5)))
    for rows in moments:
        found.append(
            Fault(
                name=chance.choice(names),
                rows=0 if chance.random() < 0.3 else rows,
                pause=round(chance.uniform(0, 2), 2),
                seconds=round(chance.uniform(2, 6), 2),
            )
        )
    return found


class Play:
    """One schedule, played."""

    def __init__(self, slurm: OwnSlurm, folder: Path, seed: int, report: Callable[[str], None]) -> None:
        self.slurm, self.report = slurm, report
        self.outcome = Outcome(seed)
        self.folder = folder / f"seed-{seed}"
        self.plan = made(seed)
        self._began = self._moved = time.monotonic()
        self._seen: tuple[object, ...] = ()

    def run(self) -> Outcome:
        """All of it. A schedule that goes wrong is told, never raised."""
        chain = None
        try:
            requeues = any("requeue" in fault.name for fault in self.plan)
            chain = Chain(self.slurm, self.folder, TASKS, requeues=requeues)
            self.note(f"{chain.id} with {[fault.name for fault in self.plan]}")
            for fault in self.plan:
                if self._await(chain, fault):
                    _ACTS[fault.name](self, chain, fault)
            self._finish(chain)
        except (
            OSError,
            RuntimeError,
            AssertionError,
            ValueError,
            LookupError,
            subprocess.SubprocessError,
        ) as error:
            self.note(traceback.format_exc())
            self.outcome.problems.append(f"{type(error).__name__}: {error}")
        finally:
            if chain is not None:
                self.outcome.links = chain.starts()
                if self.outcome.problems:
                    self._keep(chain)
                chain.close()
        self.outcome.seconds = time.monotonic() - self._began
        return self.outcome

    def note(self, text: str) -> None:
        """Tell what happens."""
        line = f"{time.monotonic() - self._began:6.1f} s: {text}"
        self.outcome.trace.append(line)
        self.report(f"seed {self.outcome.seed} {line}")

    def _await(self, chain: Chain, fault: Fault) -> bool:
        """Whether the moment of a fault came before the end of the chain."""
        while chain.rows() < fault.rows or chain.running() is None:
            if not self._goes_on(chain):
                return False
            time.sleep(0.3)
        time.sleep(fault.pause)
        self.note(f"{fault.name} at {chain.rows()} rows, {chain.starts()} runs")
        self.outcome.faults.append(fault.name)
        return True

    def _finish(self, chain: Chain) -> None:
        while self._goes_on(chain):
            time.sleep(0.5)
        status = chain.status()
        self.note(f"{status['state']}: {status['reason']}")
        if status["state"] != "succeeded":
            self.outcome.problems.append(
                f"{status['state']}: {status['reason']}; next: {status['next_command']}"
            )
        self.outcome.problems += chain.problems()

    def _goes_on(self, chain: Chain) -> bool:
        """Whether the chain is not over. What only a person can do is done, as status says it."""
        rows = chain.queue()
        held = [row for row in rows if "held" in row.reason.lower()]
        seen = (chain.rows(), chain.starts(), len(self.outcome.hands))
        if seen != self._seen:
            self._seen, self._moved = seen, time.monotonic()
        if rows and not held and time.monotonic() - self._moved < PATIENCE_S:
            return True
        return self._act(chain, stalled=bool(rows) and not held)

    def _act(self, chain: Chain, *, stalled: bool) -> bool:
        """The end, or a person's turn."""
        status = chain.status()
        if status["state"] == "succeeded":
            return bool(chain.queue()) and time.monotonic() - self._moved < PATIENCE_S
        if status["state"] in ("running", "queued") and not chain.queue():
            time.sleep(1)
            return time.monotonic() - self._moved < PATIENCE_S
        command = str(status["next_command"])
        self.note(f"{status['state']}: {status['reason']}; next: {command}; {status['notes']}")
        if stalled:
            raise AssertionError(f"stalled at {chain.rows()} rows: {status['reason']}; next: {command}")
        allowed = [("scontrol release", HELD), ("gym job resubmit", SUCCESSOR_GONE)]
        for beginning, faults in allowed:
            if command.startswith(beginning) and any(fault in faults for fault in self.outcome.faults):
                self.outcome.hands.append(command)
                chain.shell(f"PATH={GYM.parent}:$PATH; {command}")
                time.sleep(1)
                return True
        if chain.queue() and time.monotonic() - self._moved < SETTLES_S:
            time.sleep(1)  # a status that is a moment behind what happens
            return True
        return False

    def _keep(self, chain: Chain) -> None:
        """Copy the run of a chain that went wrong to where it can be looked at."""
        call("cp", "-a", chain.paths.job_dir, self.folder / "kept", check=False)
        (self.folder / "trace").write_text("\n".join(self.outcome.trace) + "\n")


# ---------------------------------------------------------------- faults


def _control(play: Play, chain: Chain, *words: str) -> None:
    row = chain.running()
    if row is not None:
        done = call("scontrol", *(word.replace("JOB", row.job) for word in words), check=False)
        play.note(f"scontrol {' '.join(words)} of {row.job}: {done.stderr.strip() or 'done'}")


def _cancel_successor(play: Play, chain: Chain, *, operator: bool) -> None:
    row = chain.waiting()
    if row is None:
        play.note("no successor waits")
    elif operator:
        play.slurm.as_operator(["scancel", row.job])
    else:
        call("scancel", row.job)


def _lose_node(play: Play, chain: Chain, fault: Fault) -> None:
    row = chain.running()
    if row is not None and row.node:
        play.slurm.lose(row.node, fault.seconds)


def _fill(play: Play, chain: Chain, fault: Fault) -> None:
    del fault
    if chain.small_disk:
        chain.fill_disk(2.0)
    else:
        play.note("no small disk can be had here: left out")


_ACTS: dict[str, Callable[[Play, Chain, Fault], object]] = {
    "kill -9 of the collector": lambda _play, chain, _fault: chain.kill("driver"),
    "the model server dies": lambda _play, chain, _fault: chain.kill("mock"),
    "requeue": lambda play, chain, _fault: _control(play, chain, "requeue", "JOB"),
    "requeue and hold": lambda play, chain, _fault: _control(play, chain, "requeuehold", "JOB"),
    "time limit": lambda play, chain, _fault: _control(play, chain, "update", "JobId=JOB", "TimeLimit=0"),
    "node down": _lose_node,
    "successor cancelled by its owner": lambda play, chain, _fault: _cancel_successor(
        play, chain, operator=False
    ),
    "successor cancelled by an operator": lambda play, chain, _fault: _cancel_successor(
        play, chain, operator=True
    ),
    "full disk": _fill,
    "accounting away": lambda play, _chain, fault: play.slurm.without("slurmdbd", fault.seconds),
    "accounting silent": lambda play, _chain, fault: play.slurm.frozen("slurmdbd", fault.seconds),
    "controller away": lambda play, _chain, fault: play.slurm.without("slurmctld", fault.seconds),
}
