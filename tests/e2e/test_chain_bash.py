"""Chains of real job scripts under random faults of a fake cluster: the shell keeps what is promised."""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.local_jobs import STAND_INS, Workplace
from tests.resident_programs import ResidentPrograms

from nemo_gym.chain.budget import Budget
from nemo_gym.job_paths import JobPaths, LinkPaths
from nemo_gym.orchestration.executors.slurm import SlurmExecutor
from nemo_gym.orchestration.plan.values import SlurmPlan
from nemo_gym.orchestration.submit import staging
from nemo_runs.secret_refs import SecretText
from nemo_slurm.cluster import SlurmJob
from nemo_slurm.testing import FakeCluster, Faults

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WANTED = 7
CANARY = "canary-of-a-secret"
KINDS = (
    *("timeout", "early", "preempt", "preempt requeue", "node", "node requeue", "zombie", "zombie requeue"),
    *("kill", "oom", "crash", "no grace", "vanished successor", "refused at first", "hopeless", "exhausted"),
    *("cancel", "scancel", "in the prologue", "stopped in the prologue", "silent", "lost reply"),
)
"""What can happen to a job. Each schedule begins with another one."""
FAILS = frozenset({"kill", "oom", "crash"})
ENDS = frozenset({"hopeless", "exhausted", "cancel", "scancel"})
REQUEUED = frozenset({"preempt requeue", "node requeue", "zombie requeue", "in the prologue"})


