"""What it costs a training on a real Slurm to lose its place again and again, and to be started there.

`goodput`: one training under a schedule made from a seed (a walltime that is moved close, a time limit that
is over at once, a preemption, a node that is set down, a node that is lost without a word) beside the same
one undisturbed, at the same moment, each on nodes of its own. The useful share is the time that the steps of
the undisturbed one take, over the time for which a training had nodes. `start`: from `sbatch` to the first
step, by the service and by a script of three lines with the same trainer, in turns. Limits: no step twice
after an end with notice, at most one save interval after a node that is lost; every loss and the final
weights the same; 2 s more to the first step. Ends with 1 when one of them is passed, and says so in one
sentence where no Slurm can be had.

    python bench/slurm_training.py [--only goodput,start] [--seed 1] [--steps 700] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helix import program
from helix.program import JOBS, Client, Program
from slurm_link import lab, run

from nemo_helix_server.storage import run_files

KINDS = ("walltime", "timeout", "preemption", "node down", "node lost")
STEP_SECONDS, SAVE_EVERY = 0.1, 40
OVER_S = 2.0
PLAIN = """\
#!/bin/bash
#SBATCH --partition=low --exclusive --no-requeue --output={folder}/plain.out --open-mode=append
exec {python} -m nemo_trainer.example --dir {trainer} --steps 20 --step-seconds 0.1
"""
HIGH = """\
#!/bin/bash
#SBATCH --partition=high --nodelist={node} --exclusive --output=/dev/null
sleep 1
"""


def settings(folder: Path) -> Path:
    """A service with one profile, in a partition that is preempted."""
    config = {
        "root": str(folder / "shared"),
        "python": sys.executable,
        "device": "cpu",
        "partition": "low",
        "time": "00:04:00",
        "options": {"exclusive": True},
        "poll_seconds": 0.5,
    }
    profile = {"provider": "cpu", "profile": "cluster", "backend": "slurm", "config": config}
    path = folder / "settings.yaml"
    path.write_text(json.dumps({"jobs": {"executors": [profile]}}))
    return path


@dataclass(frozen=True)
class Start:
    """One allocation of a training: its Slurm job, node, and the steps it did, first to last."""

    job_id: str
    node: str
    steps: tuple[int, ...]
    folder: Path


class Training:
    """One job of one training step on the cluster."""

    def __init__(self, folder: Path, client: Client, steps: int) -> None:
        self._client = client
        executor = {
            "provider": "cpu",
            "profile": "cluster",
            "container": {"command": [sys.executable, "-m", "nemo_trainer.example"]},
        }
        step = {
            "name": "training",
            "executor": executor,
            "config": {"steps": steps, "step_seconds": STEP_SECONDS, "save_every": SAVE_EVERY, "keep": 3},
            "lifecycle": {"pause_deadline_seconds": 60},
        }
        body = {"source": "bench", "spec": {}, "platform_spec": {"steps": [step]}}
        self.asked = time.time()
        made = client.post(JOBS, body)
        self.name = str(made["name"])
        self.folder = folder / "shared" / "jobs" / str(made["id"])

    def starts(self) -> list[Start]:
        """The allocations that had it so far, in order."""
        found = []
        for node in self.folder.glob("runs/*/node.json"):
            said = json.loads(node.read_text())
            found.append(
                (said["at"], Start(str(said["job_id"]), said["node"], _steps(node.parent), node.parent))
            )
        return [start for _, start in sorted(found, key=lambda one: one[0])]

    def rows(self) -> list[dict[str, Any]]:
        """The rows of steps of the metrics, those that were taken back included."""
        return rows_of(self.folder / "storage" / "training")

    def losses(self) -> dict[int, Any]:
        """What counts of them: values by step."""
        return {row["step"]: row["values"] for row in self.rows()}

    def weights(self) -> bytes:
        """What it ended with."""
        return (self.folder / "storage" / "training" / "model" / "weights.json").read_bytes()

    def submitted(self) -> float:
        """When the batch script of its first allocation was there, right before `sbatch`."""
        return self.starts()[0].folder.joinpath("job.sh").stat().st_mtime

    def completed(self) -> bool:
        """Whether it is; ends the measurement when it never will be."""
        status = self._client.status(self.name)
        if status in {"error", "cancelled"}:
            sys.exit(
                f"{self.name} is in {status}: {self._client.get(f'{JOBS}/{self.name}')['error_details']}"
            )
        return status == "completed"

    def cancel(self) -> None:
        """Leave nothing of it in the queue."""
        self._client.ask("POST", f"{JOBS}/{self.name}/cancel", refusable=True)
        program.until(lambda: self._client.status(self.name) in program.ENDED, f"{self.name} has ended", 0.1)


def rows_of(trainer: Path) -> list[dict[str, Any]]:
    """The rows of steps of a file of metrics, as far as they are whole."""
    try:
        lines = (trainer / "metrics.jsonl").read_text().splitlines(keepends=True)
    except OSError:
        return []
    rows = [json.loads(line) for line in lines if line.endswith("\n")]
    return [row for row in rows if "step" in row]


def _steps(start: Path) -> tuple[int, ...]:
    try:
        lines = (start / "output.jsonl").read_text().splitlines(keepends=True)
    except OSError:
        return ()
    said = [json.loads(line)["m"] for line in lines if line.endswith("\n")]
    return tuple(int(text.split()[1]) for text in said if text.startswith("step "))


def schedule(seed: int) -> Iterator[tuple[int, str]]:
    """Each kind of end once, in any order, and how many steps an allocation does before it."""
    dice = random.Random(seed)
    for kind in dice.sample(KINDS, len(KINDS)):
        yield dice.randint(SAVE_EVERY // 2, 2 * SAVE_EVERY), kind


def disturb(kind: str, start: Start) -> None:
    """Bring an end about."""
    if kind == "walltime":
        run("scontrol", "update", f"JobId={start.job_id}", "EndTime=now+20")
    elif kind == "timeout":
        run("scontrol", "update", f"JobId={start.job_id}", "TimeLimit=0")
    elif kind == "preemption":
        script = HIGH.format(node=start.node)
        subprocess.run(["sbatch"], input=script, text=True, check=True, capture_output=True)
    elif kind == "node down":
        set_down(start)
    else:
        lose(start)


def set_down(start: Start) -> None:
    """Have Slurm take the node for failed; its daemon, which lives, ends the job."""
    run("scontrol", "update", f"NodeName={start.node}", "State=DOWN", "Reason=bench")


def lose(start: Start) -> None:
    """End all processes of a start at once, and the node with them, as when its power goes."""
    started = run_files.read_started(start.folder)
    assert started is not None
    command = started[0].pid
    program_of_job = _parent(command)
    daemon = _parent(program_of_job)
    assert Path(f"/proc/{daemon}/comm").read_text().startswith("slurmstepd"), "the job's own daemon"
    os.kill(daemon, signal.SIGSTOP)  # so that it tells nobody how the job has ended
    try:
        for process in (command, program_of_job):
            os.kill(process, signal.SIGKILL)
        set_down(start)
    finally:
        os.kill(daemon, signal.SIGCONT)


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def revive(start: Start) -> None:
    """A node that was set down; it may have come back by itself."""
    argv = ["scontrol", "update", f"NodeName={start.node}", "State=RESUME"]
    subprocess.run(argv, check=False, capture_output=True)


def suffer(training: Training, seed: int) -> list[tuple[str, int]]:
    """Let a training meet its schedule; each end, and how many steps were done again after it."""
    met = []
    for steps, kind in schedule(seed):
        program.until(lambda steps=steps: _has_done(training, steps), f"{steps} steps are done", 0.05)
        before = training.starts()
        disturb(kind, before[-1])
        number = len(before)
        program.until(lambda number=number: _went_on(training, number), f"it goes on after {kind}", 0.05)
        if kind.startswith("node"):
            revive(before[-1])
        old, new = training.starts()[number - 1 : number + 1]
        met.append((kind, old.steps[-1] - new.steps[0] + 1))
    return met


def _has_done(training: Training, steps: int) -> bool:
    starts = training.starts()
    return bool(starts) and len(starts[-1].steps) >= steps


def _went_on(training: Training, number: int) -> bool:
    starts = training.starts()
    return len(starts) > number and bool(starts[-1].steps)


def allocated(training: Training) -> int:
    """Seconds for which it had a node, by Slurm's accounting."""
    numbers = ",".join(start.job_id for start in training.starts())
    said = run("sacct", "-X", "-n", "-P", "-j", numbers, "--format=ElapsedRaw")
    return sum(map(int, said.split()))


