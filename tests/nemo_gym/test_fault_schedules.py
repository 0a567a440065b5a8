"""Chains under random faults, in this process: a thousand schedules, all of which must keep the invariants.

A schedule that fails is printed as it happened and is the same each time: ``Schedule(seed).run()``.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.chain_model import Driver, Folder, Link

from nemo_gym.chain.budget import Budget
from nemo_gym.chain.evidence import ChainAction, ChainState
from nemo_slurm.states import Meaning, table
from nemo_slurm.testing import FakeCluster, Faults

pytestmark = pytest.mark.services

BLOCKS, EACH = 20, 50
CHAOS = 600
"""Events before the faults cease."""
CALM = 2000
"""Events after that within which every chain must have come to its end."""


class Schedule:
    """One chain on one cluster, and what happens to both."""

    def __init__(self, seed: int, script: str) -> None:
        self.chance = random.Random(seed)
        self.trace = [f"seed {seed}"]
        self.fake = FakeCluster(faults=self._faults())
        for number in range(1000, 1012):
            if self.chance.random() < 0.2:
                self.fake.remember_older(
                    str(number), self.chance.choice(["COMPLETED", "CANCELLED", "FAILED", "RUNNING"])
                )
        budget = Budget(
            max_retries=self.chance.choice([0, 1, 3]),
            max_walltime=self.chance.choice([None, None, None, 600, 4000]),
            max_links_without_progress=self.chance.choice([2, 5, 5]),
        )
        self.folder = Folder(self.chance.choice([3, 40, 150]), budget, since=self.fake.now())
        self.broken = self.chance.random() < 0.1
        """The driver never records anything."""
        self.slow = self.chance.random() < 0.05
        """No job ever gets to its work within its time limit."""
        self.options = ["--time=4:00:00", *(["--requeue"] if self.chance.random() < 0.5 else [])]
        self.script = script
        self.running: dict[tuple[str, int], Link] = {}
        self.dying: dict[tuple[str, int], tuple[int, Callable[[], None]]] = {}
        self.zombies: list[Link] = []
        self.haunted = False
        self.all: dict[tuple[str, int], Link] = {}
        self.removed: set[str] = set()
        """Waiting jobs that a person took away."""
        self.late: set[str] = set()
        """Those that nobody looked at any more."""
        self.scancelled: set[str] = set()
        self.cut: set[tuple[str, int]] = set()
        """Runs that were ended from outside."""
        self.recorded: dict[tuple[str, int], dict[tuple[str, int], int]] = {}
        """What each run had recorded when another began."""

    def _faults(self) -> Faults:
        return Faults(
            remembers=self.chance.choice([20, 300, 300]),
            kills_invalid=self.chance.random() < 0.7,
            refuses_kill_option=self.chance.random() < 0.2,
            cluster_name=self.chance.choice(["", "", "main"]),
            cuts_states=self.chance.random() < 0.2,
            banner=self.chance.choice(["", "** Welcome **\n"]),
            doubles_records=self.chance.random() < 0.2,
            invisible=[str(n) for n in range(1000, 1012) if self.chance.random() < 0.05],
        )

    # -------------------------------------------------------------- running it

    def run(self) -> None:
        """All of it; raises `AssertionError` with the trace."""
        try:
            self._submit()
            for _ in range(0 if self.slow else CHAOS):
                self._something()
            self._calm()
            self._check()
        except Exception as error:
            text = "\n  ".join(self.trace)
            message = f"{type(error).__name__}: {error}\n  {text}"
            raise AssertionError(message) from error

    def _submit(self) -> None:
        self.fake.submit(self.script, token="gym-job-x/b/1", options=self.options)
        self._look()

    def _something(self) -> None:
        happen = self.chance.choices(
            [self._step, self._pass, self._fault, self._stop, self._driver, self._person],
            [850, 90, 40, 30, 4, 2],
        )[0]
        happen()
        self._look()

    def _calm(self) -> None:
        self._note("calm")
        with self.fake.faults() as faults:
            faults.controller_down, faults.accounting, faults.submit_limit = False, "on", None
            faults.lost_replies = faults.lost_requests = 0
        for _ in range(CALM):
            if not self.running and not self._wait_for_more():
                return
            self._step()
            if self.chance.random() < 0.1:
                self.fake.move(self.chance.randrange(1, 40))
            self._look()
        raise AssertionError("this chain does not come to an end")

    def _wait_for_more(self) -> bool:
        """Let time pass until jobs that may start have started; whether any runs then."""
        for _ in range(3):
            self.fake.move(120)
            self._look()
        return bool(self.running)

    def _look(self) -> None:
        """Begin the scripts of jobs that were started, end those of jobs that the cluster ended at once."""
        states = self.fake.states()
        for me in list(self.running):
            if states[me[0]] != ("RUNNING", me[1]):
                self._cut(me, "the cluster ended it")
        for job, (state, restart) in states.items():
            if state == "RUNNING" and (job, restart) not in self.running:
                link = Link(self.folder, self.fake, self.script, job, restart, self.options)
                link.driver.crashes = self.broken
                self.running[job, restart] = self.all[job, restart] = link

    def _note(self, text: str) -> None:
        self.trace.append(f"{self.fake.now() - self.folder.since:.0f} s: {text}")

    # -------------------------------------------------------------- what can happen

    def _step(self) -> None:
        if self.zombies and self.chance.random() < 0.2:
            zombie = self.chance.choice(self.zombies)
            done = next(zombie.steps, None)
            self._note(f"zombie {zombie.me} {done}")
            if done == "claimed its folder":
                self.recorded[zombie.me] = {run: other.accepted for run, other in self.all.items()}
            elif done is None:
                self.zombies.remove(zombie)
            return
        if not self.running:
            self.fake.move(5)
            return
        me = self.chance.choice(list(self.running))
        link = self.running[me]
        self._one_writer()
        try:
            done = next(link.steps)
            self._note(f"{me} {done}")
            if done == "claimed its folder":
                self.recorded[me] = {run: other.accepted for run, other in self.all.items()}
        except StopIteration as stop:
            self._note(f"{me} exits with {stop.value}")
            del self.running[me]
            if me in self.dying:
                self.dying.pop(me)[1]()
            elif self.fake.states()[me[0]] == ("RUNNING", me[1]):
                self.fake.end(me[0], "COMPLETED" if stop.value == 0 else "FAILED", stop.value)
            return
        if self.slow and done == "before it works" and me in self.running:
            self._cut(me, "its time is over before it works")
            self.fake.end(me[0], "TIMEOUT")
        elif me in self.dying:
            left, end = self.dying[me]
            self.dying[me] = (left - 1, end)
            if left <= 0 and me in self.running:
                self._cut(me, "its grace is over")
                end()

    def _one_writer(self) -> None:
        states = self.fake.states()
        writers = [
            me for me, link in self.running.items() if link.working and states[me[0]] == ("RUNNING", me[1])
        ]
        assert len(writers) < 2, f"{writers} write at the same time"

    def _pass(self) -> None:
        self.fake.move(self.chance.choice([1, 10, 10, 40, 40, 200, 2000]))

    def _fault(self) -> None:
        with self.fake.faults() as faults:
            name, value = self.chance.choice(
                [
                    ("controller_down", self.chance.random() < 0.5),
                    ("accounting", self.chance.choice(["on", "off", "down"])),
                    ("accounting_lag", self.chance.choice([0, 30, 90, 5000])),
                    ("lag_shows", self.chance.choice(["RUNNING", "PENDING", ""])),
                    ("submit_limit", self.chance.choice([None, 1])),
                    ("lost_replies", 1),
                    ("lost_requests", 1),
                    ("hidden_for", self.chance.choice([0, 10, 60])),
                    ("slots", self.chance.choice([1, 2, 1000])),
                ]
            )
            setattr(faults, name, value)
        self._note(f"from now on {name}={value}")

    def _stop(self) -> None:
        """The cluster or the clock ends a run."""
        if not self.running:
            return
        me = self.chance.choice(list(self.running))
        if me in self.dying:
            return
        job = me[0]
        kind = self.chance.choice(
            ["timeout", "early", "preempt", "requeue", "node", "node back", "kill", "oom", "limit"]
        )
        self._note(f"{me}: {kind}")
        if kind == "early":
            self.running[me].asked, self.running[me].who = "drain", "walltime"
        elif kind == "timeout":
            self._tell(me, lambda: self.fake.end(job, "TIMEOUT"))
        elif kind == "preempt":
            self._tell(me, lambda: self.fake.end(job, "PREEMPTED"))
        elif kind == "requeue":
            if "--requeue" in self.options:
                self._tell(me, lambda: self._requeue(job, "PREEMPTED"))
        elif kind == "limit":
            self.fake.move(4 * 3600)
        else:
            self._cut(me, kind, zombie=kind.startswith("node") and self.chance.random() < 0.7)
            if kind == "node back" and "--requeue" in self.options:
                self._requeue(job, "NODE_FAIL")
            else:
                state = {"kill": "FAILED", "oom": "OUT_OF_MEMORY"}.get(kind, "NODE_FAIL")
                self.fake.end(job, state, 137 if kind == "kill" else None)

    def _requeue(self, job: str, state: str) -> None:
        """Two runs of one job never begin in the same second."""
        self.fake.move(1)
        self.fake.requeue(job, state)

    def _tell(self, me: tuple[str, int], end: Callable[[], None]) -> None:
        """SIGTERM, then some steps of grace."""
        self.cut.add(me)
        self.running[me].asked = "stop"
        self.dying[me] = (self.chance.randrange(12), end)

    def _cut(self, me: tuple[str, int], why: str, *, zombie: bool = False) -> None:
        self._note(f"{me} is cut off: {why}")
        self.cut.add(me)
        link = self.running.pop(me)
        self.dying.pop(me, None)
        if zombie:
            self.haunted = True
            self.zombies.append(link)
        else:
            link.steps.close()

    def _driver(self) -> None:
        if not self.running:
            return
        me = self.chance.choice(list(self.running))
        kind = self.chance.choice([*["crashes"] * 8, "hopeless", "exhausted"])
        self.running[me].driver = Driver(
            crashes=kind == "crashes", hopeless="wrong" if kind == "hopeless" else None,
            exhausted=kind == "exhausted",
        )  # fmt: skip
        self._note(f"the driver of {me}: {kind}")

    def _person(self) -> None:
        waiting = [job for job, (state, _) in self.fake.states().items() if state == "PENDING"]
        kind = self.chance.choice(["remove", "remove", "forget", "scancel", "cancel"])
        self._note(f"a person: {kind} {waiting}")
        if kind in ("remove", "forget"):
            for job in waiting:
                self._remove(job)
                self.fake.end(job, "CANCELLED") if kind == "remove" else self.fake.forget(job)
            return
        if kind == "cancel":
            self.folder.cancelled = True
            for job in waiting:
                self._remove(job)
                self.fake.end(job, "CANCELLED")
        for me in [me for me in self.running if me not in self.dying]:
            self.scancelled.add(me[0])
            self._tell(me, lambda job=me[0]: self.fake.end(job, "CANCELLED"))  # type: ignore[misc]

    def _remove(self, job: str) -> None:
        self.removed.add(job)
        at_work = (me for me in self.running if me in self.folder.links and not self.folder.links[me].marker)
        if not any(self.folder.links[me].queued == job for me in at_work):
            self.late.add(job)

    # -------------------------------------------------------------- what must hold

    def _check(self) -> None:
        self._nothing_is_left()
        self._everything_once()
        self._time_and_retries()
        self._went_on_within_its_limits()
        self._ended_for_a_reason()

    def _nothing_is_left(self) -> None:
        said = any(facts.unheard for facts in self.folder.links.values())
        left = [job for job, (state, _) in self.fake.states().items() if state in ("PENDING", "RUNNING")]
        assert said or not left, f"{left} are left in the queue"

    def _everything_once(self) -> None:
        rows = self.folder.store.rows
        assert len(rows) == len(set(rows)), f"recorded twice: {rows}"
        complete = any(facts.marker and facts.marker.complete for facts in self.folder.links.values())
        assert not complete or sorted(rows) == list(range(self.folder.wanted)), "complete, and it is not"

    def _time_and_retries(self) -> None:
        jobs = {job.id: job for job in self.fake.jobs()}
        truth = {
            (job.id, restart): run.elapsed
            for job in jobs.values()
            for restart, run in enumerate([*job.runs, job.as_run()])
        }
        for key, seconds in self.folder.known().items():
            assert truth[key] == seconds, f"{key} took {truth[key]} s, accounted are {seconds} s"
        assert len(self.folder.chain) == len(set(self.folder.chain))
        counted = [facts.predecessor for facts in self.folder.links.values() if facts.retry]
        assert len(counted) == len(set(counted)), f"retries counted twice: {counted}"
        for job in counted:
            assert self._failed(jobs[job].state), f"a retry for {job}, which ended as {jobs[job].state}"

    def _failed(self, state: str) -> bool:
        return table()[state].meaning is Meaning.OTHER

    def _went_on_within_its_limits(self) -> None:
        links, budget = self.folder.links, self.folder.budget
        onward = [
            (me, facts)
            for me, facts in links.items()
            if facts.decision and facts.decision.action is ChainAction.GO_ON
        ]
        assert sum(facts.retry for _, facts in onward) <= budget.max_retries, "too many retries"
        for index, (me, facts) in enumerate(onward):
            saw = facts.saw.meaning if facts.saw else None
            assert saw is not Meaning.CANCELLED, f"{me} went on after {facts.saw}"
            known: dict[tuple[str, int], int] = {}
            for _, earlier in onward[: index + 1]:
                known = earlier.accounted | known
            if saw is Meaning.INFRASTRUCTURE and budget.max_walltime is not None and not self.haunted:
                assert sum(known.values()) < budget.max_walltime, f"{me} went on beyond the cap"

    def _ended_for_a_reason(self) -> None:
        """A healthy chain ends complete. Whatever else it says of its end must be true."""
        ends = [
            (me, facts.decision)
            for me, facts in self.folder.links.items()
            if facts.decision
            and facts.decision.action is not ChainAction.GO_ON
            and facts.decision.chain is not ChainState.RUNNING
        ]
        complete = sorted(self.folder.store.rows) == list(range(self.folder.wanted))
        for me, decision in ends:
            assert self._is_true(me, decision.chain, decision.reason), f"{me} says {decision.reason}"
            late = list(self.folder.links)[list(self.folder.links).index(me) + 1 :]
            assert not any(self.all[run].accepted for run in late), f"work after {decision.reason}"
        if not ends and not complete:
            assert self._was_cut_off(), "nobody goes on, and nobody says why"

    def _is_true(self, me: tuple[str, int], chain: ChainState, reason: str) -> bool:
        facts = self.folder.links
        if chain is ChainState.SUCCEEDED:
            return sorted(self.folder.store.rows) == list(range(self.folder.wanted))
        if chain is ChainState.CANCELLED:
            return self.folder.cancelled or facts[me].predecessor in self.scancelled
        if "had decided" in reason:
            return True
        budget = self.folder.budget
        if chain is ChainState.STOPPED:
            spent = sum(run.elapsed for job in self.fake.jobs() for run in [*job.runs, job.as_run()])
            return budget.max_walltime is not None and spent >= budget.max_walltime
        if "max_retries" in reason:
            return sum(self._failed(job.state) for job in self.fake.jobs()) > budget.max_retries
        if "nothing new" in reason:
            before = list(facts)[: list(facts).index(me)]
            limit = budget.max_links_without_progress or 0
            return not any(self.recorded[me][run] for run in before[-limit:])
        wanted = "hopeless" if "no retry can help" in reason else "exhausted"
        return any(getattr(link.driver, wanted) for link in self.all.values())

    def _was_cut_off(self) -> bool:
        """The last run was ended before it could queue a successor, or somebody took that away."""
        if self.folder.cancelled:
            return True
        begun = [(me, facts) for me, facts in self.folder.links.items() if not self._stepped_aside(me)]
        if not begun:
            return True
        me, facts = begun[-1]
        if facts.marker and (facts.marker.hopeless or facts.marker.exit_status == 76):
            return True
        if facts.queued and facts.queued not in self.removed:
            first_steps = [link for run, link in self.all.items() if run[0] == facts.queued]
            return bool(first_steps) and first_steps[-1].me in self.cut
        return me in self.cut or facts.refused or facts.queued in self.late

    def _stepped_aside(self, me: tuple[str, int]) -> bool:
        decision = self.folder.links[me].decision
        return (
            decision is not None
            and decision.action is ChainAction.STOP
            and decision.chain is ChainState.RUNNING
        )


@pytest.fixture(scope="session")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("chain") / "job.sh"
    path.write_text("#!/bin/bash\n")
    return str(path)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_schedule_of_faults_breaks_a_chain(block: int, script: str) -> None:
    for seed in range(block * EACH, (block + 1) * EACH):
        Schedule(seed, script).run()
