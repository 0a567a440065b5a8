"""From the end of one job to the first request of its successor, on a real Slurm, ours beside a plain pair.

Both start `bench/servers/mock_openai.py` and send it questions with the same HTTP client, and both
successors wait for ``afternotok``. Ours is a chain of ``gym eval submit`` whose jobs are told to drain; the
plain pair is a shell script that starts the server and a bare loop. They take turns. Limit: the median of
ours is at most 1.5 s above the median of the plain pairs. Ends with 1 when it is passed, and says so in one
sentence where no Slurm can be had.

    python bench/slurm_link.py [--rounds 7]
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVER = ROOT / "bench" / "servers" / "mock_openai.py"
UP = ROOT / "scripts" / "slurm" / "up.sh"
GYM = Path(sys.executable).with_name("gym")
OVER_S = 1.5
PATIENCE_S = 60.0

PLAIN = """\
#!/bin/bash
#SBATCH --account=lab --partition=main --mem=300M --open-mode=append --output={folder}/plain.out
cd {folder}
{python} -S {server} --latency-ms 100 --first-request first-$SLURM_JOB_ID >port-$SLURM_JOB_ID &
until [ -s port-$SLURM_JOB_ID ]; do sleep 0.02; done
{python} {folder}/loop.py http://127.0.0.1:$(cat port-$SLURM_JOB_ID)/v1 &
until [ -e stop-$SLURM_JOB_ID ]; do sleep 0.05; done
kill %1 %2
echo "$EPOCHREALTIME" >ended-$SLURM_JOB_ID
exit 1
"""
LOOP = """\
import asyncio, sys, aiohttp, orjson
async def main():
    body = orjson.dumps({"model": "mock", "messages": [{"role": "user", "content": "What is 1 + 1?"}]})
    async with aiohttp.ClientSession(headers={"content-type": "application/json"}) as session:
        while True:
            async with session.post(sys.argv[1] + "/chat/completions", data=body) as answer:
                orjson.loads(await answer.read())
asyncio.run(main())
"""
SUBMISSION = """\
services:
  mock:
    type: command
    command: exec {python} -S {server} --port {{port}} --latency-ms 100 --first-request first-$SLURM_JOB_ID
    model_name: mock
compute:
  lab:
    type: slurm
    account: lab
    walltime: "00:20:00"
    node_pools: {{main: {{partition: main}}}}
    extra_args: {{mem: 600M}}
driver:
  policy_model: mock
  benchmarks:
    sums:
      resumable: true
      run:
        config_paths: [benchmarks/arithmetic/config.yaml]
        input_jsonl_fpath: {folder}/sums.jsonl
        num_samples_in_parallel: 1
job:
  output_path: {folder}/runs
