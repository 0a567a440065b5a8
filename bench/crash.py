"""Kill a collector's store at random moments and count what that cost: lost, doubled and torn rows.

    python bench/crash.py --kills 10000

A child process opens an output with ``resume=True`` and records answers, results and failures as fast as it
can; every one that the store has taken is acknowledged in a log. Some answers are left without a grade for
the next child, and an answer that is neither stored nor has its result is lost. The parent kills it after a
random time with SIGKILL, reads the files as they are, and starts the next child. Between two children it
now and then leaves half a row at the end of a file, as a machine that lost power would, or makes the dead
owner look like one of another host, so that rows are taken over by copying. One JSON document on stdout;
exit status 1 if anything was lost, doubled, torn or refused.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nemo_gym.job_paths import RolloutPaths
from nemo_gym.rollouts.output.rows import check_line
from nemo_gym.rollouts.output.store import OutputStore
from nemo_gym.rollouts.run_config.identity import Identity
from nemo_gym.types import Task
from nemo_runs.clock import SystemClock
from nemo_runs.durable.files import read_lines

TASKS, REPEATS, MAX_ATTEMPTS = 1500, 2, 3
WHILE_OPENING, WHILE_RECORDING = 0.03, 0.015
"""Upper bounds in seconds for the time from the start, or from the first row, to the kill."""
TIMEOUT = 10.0
ACK = struct.Struct("<cI")


@dataclass
class Found:
    """What all the kills cost, and how much was going on."""

    kills: int = 0
    while_recording: int = 0
    """Kills of a child that had already recorded something."""
    lost: int = 0
    doubled: int = 0
    torn: int = 0
    refused: int = 0
    rows: int = 0
    outputs: int = 0
    torn_tails: int = 0
    takeovers: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def bad(self) -> int:
        """Everything that must not happen."""
        return self.lost + self.doubled + self.torn + self.refused


def inputs() -> Iterator[bytes]:
    for task in range(TASKS):
        for rollout in range(REPEATS):
            yield b'{"_ng_task_index":%d,"_ng_rollout_index":%d,"question":"?"}' % (task, rollout)


def open_store(folder: Path) -> OutputStore:
    return OutputStore.open(
        RolloutPaths(folder / "rollouts.jsonl"),
        identity=Identity({"model": {"name": "m"}}, {"benchmark": {"verifier": {"type": "match"}}}),
        rows=inputs,
        num_tasks=TASKS,
        num_repeats=REPEATS,
        max_attempts=MAX_ATTEMPTS,
        resume=True,
        allow_unsafe=False,
        link={},
        clock=SystemClock(),
    )


def work(folder: Path, seed: int) -> None:
    """The child: record until nothing is left; each row is acknowledged once the store has taken it."""
    chance = random.Random(seed)
    log = os.open(folder / "acknowledged", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    with open_store(folder) as store:
        for task_index, rollout_index, row in store.answered():
            store.record(Task(task_index, rollout_index, row), {"reward": 1.0, "answer": row["answer"]})
            os.write(log, ACK.pack(b"r", task_index * REPEATS + rollout_index))
        for number, task in enumerate(store.pending()):
            index = task.task_index * REPEATS + task.rollout_index
            if chance.random() < 0.1 and store.opened.attempts[index] < MAX_ATTEMPTS - 1:
                store.fail(task, failure_class="transient", failure_type="made_up", message="once more")
                os.write(log, ACK.pack(b"f", index))
                continue
            answer = "x\u2028" * (chance.choice((10, 100, 500)) if chance.random() < 0.98 else 20_000)
            store.answer(task, {"answer": answer})
            os.write(log, ACK.pack(b"a", index))
            if chance.random() < 0.05:
                continue  # its grading failed
            store.record(task, {"reward": 1.0, "answer": answer})
            os.write(log, ACK.pack(b"r", index))
            if number % 64 == 63:
                store.tick()


def run_child(folder: Path, chance: random.Random) -> int:
    """Fork a child, kill it at a random moment, and return how it ended as `os.waitstatus_to_exitcode`."""
    seed = chance.getrandbits(32)
    before = acknowledged_bytes(folder)
    child = os.fork()
    if child == 0:
        try:
            work(folder, seed)
        except BaseException as error:  # noqa: BLE001 - the child has no caller
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(3)
        os._exit(0)
    if chance.random() < 0.4:
        time.sleep(chance.uniform(0, WHILE_OPENING))
    else:
        give_up = time.monotonic() + TIMEOUT
        while acknowledged_bytes(folder) == before and time.monotonic() < give_up:
            time.sleep(0.0005)
        time.sleep(chance.uniform(0, WHILE_RECORDING))
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def acknowledged(folder: Path, kind: bytes) -> Counter[int]:
    log = folder / "acknowledged"
    data = log.read_bytes() if log.exists() else b""
    return Counter(
        index for what, index in ACK.iter_unpack(data[: len(data) // ACK.size * ACK.size]) if what == kind
    )


def acknowledged_bytes(folder: Path) -> int:
    log = folder / "acknowledged"
    return log.stat().st_size if log.exists() else 0


def audit(folder: Path, found: Found) -> int:
    """Compare files and acknowledgements; return the number of rollouts that have a result."""
    paths = RolloutPaths(folder / "rollouts.jsonl")
    seen: dict[bytes, Counter[int]] = {}
    for kind, path in ((b"r", paths.output), (b"f", paths.failures), (b"a", paths.answers)):
        rows = seen[kind] = Counter()
        for line in read_lines(path) if path.exists() else ():
            identity = check_line(line)
            if identity is None:
                found.torn += 1
                found.notes.append(f"torn: {path} {line[:80]!r}")
            else:
                rows[identity[0] * REPEATS + identity[1]] += 1
        graded = seen[b"r"] if kind == b"a" else Counter[int]()
        missing = acknowledged(folder, kind) - rows - graded
        found.lost += missing.total()
        found.notes += [f"lost: {path} {index}" for index in missing]
    found.doubled += sum(count - 1 for count in seen[b"r"].values())
    return len(seen[b"r"])


def disturb(folder: Path, chance: random.Random, found: Found) -> None:
    """Between two children: a torn tail, or a dead owner that seems to be on another host."""
    paths = RolloutPaths(folder / "rollouts.jsonl")
    if chance.random() < 0.2 and paths.output.exists():
        with chance.choice((paths.output, paths.failures, paths.answers)).open("ab") as file:
            file.write(b'{"_ng_task_index":7,"_ng_rollout'[: chance.randrange(1, 30)])
        found.torn_tails += 1
    claims = sorted(paths.lock.glob("*.json")) if paths.lock.exists() else []
    if chance.random() < 0.2 and claims:
        claim = json.loads(claims[-1].read_bytes())
        claim["process"]["host"] += "-elsewhere"
        claims[-1].write_text(json.dumps(claim))
        os.utime(claims[-1], (0, time.time() - 60))
        found.takeovers += 1


def batter(folder: Path, kills: int, seed: int) -> Found:
    """Kill ``kills`` children, with a new output whenever one is complete."""
    chance = random.Random(seed)
    found = Found()
    started = time.monotonic()
    output = folder / "0"
    output.mkdir()
    while found.kills < kills and not found.bad:
        before = acknowledged_bytes(output)
        status = run_child(output, chance)
        if status == -signal.SIGKILL:
            found.kills += 1
            found.while_recording += acknowledged_bytes(output) > before
        if status not in (0, -signal.SIGKILL):
            found.refused += 1
        done = audit(output, found)
        if done == TASKS * REPEATS or found.kills == kills:
            found.rows += finish(output, found)
            found.outputs += 1
            output = folder / str(found.outputs)
            output.mkdir()
        else:
            disturb(output, chance, found)
    found.seconds = round(time.monotonic() - started, 1)
    return found


def finish(folder: Path, found: Found) -> int:
    """Complete one output without a kill; every planned rollout must then be there exactly once."""
    while (done := audit(folder, found)) < TASKS * REPEATS and not found.bad:
        work(folder, seed=done)
    with open_store(folder) as store:
        if store.remaining or store.opened.repaired:
            found.lost += store.remaining
            found.notes += store.opened.repaired
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=10_000, help="how often (10000)")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments (1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        found = batter(Path(folder), options.kills, options.seed)
    print(json.dumps(asdict(found)))
    return 1 if found.bad else 0


if __name__ == "__main__":
    sys.exit(main())
