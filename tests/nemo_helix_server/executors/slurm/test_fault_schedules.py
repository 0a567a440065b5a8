"""Starts of a step under random faults, in this process: it ends well, and nothing of it is done twice.

A schedule that fails is printed as it happened and is the same each time: ``Schedule(seed, folder).run()``.
"""

import contextlib
import json
import os
import random

import pytest
from tests.nemo_helix_server.executors.slurm.scheduler_world import Connection, Killed, Place, run_of

from nemo_helix_server.executors.base import ExecutorError, NeverPossibleError, RunState
from nemo_helix_server.executors.slurm import submissions
from nemo_helix_server.executors.slurm.on_cluster import folders, succession
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.run_files import next_token
from nemo_runs.processes import trees
from nemo_slurm.cluster import Cluster
from nemo_slurm.errors import NotReachableError, SlurmError
from nemo_slurm.testing import Faults
from nemo_trainer.contract import generations

pytestmark = pytest.mark.services

BLOCKS, EACH = 3, int(os.environ.get("NHX_TEST_SCHEDULES", "9")) // 3
CHAOS, CALM = 250, 600
"""Events with faults, and after them those within which the step must have ended."""
FAULTS = (
    *("lost reply", "lost request", "controller", "accounting", "lag", "limit", "no files", "well"),
    *("taken", "node", "requeue", "number"),
)
GOAL = 12
"""Units of work of the whole step."""


class Allocation:
    """A job of the cluster as its node sees it; it may live on after the scheduler has given it up."""

    def __init__(self, schedule, number, folder):
        self.schedule, self.number, self.folder = schedule, number, folder
        self.order = json.loads((folder / folders.ORDER).read_bytes())
        self.fence = None
        self.over = False
        self.late, self.late_until = None, 0.0
        """The record of its end, while the storage does not show it yet."""

    def environ(self):
        return {"SLURM_JOB_ID": self.number, "PATH": "/bin"}

    def work(self):
        """One moment of it, as `nemo_helix_server.executors.slurm.on_cluster.allocation` does it."""
        if self.over:
            return
        if self.fence is None:
            self._begin()
        elif self.schedule.chance.random() < 0.3 and not self.order.get("queued"):
            self.order["queued"] = True
            succession.queue(self.folder, self.order, self.schedule.done, self.fence, self.environ())
        elif not self.fence.holds():
            self._ends(1, "another one has taken over")
        elif self._wanted() == "stop":
            self._ends(143, "was stopped", stopped=True)
        else:
            if self.schedule.done < GOAL:
                self.schedule.unit(self)
            if self.schedule.done >= GOAL:
                self._ends(0, "exited with status 0")

    def _begin(self):
        if succession.judge(self.folder, self.order, self.schedule.done) is not None:
            run_files.make_claim(self.folder, run_files.RunClaim(None, 1.0))
            self._leaves("COMPLETED", 0)
            return
        if not run_files.make_claim(self.folder, run_files.RunClaim(trees.identify(), 1.0)):
            self._leaves("FAILED", 127)
            return
        self.schedule.claimed.append(self.folder.name)
        said = {"job_id": self.number, "nodes": "n1"}
        (self.folder / folders.NODE).write_text(json.dumps(said))
        try:
            self.fence = succession.claim_generation(self.folder, self.order, f"job {self.number}")
        except succession.LateStartError as error:
            self._writes(run_files.ExitRecord(127, 0, 1.0, 2.0, False, False, False, str(error), True))
            self._leaves("COMPLETED", 0)
            return
        said["generation"] = self.fence.number
        (self.folder / folders.NODE).write_text(json.dumps(said))

    def _wanted(self):
        return "stop" if run_files.read_stop(self.folder) is not None else "run"

    def _ends(self, status, reason, *, stopped=False):
        end = run_files.ExitRecord(status, 0, 1.0, 2.0, False, False, stopped, reason)
        self._writes(end)
        if succession.is_final(end, self.folder):
            succession.give_up_successor(self.folder, self.order, self.fence)
        self._leaves("FAILED" if status else "COMPLETED", status)

    def _writes(self, end):
        if self.schedule.calm or self.schedule.chance.random() < 0.6:
            run_files.write_end(self.folder, end)
        else:
            self.late, self.late_until = end, self.schedule.fake.now() + self.schedule.chance.uniform(1, 40)

    def _leaves(self, state, status):
        self.over = True
        if self.schedule.runs_now(self):
            self.schedule.fake.end(self.number, state, status)

    def arrives(self):
        """What the storage did not show yet."""
        if self.late is not None and self.schedule.fake.now() >= self.late_until:
            run_files.write_end(self.folder, self.late)
            self.late = None