"""


def run(*argv: object) -> str:
    """A command's output; ends the measurement with what it said if it fails."""
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, argv))} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def until(look: Callable[[], str | None], what: str) -> str:
    """The first answer there is."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    sys.exit(f"no sign of {what} within {PATIENCE_S:g} s")


def text_of(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


@contextlib.contextmanager
def lab() -> Iterator[bool]:
    """The project's own Slurm, up; tests that break it wait meanwhile. False where it cannot be had."""
    installable = os.geteuid() == 0 and shutil.which("apt-get")
    if not installable and not shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin"):
        yield False
        return
    folder = Path(run(UP, "--env").strip()).parent
    run(UP)
    os.environ["SLURM_CONF"] = str(folder / "etc" / "slurm.conf")
    with (folder / "tests.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield True


class Plain:
    """Pairs of jobs without any of ours."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._script = folder / "plain.sh"
        self._script.write_text(PLAIN.format(folder=folder, python=sys.executable, server=SERVER))
        (folder / "loop.py").write_text(LOOP)

    def seam(self) -> float:
        """Seconds from one job's end to the first request of the next."""
        first = run("sbatch", "--parsable", self._script).strip()
        second = run("sbatch", "--parsable", f"--dependency=afternotok:{first}", self._script).strip()
        self._begun(first)
        time.sleep(1.0)
        (self._folder / f"stop-{first}").touch()
        begun = self._begun(second)
        (self._folder / f"stop-{second}").touch()
        return begun - float(until(lambda: text_of(self._folder / f"ended-{first}"), "its end"))

    def _begun(self, job: str) -> float:
        return float(until(lambda: text_of(self._folder / f"first-{job}"), f"job {job}"))


class Ours:
    """A chain of jobs, one more for each seam."""

    def __init__(self, folder: Path) -> None:
        rows = ({"question": f"What is {n} + 1?", "expected_answer": str(n + 1)} for n in range(20_000))
        (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        config = folder / "submit.yaml"
        config.write_text(SUBMISSION.format(folder=folder, python=sys.executable, server=SERVER))
        run(GYM, "eval", "submit", "-c", config)
        [self._job_dir] = (folder / "runs").glob("*/sums")
        record = json.loads((self._job_dir.parent / "gym-job.json").read_text())
        self._job = str(record["benchmarks"][0]["job_id"])

    def seam(self) -> float:
        """Seconds from one job's end to the first request of the next."""
        self._begun()
        time.sleep(1.0)
        old = self._job
        self._job = until(lambda: text_of(self._job_dir / "links" / f"{old}.0" / "queued"), "a successor")
        run("scancel", "--batch", "--signal=USR1", old)
        begun = self._begun()
        return begun - self._at("job_ended", old)

    def parts(self) -> str:
        """What the last seam was made of: milliseconds from event to event."""
        end = max(event["t"] for event in self._events() if event["event"] == "job_ended")
        said, before = [], end
        for event in self._events():
            if event["t"] > end:
                said.append(f"{event['event']} +{1000 * (event['t'] - before):.0f}")
                before = event["t"]
        begun = self._begun()
        return ", ".join([*said, f"first request +{1000 * (begun - before):.0f}"])

    def _begun(self) -> float:
        return float(until(lambda: text_of(self._job_dir / f"first-{self._job}"), f"job {self._job}"))

    def _events(self) -> list[dict[str, object]]:
        found = [json.loads(line) for line in (self._job_dir / ".gym_events.jsonl").read_text().splitlines()]
        return [event | {"t": _seconds(event["at"])} for event in found]

    def _at(self, name: str, job: str) -> float:
        return next(e["t"] for e in self._events() if (e["event"], e["job_id"]) == (name, job))

    def end(self) -> None:
        """Leave nothing in the queue."""
        run(GYM, "job", "cancel", "latest", "--all", "--yes")


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def main() -> int:
    parser = argparse.ArgumentParser(description="The gap between two jobs of a chain beside a plain pair.")
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with lab() as up, tempfile.TemporaryDirectory() as name:
        if not up:
            print("no Slurm is installed here and this user cannot install it: nothing was measured")
            return 0
        for home in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            os.environ[home] = name
        plain, ours = Plain(Path(name)), Ours(Path(name))
        try:
            pairs = [(plain.seam(), ours.seam()) for _ in range(rounds)]
            parts = ours.parts()
        finally:
            ours.end()
    bare, chain = (statistics.median(times) for times in zip(*pairs, strict=True))
    over = chain - bare
    print(f"plain pairs: median {bare:.2f} s of {', '.join(f'{pair[0]:.2f}' for pair in pairs)}")
    print(f"a chain:     median {chain:.2f} s of {', '.join(f'{pair[1]:.2f}' for pair in pairs)}")
    print(f"the last seam, ms: {parts}")
    print(f"over the plain pair: {over:.2f} s (limit {OVER_S} s)" + ("" if over <= OVER_S else "  ABOVE"))
    return 0 if over <= OVER_S else 1


if __name__ == "__main__":
    sys.exit(main())
