"""CPU time that the programs take to start, beside a Python that does nothing, measured in turns in one run.

Limits: `gym --help` and `nemo --help` at most 5.5 times `python -c pass`; a dry run of two benchmarks at most
350 ms more than `python -c pass`. Ends with 1 when one of them is above its limit. Shown beside them is what
click, yaml and one data model of pydantic take: a dry run cannot take less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
RATIO_LIMIT = 5.5
DRY_RUN_LIMIT_MS = 350.0

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "gym --help": [str(BIN / "gym"), "--help"],
    "nemo --help": [str(BIN / "nemo"), "--help"],
    "click, yaml, one data model": [
        sys.executable,
        "-c",
        "import click, yaml\nfrom pydantic import BaseModel\nclass Model(BaseModel):\n    number: int",
    ],
    "dry run of two benchmarks": [
        str(BIN / "gym"),
        "eval",
        "submit",
        "-c",
        str(ROOT / "examples" / "quickstart.yaml"),
        "--dry-run",
    ],
}


def milliseconds(argv: list[str], environ: dict[str, str], folder: str) -> float:
    """CPU time of a command, user and system; other work of the machine changes it little."""
    with tempfile.TemporaryFile() as errors:
        running = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=errors, env=environ, cwd=folder)
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        if running.returncode:
            errors.seek(0)
            sys.exit(f"{' '.join(argv)} ended with {running.returncode}: {errors.read().decode().strip()}")
    return 1000 * (used.ru_utime + used.ru_stime)


def measure(rounds: int) -> dict[str, list[float]]:
    """Times of every command, one of each a round, the first round left out."""
    with tempfile.TemporaryDirectory() as folder:
        homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), folder)
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | homes
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(ROOT / "src")], env=environ, check=True)
        times: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for number in range(rounds + 1):
            for name, argv in COMMANDS.items():
                took = milliseconds(argv, environ, folder)
                if number:
                    times[name].append(took)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="how often each command is run (default: 15)")
    times = measure(parser.parse_args().rounds)
    base = times["python -c pass"]
    within = True
    print(f"{'command':28} {'median ms':>10} {'ratio':>7} {'over, ms':>9}  limit")
    for name, taken in times.items():
        ratio = statistics.median(took / least for took, least in zip(taken, base, strict=True))
        over = statistics.median(took - least for took, least in zip(taken, base, strict=True))
        limit = ""
        if name.startswith("dry run"):
            limit, ok = f"+{DRY_RUN_LIMIT_MS:.0f} ms", over <= DRY_RUN_LIMIT_MS
        elif name.endswith("--help"):
            limit, ok = f"{RATIO_LIMIT} x", ratio <= RATIO_LIMIT
        else:
            ok = True
        within = within and ok
        row = f"{name:28} {statistics.median(taken):10.1f} {ratio:7.2f} {over:9.1f}  {limit}"
        print(row if ok else f"{row}  ABOVE")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