class Schedule:
    """One step on one cluster, the service that starts it, and what happens to all of them."""

    def __init__(self, seed, folder, patch):
        self.chance = random.Random(seed)
        self.trace = [f"seed {seed}"]
        self.place = Place(folder)
        self.fake = self.place.fake
        self.fake.set(Faults(starts_jobs=False, remembers=self.chance.choice([30.0, 300.0])))
        self.patch = patch
        self.run_now = run_of(seed + 1)
        self.status = "pending"
        self.allocations = {}
        self.calm = False
        self.done = 0
        self.doers, self.claimed, self.strangers, self.zombies = [], [], [], []
        self.away = False
        self.killed_at = None
        patch.setattr(succession, "_call", self._call)
        patch.setattr(succession, "_sbatch", self._sbatch)
        patch.setattr(Connection, "ask", self._dying("ask", Connection.ask))
        patch.setattr(Connection, "write", self._dying("write", Connection.write), raising=False)
        patch.setattr(Cluster, "submit", self._dying("submit", Cluster.submit))
        save = submissions.ClusterSubmission.save
        patch.setattr(submissions.ClusterSubmission, "save", self._dying("save", save))

    # ---- what others do

    def _dying(self, name, call):
        """The service may be killed before or after each of its steps."""

        def dies(*args, **changes):
            if name == "ask" and self.away:
                raise NotReachableError("ssh: connect to host login port 22: No route to host")
            if self.killed_at == "before":
                self.killed_at = None
                self.trace.append(f"killed before {name}")
                raise Killed
            answer = call(*args, **changes)
            if self.killed_at == "after" and self.chance.random() < 0.5:
                self.killed_at = None
                self.trace.append(f"killed after {name}")
                raise Killed
            return answer

        return dies

    def _call(self, words):
        done = self.fake._calls.call([words])[0]
        return type("Done", (), {"stdout": done.stdout, "stderr": done.stderr, "returncode": done.status})

    def _sbatch(self, after, environ):
        words = ["sbatch", "--parsable", f"--comment={after.name}", "--kill-on-invalid-dep=yes"]
        words += [f"--dependency=afternotok:{environ['SLURM_JOB_ID']}", "--", str(after / folders.SCRIPT)]
        done = self._call(words)
        if done.returncode:
            raise ValueError(done.stderr)
        return done.stdout.strip()

    def unit(self, allocation):
        """Work that is done by the one that may, and is never done twice."""
        self.done += 1
        self.doers.append(generations.newest(allocation.fence.trainer).task == allocation.folder.name)

    def runs_now(self, allocation):
        known, job = self.allocations.get(allocation.number), self.fake.job(allocation.number)
        return known is allocation and job.comment == allocation.folder.name and job.state == "RUNNING"

    # ---- the service

    def look(self):
        """One pass of a small controller."""
        self.killed_at = None if self.calm else self.chance.choice([None, None, None, "before", "after"])
        try:
            self._pass()
        except Killed:
            self.place.restarted()
        self.killed_at = None

    def _pass(self):
        seen = self.place.executor.observe([self.run_now])[self.run_now.token]
        self.trace.append(f"{self.run_now.token[-4:]} {seen.state} {seen.reason} {seen.interrupted}")
        if seen.state is RunState.ABSENT:
            try:
                self.place.start(self.run_now)
            except NeverPossibleError:
                raise
            except ExecutorError as error:
                self.trace.append(f"its start is tried again: {error}")
        elif seen.state in {RunState.EXITED, RunState.LOST}:
            if seen.exit_status == 0:
                self.status = "completed"
                with contextlib.suppress(ExecutorError):
                    self.place.executor.end_chain(self.run_now)
            else:
                assert seen.interrupted or seen.never_started, seen
                self.run_now = self.run_now._replace(token=next_token(self.run_now.token))

    # ---- what happens

    def step(self):
        if not self.calm and self.chance.random() < 0.25:
            self._fault()
        self.fake.move(self.chance.choice([1, 5, 5, 20]))
        self._nodes()
        if self.chance.random() < 0.7:
            self.look()

    def _nodes(self):
        for job in self.fake.jobs():
            if job.comment in self.strangers:
                continue
            if job.state == "PENDING" and job.reason == "Resources" and self.chance.random() < 0.4:
                self.fake.start(job.id)
                self._given(job)
        for one in [*self.allocations.values(), *self.zombies]:
            if self.chance.random() < 0.6:
                one.work()
            one.arrives()

    def _given(self, job):
        """A node begins with a job, perhaps with its second run."""
        before = self.allocations.get(job.id)
        if before is not None:
            self.zombies.append(before)
        folder = self.place.there(self.run_now._replace(token=job.comment))
        self.allocations[job.id] = Allocation(self, job.id, folder)

    def _fault(self):
        kind = self.chance.choice(FAULTS)
        self.trace.append(kind)
        running = [one for one in self.allocations.values() if self.runs_now(one)]
        with self.fake.faults() as faults:
            match kind:
                case "lost reply":
                    faults.lost_replies += 1
                case "lost request":
                    faults.lost_requests += 1
                case "controller":
                    faults.controller_down = not faults.controller_down
                case "accounting":
                    faults.accounting = self.chance.choice(["on", "down"])
                case "lag":
                    faults.accounting_lag = self.chance.choice([0.0, 20.0])
                case "limit":
                    faults.submit_limit = self.chance.choice([None, 0, 1])
        if kind == "well":
            self._well()
        if kind == "number":
            self._number()
        if kind == "no files":
            self.away = not self.away
        if running and kind in {"taken", "requeue", "node"}:
            one = self.chance.choice(running)
            if kind == "requeue":
                self.fake.requeue(one.number)
                one.over = True
            else:
                self.fake.end(one.number, "NODE_FAIL" if kind == "node" else "TIMEOUT")
                one.over = kind == "taken"

    def _number(self):
        """A stranger's job, perhaps with the number of one of ours, which accounting still knows."""
        jobs = self.fake.jobs()
        # the scheduler forgets what waited for a job when that has ended, the fake one looks at the number
        named = {job.dependency.rpartition(":")[2] for job in jobs if job.active}
        ended = [job for job in jobs if not job.active and job.id not in named]
        ours = [job for job in ended if job.comment not in self.strangers]
        following = max((int(job.id) for job in jobs), default=1000) + 1
        if ours and self.chance.random() < 0.5:
            old = self.chance.choice(ours)
            facts = {"name": old.name, "comment": old.comment, "uid": old.uid, "author": old.author}
            for run in [*old.runs, old.as_run()]:
                ago = self.fake.now() - run.submitted_at
                self.fake.remember_older(old.id, run.state, ago=ago, elapsed=1, **facts)
            self.fake.reuse(old.id)
        script = self.place.jobs.data_dir.parent / "theirs.sh"
        script.parent.mkdir(exist_ok=True)
        script.write_text("#!/bin/sh\n")
        name = f"theirs-{len(self.strangers)}"
        with contextlib.suppress(SlurmError):
            job = self.fake.submit(str(script), token=name).job
            self.fake.change(job.id, uid=4242, name=name)
            self.strangers.append(name)
        self.fake.reuse(str(following + 1))

    def _well(self):
        self.fake.set(Faults(starts_jobs=False, remembers=300.0))
        self.away = False

    def run(self):
        """Faults for a while, then none; what must hold holds at each moment and at the end."""
        for number in range(CHAOS + CALM):
            if number == CHAOS:
                self.calm = True
                self._well()
            self.step()
            self._check()
            if self.status == "completed":
                break
        assert self.status == "completed"
        assert self.done == GOAL
        for _ in range(5):
            with contextlib.suppress(ExecutorError):
                self.place.executor.end_chain(self.run_now)
            self.fake.move(60)
            self._nodes()
        left = [job for job in self.fake.jobs() if job.active and job.comment not in self.strangers]
        assert left == []

    def _check(self):
        tokens = [job.comment for job in self.fake.jobs() if job.comment not in self.strangers]
        assert len(tokens) == len(set(tokens)), "two jobs of one start"
        assert len(self.claimed) == len(set(self.claimed))
        assert all(self.doers), "work of a start that was replaced"
        for job in self.fake.jobs():
            assert job.comment not in self.strangers or job.state in {"PENDING", "RUNNING"}


@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_happens_a_step_ends_well_and_nothing_of_it_is_done_twice(tmp_path, monkeypatch, block):
    for seed in range(block * EACH, (block + 1) * EACH):
        with monkeypatch.context() as patch:
            schedule = Schedule(seed, tmp_path / str(seed), patch)
            try:
                schedule.run()
            except BaseException:
                print("\n".join(schedule.trace))
                raise


def test_a_cluster_that_is_away_is_told_so(tmp_path, monkeypatch):
    place, run = Place(tmp_path), run_of(1)
    place.start(run)

    def away(*_args, **_changes):
        raise NotReachableError("ssh: connect to host login port 22: No route to host")

    monkeypatch.setattr(Connection, "ask", away)
    place.fake.set(Faults(controller_down=True, accounting="down"))
    seen = place.executor.observe([run])[run.token]
    assert (seen.state, "cannot be asked" in seen.reason) == (RunState.UNKNOWN, True)
