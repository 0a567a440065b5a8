"""One chain, submitted as a user does it, and what can be seen of it."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.cluster import ROOT, OwnSlurm, call
from nemo_gym.job_paths import JobPaths
from nemo_gym.rollouts.scores.certificate import certify

GYM = Path(sys.executable).with_name("gym")
SERVER = ROOT / "bench" / "servers" / "mock_openai.py"
QUICK = {
    "NEMO_GYM_CHAIN_SECONDS": "1",
    "NEMO_GYM_LOOKUP_SECONDS": "1",
    "NEMO_GYM_STOP_SECONDS": "2",
    "NEMO_GYM_DRAIN_SECONDS": "4",
}
DISK = 24 << 20
"""Bytes of the disk that holds one run."""
SUBMISSION = """\
services:
  mock:
    type: command
    command: exec {python} -S {server} --port {{port}} --latency-ms 200 500
    model_name: mock
compute:
  lab:
    type: slurm
    account: lab
    walltime: "00:20:00"
    node_pools: {{main: {{partition: main}}}}
    extra_args: {{mem: 500M{requeue}}}
driver:
  policy_model: mock
  benchmarks:
    sums:
      resumable: {{max_retries: 40}}
      run:
        config_paths: [benchmarks/arithmetic/config.yaml]
        input_jsonl_fpath: {folder}/sums.jsonl
        num_samples_in_parallel: 4
job:
  output_path: {disk}/runs
"""


@dataclass(frozen=True)
class Row:
    """One job of the chain in the queue."""

    job: str
    state: str
    reason: str
    node: str


class Chain:
    """A chain with a folder, a small disk and a home of its own."""

    def __init__(self, slurm: OwnSlurm, folder: Path, tasks: int, *, requeues: bool) -> None:
        self.slurm, self.folder, self.tasks = slurm, folder, tasks
        self.disk = folder / "disk"
        self.disk.mkdir(parents=True)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", str(self.disk)]
        self.small_disk = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        rows = ({"question": f"What is {n} + 1?", "expected_answer": str(n + 1)} for n in range(tasks))
        (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.environ = os.environ | QUICK
        self.environ |= {
            name: str(folder / name) for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
        }
        config = folder / "submit.yaml"
        values = {"folder": folder, "disk": self.disk, "python": sys.executable, "server": SERVER}
        config.write_text(SUBMISSION.format(**values, requeue=", requeue: true" if requeues else ""))
        try:
            record = self._submitted(config)
        except BaseException:
            self._give_back()
            raise
        self.id = str(record["gym_job_id"])
        self.paths = JobPaths(Path(record["benchmarks"][0]["job_dir"]))

    def _submitted(self, config: Path) -> Any:
        """The record of the submission. While the controller is away it is refused whole, and tried again."""
        end = time.monotonic() + 120
        while True:
            try:
                return json.loads(self.gym("eval", "submit", "-c", str(config), "--json"))
            except RuntimeError as error:
                if "nothing was submitted, try again" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(2)

    def close(self) -> None:
        """End what is left of the chain and give its disk back."""
        for row in self.queue():
            call("scancel", row.job, check=False)
        while self.queue():
            time.sleep(0.2)
        self._give_back()

    def _give_back(self) -> None:
        if self.small_disk:
            subprocess.run(["umount", "--lazy", str(self.disk)], check=False)

    def gym(self, *words: str) -> str:
        """A command of ours; its output."""
        return self.shell(shlex.join([str(GYM), *words]))

    def shell(self, line: str) -> str:
        """A command as a person types it."""
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, check=False, env=self.environ, timeout=240
        )
        if done.returncode:
            raise RuntimeError(f"{line} ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout

    # what can be seen

    def queue(self) -> list[Row]:
        """Jobs that carry the chain's token, the oldest first."""
        done = call("squeue", "-h", "-o", "%i|%T|%r|%N|%k")
        rows = [line.split("|", 4) for line in done.stdout.splitlines()]
        found = [Row(*row[:4]) for row in rows if row[4].startswith(f"{self.id}/sums/")]
        return sorted(found, key=lambda row: int(row.job))

    def running(self) -> Row | None:
        """The job that runs."""
        return next((row for row in reversed(self.queue()) if row.state == "RUNNING"), None)

    def waiting(self) -> Row | None:
        """The job that waits for the one that runs."""
        return next((row for row in reversed(self.queue()) if row.state == "PENDING"), None)

    def rows(self) -> int:
        """How many rollouts are recorded."""
        output = self.paths.rollouts.output
        try:
            return output.read_bytes().count(b"\n")
        except OSError:
            return 0

    def starts(self) -> int:
        """How many runs of jobs have begun."""
        return len(list(self.paths.job_dir.glob("links/*/started")))

    def status(self) -> dict[str, Any]:
        """What `gym job status` says of it."""
        document = json.loads(self.gym("job", "status", self.id, "--json"))
        found: dict[str, Any] = document["submissions"][0]["benchmarks"][0]
        return found

    def problems(self) -> list[str]:
        """What is wrong with the results of a chain that is over."""
        certificate = certify(self.paths.rollouts)
        found = [str(problem) for problem in certificate.problems]
        if (certificate.expected, certificate.present) != (self.tasks, self.tasks):
            found.append(f"{certificate.present} of {self.tasks} rollouts are recorded")
        if self.rows() != self.tasks:
            found.append(f"{self.rows()} rows for {self.tasks} rollouts")
        return found

    # what happens to it

    def kill(self, step: str) -> bool:
        """``kill -9`` of a step of the running job: ``driver``, or a service; false: there is none."""
        row = self.running()
        marker = f"NEMO_GYM_STEP={self.id}/sums/{row.job if row else ''}.".encode()
        found = False
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                words = (folder / "environ").read_bytes().split(b"\0")
                mine = [word for word in words if word.startswith(marker)]
                if row is not None and mine and mine[0].endswith(f"/{step}".encode()):
                    os.kill(int(folder.name), signal.SIGKILL)
                    found = True
        return found

    def fill_disk(self, seconds: float) -> None:
        """Leave no byte on the disk for some seconds."""
        path = self.disk / "ballast"
        end = time.monotonic() + seconds
        with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
            while file.write(b"\0" * 4096):
                pass
        while time.monotonic() < end:
            with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
                while file.write(b"\0" * 512):
                    pass
            time.sleep(0.05)
        path.unlink()
