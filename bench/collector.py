"""What `gym eval run` costs beside a bare loop with the same HTTP client, same server, in one run.

Both send every item to `bench/servers/mock_openai.py`, with instant and with 200 ms answers, at 256 and at
1,000 in flight. CPU is that of the whole command, start and results included. Limits: 0.5 ms CPU a rollout;
2.0 times the bare loop's CPU (aim: 1.5, and its first request 1.3 times as late); half of its rate; 2,000
rollouts a second where answers are instant; first request in 1 s; 150 MiB. Ends with 1 when one is passed.

    python bench/collector.py [--items 20000] [--concurrency 256 1000] [--latency-ms 0 200]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
GYM = Path(sys.executable).parent / "gym"
CPU_MS = 0.5
RATE = 2000.0
RATIO = 0.5
CPU_RATIO = 2.0
FIRST_REQUEST_S = 1.0
MEMORY_MIB = 150.0

BARE = """
import asyncio, sys, time, aiohttp, orjson
url, path, concurrency = sys.argv[1], sys.argv[2], int(sys.argv[3])
async def main():
    bodies = iter([orjson.dumps({"model": "mock", "messages": orjson.loads(line)["input"], "max_tokens": 8})
                   for line in open(path, "rb")])
    async def work(session):
        for body in bodies:
            async with session.post(url + "/chat/completions", data=body) as answer:
                orjson.loads(await answer.read())
    headers = {"content-type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:
        start = time.monotonic()
        await asyncio.gather(*(work(session) for _ in range(concurrency)))
        print(time.monotonic() - start)
asyncio.run(main())
"""


@dataclass(frozen=True)
class Measured:
    """One command."""

    rate: float
    """Requests a second, from the first to the last."""
    cpu_ms: float
    """A request."""
    memory_mib: float
    first_request_s: float
    """From the start of the command."""


@contextlib.contextmanager
def server(latency_ms: float) -> Iterator[str]:
    """The mock server as a process; its base URL."""
    argv = [sys.executable, str(HERE / "servers" / "mock_openai.py"), "--latency-ms", str(latency_ms)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def ask(url: str) -> dict[str, float]:
    with urllib.request.urlopen(url) as answer:
        found: dict[str, float] = json.load(answer)
    return found


def measure(url: str, argv: list[str], items: int, environ: dict[str, str]) -> Measured:
    """Run one command to its end."""
    ask(f"{url}/reset")
    started = time.time()
    with tempfile.TemporaryFile("w+") as talk:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=talk, text=True, env=environ)
        assert process.stdout is not None
        out = process.stdout.read()
        talk.seek(0)
        said = talk.read().strip()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    stats = ask(f"{url}/stats")
    if process.returncode or stats["requests"] < items:
        sys.exit(f"{argv[0]} ended with {process.returncode} after {stats['requests']:.0f} requests: {said}")
    seconds = json.loads(out)["run"]["seconds"] if out.startswith("{") else float(out)
    return Measured(
        rate=items / seconds,
        cpu_ms=1000 * (used.ru_utime + used.ru_stime) / items,
        memory_mib=used.ru_maxrss / 1024,
        first_request_s=stats["first_at"] - started,
    )


def write_items(path: Path, items: int) -> None:
    """Rows with their own input, so that both commands send the same text."""
    with path.open("w") as file:
        for number in range(items):
            text = f"What is {number % 977} + {number // 977}? Answer with the number only."
            answer = str(number % 977 + number // 977)
            messages = [{"role": "user", "content": text}]
            row = {"input": messages, "question": text, "expected_answer": answer}
            file.write(json.dumps(row) + "\n")


def compare(folder: Path, items: int, concurrency: int, latency_ms: float, environ: dict[str, str]) -> bool:
    """Measure both commands and print one line; whether all limits were kept."""
    rows, output = folder / "rows.jsonl", folder / f"{concurrency}-{latency_ms:g}" / "rollouts.jsonl"
    with server(latency_ms) as url:
        base = f"{url}/v1"
        bare = measure(url, [sys.executable, "-c", BARE, base, str(rows), str(concurrency)], items, environ)
        gym = [str(GYM), "eval", "run", "--benchmark", "arithmetic", "--input", str(rows), "--model", "mock"]
        gym += ["--model-url", base, "--output", str(output), "--concurrency", str(concurrency), "--json"]
        ours = measure(url, [*gym, "benchmark.prompt.user='{question}'"], items, environ)
    print(
        f"{concurrency:5,} in flight, {latency_ms:3.0f} ms: {ours.rate:6,.0f}/s, {ours.cpu_ms:.3f} ms CPU, "
        f"{ours.memory_mib:.0f} MiB, first request {ours.first_request_s:.2f} s | "
        f"bare {bare.rate:6,.0f}/s, {bare.cpu_ms:.3f} ms CPU, first {bare.first_request_s:.2f} s | "
        f"{ours.rate / bare.rate:.2f} of its rate, {ours.cpu_ms / bare.cpu_ms:.2f} times its CPU, "
        f"first request {ours.first_request_s / bare.first_request_s:.2f} times as late"
    )
    kept = (
        ours.cpu_ms <= min(CPU_MS, CPU_RATIO * bare.cpu_ms)
        and ours.rate >= RATIO * bare.rate
        and ours.memory_mib <= MEMORY_MIB
    )
    return kept and ours.first_request_s <= FIRST_REQUEST_S and (latency_ms > 0 or ours.rate >= RATE)


def main() -> int:
    parser = argparse.ArgumentParser(description="The cost of a rollout beside a bare HTTP loop.")
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, nargs="*", default=[256, 1000])
    parser.add_argument("--latency-ms", type=float, nargs="*", default=[0.0, 200.0])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), name)
        environ = {k: v for k, v in os.environ.items() if not k.startswith("NEMO_GYM_")} | homes
        write_items(folder / "rows.jsonl", asked.items)
        kept = [
            compare(folder, asked.items, concurrency, latency, environ)
            for latency in asked.latency_ms
            for concurrency in asked.concurrency
        ]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
