"""What pausing and exact resuming cost a training with a real library (TRL, a tiny model, the CPU).

    python bench/training.py [--rounds 5] [--only cost,pause,goodput]

`cost`: a coin decides for each step of one run whether it has control, metrics and progress or is the library
alone. `pause`: from a request through the service to each thing that follows, and from a resume to the first
new step beside the library alone that goes on from the same checkpoint, in turns. `goodput`: a job with three
pauses and two kills beside one that is left alone. Limits: 0.5 ms a step; 2 % at steps of 0.1 s or more (of
CPU where more runs than there are cores, since others then have their turns within ours); a pause is seen
within the step or 0.5 s after it, and the process is gone 1 s after its checkpoint; a resume takes 2 s more
than the library; both jobs end with the same bytes. Ends with 1 when one of them is passed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from helix.program import Client, Program, until
from helix.trainings import Engine, Job

from nemo_helix_server.storage import run_files

SHORT, LONG = 4, 24
"""Rows of a step."""


def line(what: str, ours: float, bare: float | None, limit: str = "", *, ok: bool = True) -> bool:
    """Print one row; give ``ok`` back."""
    beside = f"{bare:9.1f} {ours / bare:7.3f} {ours - bare:9.1f}" if bare is not None else " " * 27
    print(f"{what:52} {ours:9.1f} {beside}  {limit}{'' if ok else '  ABOVE'}", flush=True)
    return ok


def cost(engine: Engine) -> bool:
    """Steps with the contract and without, in one run."""
    kept = []
    for name, batch, steps in (("short", SHORT, 1000), ("long", LONG, 300)):
        found, size = engine.cost(name, engine.spec(steps=steps, batch=batch, every=100))
        step, bare = statistics.median(found["with"]), statistics.median(found["without"])
        line(f"a {name} step, median of {len(found['with'])}", step, bare)
        usual, cpu = statistics.median(found["inside"]), statistics.fmean(found["cpu"])
        inside = statistics.fmean(found["inside"])
        share = inside / statistics.fmean(found["without"])
        judged = cpu if os.getloadavg()[0] > (os.cpu_count() or 1) else inside
        limit, ok = ("2 % of a step", judged <= 0.02 * bare) if bare >= 100 else ("0.5", judged <= 0.5)
        kept.append(line("    in the contract, mean of every step", inside, None, limit, ok=ok))
        print(f"    = {100 * share:.2f} % of a step; median {usual:.2f} ms, CPU {cpu:.2f} ms")
        publish, save = statistics.median(found["publish"]), statistics.median(found["library_save"])
        line(f"    a checkpoint of {size / 1e6:.1f} MB: save and publish it", save + publish, save)
    return all(kept)


def pause(engine: Engine, program: Program, client: Client, rounds: int) -> bool:
    """The parts of a pause and of a resume."""
    spec = engine.spec(steps=100_000, batch=SHORT)
    job = Job.create(program, client, engine, spec)
    parts: dict[str, list[float]] = {"seen": [], "published": [], "gone": [], "paused": []}
    resumed, alone, steps = [], [], []
    job.until_step(10)
    for _ in range(rounds):
        steps.append(_step_seconds(job))
        for name, value in _paused(job).items():
            parts[name].append(1000 * value)
        done = max(job.steps())
        began = time.time()
        alone.append(1000 * (engine.alone(spec, job.trainer / "checkpoints" / str(done)) - began))
        began = time.time()
        job.ask("resume")
        resumed.append(1000 * (_first_step(job, done) - began))
        job.until_step(done + 10)
    job.ask("cancel")
    job.until("cancelled")
    step = 1000 * statistics.median(steps)
    seen, published, gone, told = (statistics.median(parts[name]) for name in parts)
    print(f"pause and resume, medians of {rounds}; a step takes {step:.0f} ms")
    ours, bare = statistics.median(resumed), statistics.median(alone)
    kept = [
        line("    pause: asked, until it is seen", seen, None, "a step + 500", ok=seen <= step + 500),
        line("        until a checkpoint is published", published, None),
        line("        until the process is gone", gone, None, "1000 later", ok=gone - published <= 1000),
        line("        until the job says paused", told, None),
        line("    resume: asked, until a new step is done", ours, bare, "2000 more", ok=ours - bare <= 2000),
    ]
    return all(kept)


def _paused(job: Job) -> dict[str, float]:
    """Ask for a pause; seconds from then until each thing that follows."""
    run, before = job.run, set((job.trainer / "checkpoints").iterdir())
    began = time.time()
    job.ask("pause")
    until(lambda: job.progress.get("seq_seen") is not None, "the pause is seen", 0.002)
    seen = time.time()
    job.until("paused")
    told = time.time()
    (made,) = set((job.trainer / "checkpoints").iterdir()) - before
    end = run_files.read_end(run)
    assert end is not None
    return {
        "seen": seen - began,
        "published": (made / "MANIFEST.json").stat().st_ctime - began,
        "gone": end.ended_at - began,
        "paused": told - began,
    }


def _first_step(job: Job, done: int) -> float:
    """When the first new step was recorded."""
    job.until_step(done + 1)
    rows = [json.loads(row) for row in (job.trainer / "metrics.jsonl").read_text("utf-8").splitlines()]
    return next(float(row["time"]) for row in rows if row.get("step") == done + 1)


def _step_seconds(job: Job) -> float:
    rows = (job.trainer / "metrics.jsonl").read_text("utf-8").splitlines()
    times = [row["time"] for row in map(json.loads, rows[-6:]) if "step" in row]
    return (times[-1] - times[0]) / (len(times) - 1)


def goodput(engine: Engine, program: Program, client: Client, steps: int) -> bool:
    """How long a job takes that is paused three times and killed twice."""
    spec = engine.spec(steps=steps, batch=LONG, every=max(1, steps // 20))
    began = time.monotonic()
    plain = Job.create(program, client, engine, spec)
    plain.until("completed")
    whole = 1000 * (time.monotonic() - began)
    began = time.monotonic()
    job = Job.create(program, client, engine, spec)
    again = 0
    for part, what in enumerate(("pause", "kill", "pause", "kill", "pause"), 1):
        job.until_step(part * steps // 6)
        if what == "pause":
            job.ask("pause")
            job.until("paused")
            job.ask("resume")
        else:
            again += _killed(job)
            job.ask("rerun")
    job.until("completed")
    taken = 1000 * (time.monotonic() - began)
    same = job.weights() == plain.weights() and job.steps() == plain.steps()
    print(f"goodput, {steps} steps, a checkpoint every {max(1, steps // 20)}")
    line("    three pauses and two kills, beside none", taken, whole)
    each, share = (taken - whole) / 5000, 100 * whole / taken
    print(f"    goodput {share:.0f} %; {each:.1f} s for each of the five; {again} steps done twice")
    return line("    same weights, each step once with the same values", 100.0 * same, None, "100", ok=same)


def _killed(job: Job) -> int:
    """Kill the training; the steps that are lost."""
    started = run_files.read_started(job.run)
    assert started is not None
    os.kill(started[0].pid, signal.SIGKILL)
    job.until("error")
    saved = max(int(path.name) for path in (job.trainer / "checkpoints").iterdir())
    return max(job.steps()) - saved


def with_service(engine: Engine, action: Callable[[Program, Client], bool]) -> bool:
    """Measure on a service of its own."""
    with tempfile.TemporaryDirectory(dir=engine.folder) as folder:
        program = Program(Path(folder, "data"), slots=2)
        client = program.client()
        try:
            return action(program, client)
        finally:
            client.close()
            program.end()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="pauses (default: 5)")
    parser.add_argument("--steps", type=int, default=200, help="of the jobs of `goodput` (default: 200)")
    parser.add_argument("--only", default="cost,pause,goodput")
    given = parser.parse_args()
    only, kept = set(given.only.split(",")), []
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(Path(folder))
        print(f"{'':52} {'ms':>9} {'bare ms':>9} {'ratio':>7} {'over, ms':>9}  limit")
        if "cost" in only:
            kept.append(cost(engine))
        if "pause" in only:
            kept.append(with_service(engine, lambda *on: pause(engine, *on, given.rounds)))
        if "goodput" in only:
            kept.append(with_service(engine, lambda *on: goodput(engine, *on, given.steps)))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