def goodput(folder: Path, client: Client, seed: int, steps: int) -> bool:
    """A training that loses its place, and one that does not."""
    job, plain = Training(folder, client, steps), Training(folder, client, steps)
    took = {}
    try:
        met = suffer(job, seed)
        for name, training in (("disturbed", job), ("undisturbed", plain)):
            program.until(training.completed, f"the {name} one is completed", 0.1)
            took[name] = training.rows()[-1]["time"] - training.rows()[0]["time"]
        time.sleep(6)  # accounting has an end some seconds after it
        had = {"disturbed": allocated(job), "undisturbed": allocated(plain)}
    finally:
        job.cancel()
        plain.cancel()
    print(f"goodput, seed {seed}: {steps} steps of {STEP_SECONDS} s, a checkpoint every {SAVE_EVERY}")
    for kind, again in met:
        print(f"    {kind:14} {again:4} steps done again")
    useful = took["undisturbed"]
    for name, seconds in took.items():
        share = 100 * useful / had[name]
        print(f"    {name:14} {seconds:6.1f} s, {had[name]:4} s of nodes, of which useful {share:.0f} %")
    ratio = had["undisturbed"] / had["disturbed"]
    print(f"    ratio of time {took['disturbed'] / useful:.2f}, of useful shares {ratio:.2f}")
    most = {kind: SAVE_EVERY if kind == "node lost" else 0 for kind in KINDS}
    same = job.losses() == plain.losses() and job.weights() == plain.weights()
    same = same and sorted(job.losses()) == list(range(1, steps + 1))
    print(f"    every loss in the same order and the same weights: {'yes' if same else 'no  ABOVE'}")
    repeated = all(again <= most[kind] for kind, again in met)
    print(f"    steps done again within the limits: {'yes' if repeated else 'no  ABOVE'}")
    return same and repeated


