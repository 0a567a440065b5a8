"""Work that a seam between two jobs wastes, with draining beside a plain kill: same rollouts, same server.

`gym eval run` keeps 32 questions in flight at `bench/servers/mock_openai.py`. Of ten answers three take 1 s,
two 2 s, two 3 s, and one each 4, 6 and 14 s. The job ends 30 s after the first question. Killed: by SIGKILL
at that moment. Drained: 14 s before it the drain file says ``walltime`` and SIGUSR1 comes; what is in flight
gets 12 s, so some of the longest are lost all the same. A second run completes both. Wasted is what the
server worked beyond each rollout once. Slots that stand empty while others finish are not work, and are told
apart. Limit: draining wastes at least 70 % less. Ends with 1 when it is passed.

    python bench/drain.py
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
GYM = Path(sys.executable).with_name("gym")
LATENCIES_MS = (1000, 1000, 1000, 2000, 2000, 3000, 3000, 4000, 6000, 14_000)
SLOTS, ROLLOUTS = 32, 400
JOB_S, LEAD_S, MARGIN_S = 30.0, 14.0, 12.0
SAVED = 0.7


@dataclass(frozen=True)
class Seam:
    """What one end of a job cost."""

    kept: int
    """Rollouts that the first job recorded."""
    wasted: float
    """Seconds of the server's work beyond each rollout once."""
    empty: float
    """Seconds of slots that stood empty from the drain to the collector's end."""
    left: float
    """Seconds from the collector's end to the job's limit, in which others may have the machine."""


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The mock server as a process; its URL."""
    argv = [sys.executable, str(HERE / "servers" / "mock_openai.py"), "--latency-ms"]
    argv += [str(latency) for latency in LATENCIES_MS]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def stats(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/stats") as answer:
        found: dict[str, float] = json.load(answer)
    return found


def collector(folder: Path, url: str, *words: str) -> subprocess.Popen[bytes]:
    """`gym eval run`, started."""
    argv = [
        str(GYM),
        "eval",
        "run",
        "--benchmark",
        "arithmetic",
        "--model",
        "mock",
        "--model-url",
        f"{url}/v1",
    ]
    argv += ["--input", str(folder / "rows.jsonl"), "--output", str(folder / "out" / "rollouts.jsonl")]
    argv += ["--concurrency", str(SLOTS), f"walltime_margin_s={MARGIN_S}", *words]
    homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), str(folder))
    environ = {k: v for k, v in os.environ.items() if not k.startswith("NEMO_GYM_")} | homes
    environ["NEMO_GYM_DRAIN_FILE"] = str(folder / "drain")
    with (folder / "said").open("ab") as said:
        return subprocess.Popen(argv, stdout=said, stderr=said, env=environ)


def end_job(folder: Path, url: str, process: subprocess.Popen[bytes], *, drain: bool) -> tuple[float, float]:
    """Let the job reach its end; seconds of slots that stood empty, and seconds left when it was gone."""
    while not (begun := stats(url)["first_at"]):
        time.sleep(0.02)
    end, empty = begun + JOB_S, 0.0
    if drain:
        time.sleep(max(0.0, end - LEAD_S - time.time()))
        (folder / "drain").write_text("walltime\n")
        process.send_signal(signal.SIGUSR1)
        looked = time.time()
        while process.poll() is None and time.time() < end:
            time.sleep(0.1)
            now = time.time()
            empty += (SLOTS - stats(url)["in_flight"]) * (now - looked)
            looked = now
    else:
        time.sleep(max(0.0, end - time.time()))
    left = max(0.0, end - time.time())
    process.kill()
    process.wait()
    return empty, left


def seam(folder: Path, *, drain: bool) -> Seam:
    """One job to its end and a second one to the last rollout."""
    folder.mkdir()
    rows = ({"question": f"What is {number} + 1?", "expected_answer": "1"} for number in range(ROLLOUTS))
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with server() as url:
        empty, left = end_job(folder, url, collector(folder, url), drain=drain)
        kept = len(results(folder))
        (folder / "drain").unlink(missing_ok=True)
        if collector(folder, url, "--resume").wait():
            sys.exit(f"the second job did not complete: {(folder / 'said').read_text()[-500:]}")
        worked = stats(url)
    once = sum(row["ng_perf"]["total_latency_ms"] for row in results(folder)) / 1000
    return Seam(kept, worked["answered_s"] + worked["abandoned_s"] - once, empty, left)


def results(folder: Path) -> list[dict[str, Any]]:
    """The recorded rollouts; a row that was torn by the kill is none."""
    text = (folder / "out" / "rollouts.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def main() -> int:
    parser = argparse.ArgumentParser(description="Work that a seam between two jobs wastes.")
    parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor() as pool:
        ends = [
            pool.submit(seam, Path(name) / word, drain=word == "drained") for word in ("killed", "drained")
        ]
        killed, drained = (end.result() for end in ends)
    saved = 1 - drained.wasted / killed.wasted
    for word, found in (("killed", killed), ("drained", drained)):
        waste = f"{found.wasted:6.1f} s of work wasted, {found.empty:6.1f} s of slots empty"
        print(f"{word:8} {found.kept} rollouts kept, {waste}, gone {found.left:.1f} s before the limit")
    print(f"draining wastes {100 * saved:.0f} % less (limit: {100 * SAVED:.0f} % less)")
    return 0 if saved >= SAVED else 1


if __name__ == "__main__":
    sys.exit(main())