@dataclass
class Chain:
    """One chain, what happens to its jobs one after the other, and what is true of it."""

    seed: int
    folder: Path
    fake: FakeCluster = field(init=False)
    paths: JobPaths = field(init=False)
    plays: Path = field(init=False)
    trace: list[str] = field(default_factory=list)
    happened: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        first = KINDS[self.seed % len(KINDS)]
        self.kinds = [first, *self.chance.choices(KINDS, k=self.chance.randrange(2))]
        self.kill_option = self.chance.random() < 0.6
        self.fake = FakeCluster(self.folder / "cluster", self._faults())
        for number in range(1000, 1004):
            if self.chance.random() < 0.3:
                state = self.chance.choice(["COMPLETED", "FAILED", "CANCELLED"])
                self.fake.remember_older(str(number), state, ago=1.5e9)
        self.plays = self.folder / "plays"
        self.plays.mkdir()
        self.trace.append(f"seed {self.seed}: {self.kinds}")

    def _faults(self) -> Faults:
        return Faults(
            kills_invalid=self.chance.random() < 0.5,
            refuses_kill_option=not self.kill_option,
            remembers=self.chance.choice([5.0, 300.0]),
            accounting=self.chance.choice(["on", "on", "off"]),
            accounting_lag=self.chance.choice([0.0, 0.0, 90.0]),
            cluster_name=self.chance.choice(["", "main"]),
            cuts_states=self.chance.random() < 0.3,
            doubles_records=self.chance.random() < 0.3,
            banner=self.chance.choice(["", "** Welcome to 12 nodes **\n"]),
        )

    # -------------------------------------------------------------- running it

    def submit(self, place: Workplace) -> None:
        """Stage and queue the first job."""
        requeue = "--requeue" if REQUEUED & set(self.kinds) else "--no-requeue"
        cluster = SlurmPlan(
            options=["--job-name=gym-b", requeue], runtime="none", kill_on_invalid_dep=self.kill_option
        )
        values: dict[str, Any] = {"gym": STAND_INS / "fenced-driver.sh", "budget": Budget(), "slurm": cluster}
        plan = place.plan("b", secrets={"SECRET": SecretText(CANARY)}, **values)
        self.paths = JobPaths(plan.job_dir)
        self.gym_job_id = plan.gym_job_id
        submission = place.submission(plan)
        staging.stage(submission)
        self._arrange("1000", 0)
        [answer] = SlurmExecutor(self.fake, environ={}).submit(submission)
        assert answer.job_id == "1000", answer

    def run(self) -> None:
        """Until nothing runs and nothing will."""
        end = time.monotonic() + 60
        bash = self.fake.bash
        stray = any(kind.startswith("zombie") for kind in self.kinds)
        while True:
            running = bash.step(grace=5, stray_nodes=stray)
            for process in list(bash.running):
                self._act(process.number, process.restart, process.popen.pid)
            if not running and not self._goes_on():
                break
            assert time.monotonic() < end, "this chain does not come to an end"
            time.sleep(0.01)
        (self.plays / "rise").touch()
        for process in bash.strays:
            process.popen.wait(15)
        if any(line.partition(": ")[2].startswith("zombie") for line in self.trace[1:]):
            assert (self.plays / "risen").exists(), "the zombie did not write"
        self.fake.move(1)

    def _goes_on(self) -> bool:
        return any(state == "RUNNING" for state, _ in self.fake.states().values())

    def _arrange(self, job: str, restart: int) -> None:
        """Let the driver of a run do its part of what is to happen next."""
        if not self.kinds:
            return
        kind = self.kinds[0]
        play = {"crash": "crash", "hopeless": "hopeless", "exhausted": "exhausted"}.get(kind, "stall")
        play = "zombie" if kind.startswith("zombie") else play
        (self.plays / f"{job}.{restart}").write_text(f"{play}\n")
        if kind == "refused at first":
            self._fault(submit_limit=1)
        elif kind == "silent" and job != "1000":
            self._fault(controller_down=True)
        elif kind == "lost reply" and job != "1000":
            self._fault(lost_replies=1)

    def _fault(self, **changes: Any) -> None:
        with self.fake.faults() as faults:
            for name, value in changes.items():
                setattr(faults, name, value)

    # -------------------------------------------------------------- what happens

    def _act(self, job: str, restart: int, pid: int) -> None:
        run = (job, restart)
        if run in self.happened or not self.kinds:
            return
        if not (self.plays / f"{job}.{restart}").exists():
            self._arrange(job, restart)
        kind = self.kinds[0]
        link = self.paths.link(job, restart)
        if kind.endswith("in the prologue"):
            if not link.started.exists():
                return
        elif not (self.plays / f"at-{job}.{restart}").exists() or not self._is_ready(kind, link):
            return
        self.happened.add(run)
        self.kinds.pop(0)
        self.trace.append(f"{job}.{restart}: {kind}")
        self.fake.move(self.chance.choice([0, 30, 3000]))
        self._let_happen(kind, job, pid, link)

    def _is_ready(self, kind: str, link: LinkPaths) -> bool:
        """Some of it has two parts, the second when the job has noticed the first."""
        if kind == "refused at first":
            self._fault(submit_limit=None)
            return link.queued.exists()
        if kind == "silent":
            self._fault(controller_down=False)
            return link.queued.exists()
        if kind == "vanished successor":
            waiting = self._waiting()
            if waiting and link.folder.name not in self.trace:
                self.trace.append(link.folder.name)
                self.fake.forget(waiting[0])
            return bool(self._waiting())
        return True

    def _waiting(self) -> list[str]:
        return [job for job, (state, _) in self.fake.states().items() if state == "PENDING"]

    def _let_happen(self, kind: str, job: str, pid: int, link: LinkPaths) -> None:
        if kind == "early":
            os.kill(pid, signal.SIGUSR1)
        elif kind == "kill":
            os.killpg(pid, signal.SIGKILL)
            self._kill_driver(link)
        elif kind in ("no grace", "in the prologue"):
            os.killpg(pid, signal.SIGKILL)
            self._kill_driver(link)
            requeues = kind == "in the prologue"
            self.fake.requeue(job, "NODE_FAIL") if requeues else self.fake.end(job, "TIMEOUT")
        elif kind.endswith("requeue"):
            self.fake.requeue(job, "PREEMPTED" if kind.startswith("preempt") else "NODE_FAIL")
        elif kind in ("cancel", "scancel"):
            if kind == "cancel":
                (self.paths.job_dir / ".gym_cancelled").write_text("2027-01-15T08:00:00Z, a test\n")
                self.fake.cancel(
                    [SlurmJob(number, token=f"{self.gym_job_id}/b/") for number in self._waiting()]
                )
            self.fake.end(job, "CANCELLED", status=None)
        elif kind not in ("crash", "hopeless", "exhausted"):
            states = {"node": "NODE_FAIL", "zombie": "NODE_FAIL", "preempt": "PREEMPTED"}
            self.fake.end(job, states.get(kind, "OUT_OF_MEMORY" if kind == "oom" else "TIMEOUT"))

    def _kill_driver(self, link: LinkPaths) -> None:
        """Steps are process groups of their own; a scheduler ends them all."""
        mark = f"NEMO_GYM_LINK={link.folder}".encode()
        for process in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in process.read_bytes().split(b"\0"):
                    os.kill(int(process.parent.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue

    # -------------------------------------------------------------- what must hold

    def check(self) -> None:
        """I1 to I6."""
        began = [name for line in self.trace[1:] if ": " in line for name in [line.partition(": ")[2]]]
        rows = self.paths.rollouts.output.read_text().split() if self.paths.rollouts.output.exists() else []
        assert len(rows) == len(set(rows)), f"I1, I2: recorded twice: {rows}"
        left = [job for job, (state, _) in self.fake.states().items() if state in ("PENDING", "RUNNING")]
        assert not left, f"I3: {left} are left"
        self._check_time()
        self._check_secrets()
        last = max(
            self.paths.job_dir.glob("links/*/started"), key=lambda path: path.stat().st_mtime_ns
        ).parent
        end = (last / "end").read_text().splitlines()
        if ENDS & set(began):
            assert len(rows) < WANTED, f"it went on: {began}"
            by_a_person = {"cancel", "scancel"} & set(began)
            assert by_a_person or end[0].split()[1] != "0", f"I6: {end}"
            assert end[1], "I6: no reason"
        else:
            assert sorted(rows) == [str(number) for number in range(WANTED)], f"it is not complete: {rows}"
        retries = len(list(self.paths.job_dir.glob("links/*/retry")))
        assert retries <= sum(kind in FAILS for kind in began), f"{retries} retries for {began}"

    def _check_time(self) -> None:
        truth = {
            f"{job.id}.{restart}": run.elapsed
            for job in self.fake.jobs()
            for restart, run in enumerate([*job.runs, job.as_run()])
        }
        known: dict[str, int] = {}
        for path in self.paths.job_dir.glob("links/*/accounted"):
            for line in path.read_text().splitlines():
                run, seconds = line.split()
                assert run not in known, f"I4: {run} is accounted twice"
                known[run] = int(seconds)
                assert truth[run] == int(seconds), f"I4: {run} took {truth[run]} s, not {seconds}"
        shown = self.paths.job_dir / ".gym_accumulated_walltime"
        if shown.exists():
            assert int(shown.read_text()) == sum(known.values()), "I4: the sum is another"
        chain = (self.paths.job_dir / ".gym_job_chain").read_text().split()
        assert len(chain) == len(set(chain))

    def _check_secrets(self) -> None:
        for path in self.paths.job_dir.rglob("*"):
            if path.is_file() and path != self.paths.script:
                assert CANARY.encode() not in path.read_bytes(), f"I5: {path}"
        for job in self.fake.jobs():
            assert CANARY not in str([job.comment, job.arguments, job.options, job.name, job.environment])


def play(seed: int, folder: Path) -> None:
    """One schedule. Raises `AssertionError` with what happened and what the jobs said."""
    folder.mkdir()
    chain = Chain(seed, folder)
    programs = ResidentPrograms(chain.fake.path)
    try:
        chain.submit(Workplace(folder))
        chain.run()
        chain.check()
    except Exception as error:
        left = [*sorted(folder.rglob("slurm-*.out")), *sorted(folder.rglob(".gym_cancelled"))]
        left += [path for name in ("drain", "collected", "end") for path in sorted(folder.rglob(name))]
        said = [f"-- {path.relative_to(folder)}\n{path.read_text()}" for path in left if path.is_file()]
        message = "\n".join([f"{type(error).__name__}: {error}", *chain.trace, *said])
        raise AssertionError(message) from error
    finally:
        chain.fake.bash.close()
        programs.close()


@pytest.mark.parametrize("block", range(10))
def test_no_schedule_of_faults_breaks_a_chain_of_real_scripts(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {"LOOKUP": "0", "CHAIN": "1", "TICK": "0.02", "STOP": "2", "DRAIN": "2"}
    for name, value in quick.items():
        monkeypatch.setenv(f"NEMO_GYM_{name}_SECONDS", value)
    monkeypatch.setenv("WANTED", str(WANTED))
    seeds = range(block * 5, block * 5 + 5)
    with ThreadPoolExecutor(len(seeds)) as pool:
        list(pool.map(lambda seed: play(seed, tmp_path / str(seed)), seeds))