def start(folder: Path, client: Client, rounds: int) -> bool:
    """The first step of a training by the service, and by a script."""
    ours, asked, bare = [], [], []
    for number in range(rounds):
        training = Training(folder, client, 20)
        first = program.until(training.rows, "the first step is done", 0.02)[0]["time"]
        program.until(training.completed, "it is completed", 0.05)
        ours.append(first - training.submitted())
        asked.append(first - training.asked)
        bare.append(_plain(folder, folder / f"plain-{number}"))
    base = statistics.median(bare)
    over = statistics.median(ours) - base
    print(f"from sbatch to the first step, medians of {rounds}")
    said = f"by a script {base:.2f} s, by the service {base + over:.2f} s"
    print(f"    {said}: {over:.2f} s more, limit {OVER_S} s{'' if over <= OVER_S else '  ABOVE'}")
    print(f"    from the request to the service to the first step {statistics.median(asked):.2f} s")
    return over <= OVER_S


def _plain(folder: Path, trainer: Path) -> float:
    script = folder / "plain.sh"
    script.write_text(PLAIN.format(folder=folder, python=sys.executable, trainer=trainer))
    began = time.time()
    number = run("sbatch", "--parsable", script).strip()
    first = program.until(lambda: rows_of(trainer), "the first step is done", 0.02)[0]["time"]
    program.until(lambda: not run("squeue", "-h", "-j", number), "it is over", 0.05)
    return float(first - began)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="goodput,start")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=700, help="of the trainings of `goodput`")
    parser.add_argument("--rounds", type=int, default=5, help="of `start`")
    given = parser.parse_args()
    parts: dict[str, Callable[[Path, Client], bool]] = {
        "goodput": lambda *on: goodput(*on, given.seed, given.steps),
        "start": lambda *on: start(*on, given.rounds),
    }
    with lab() as up, tempfile.TemporaryDirectory(prefix="bench-training-") as name:
        if not up:
            print("no Slurm is installed here and this user cannot install it: nothing was measured")
            return 0
        folder = Path(name)
        service = Program(folder / "data", settings=settings(folder))
        client = service.client()
        try:
            kept = [parts[part](folder, client) for part in given.only.split(",")]
        finally:
            client.close()
            service.end()
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
