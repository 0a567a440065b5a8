"""Chains under random faults on a real Slurm: each must come to complete results by itself.

Only where a person's hand is truly needed one is lent, and then it gives the command that `gym job status`
names: ``scontrol release`` of a job that was requeued and held, ``gym job resubmit`` after a successor was
cancelled in the last moments of its predecessor. The cluster is one of its own, brought up and removed again;
accounting has records of older jobs under the same numbers from the first moment. The same seed makes the
same schedule. Ends with 1 when a chain does not end as it must, and says so in one sentence where no Slurm
can be had.

    python bench/slurm_faults.py [--schedules 8] [--seed 1] [--parallel 4]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faults.cluster import OwnSlurm, call
from faults.schedule import Play


def main() -> int:
    parser = argparse.ArgumentParser(description="Chains under random faults on a real Slurm.")
    parser.add_argument("--schedules", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule; the others count on")
    parser.add_argument("--parallel", type=int, default=4, help="chains at a time")
    parser.add_argument(
        "--lab", type=Path, default=Path("/var/lib/slurm-faults"), help="folder of the cluster"
    )
    parser.add_argument("--port", type=int, default=18000, help="the first of its 100 TCP ports")
    parser.add_argument("--keep", action="store_true", help="leave the cluster and the folders of failures")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        print("a cluster whose nodes and daemons are taken away needs root: nothing was tried")
        return 0
    slurm = OwnSlurm(chosen.lab, chosen.port)
    folder = Path(tempfile.mkdtemp(prefix="slurm-faults-"))
    try:
        slurm.down()  # of an earlier time
        slurm.up()
        slurm.prepare()
        bystander = _bystander()
        began = time.monotonic()
        seeds = range(chosen.seed, chosen.seed + chosen.schedules)
        with ThreadPoolExecutor(chosen.parallel) as pool:
            plays = [Play(slurm, folder, seed, lambda text: print(text, file=sys.stderr)) for seed in seeds]
            outcomes = []
            for outcome in pool.map(Play.run, plays):
                outcomes.append(outcome)
                print(outcome.line(), flush=True)
        untouched = bystander in call("squeue", "-h", "-t", "PENDING", "-o", "%i").stdout.split()
    finally:
        if not chosen.keep:
            slurm.down()
    failed = [outcome for outcome in outcomes if outcome.problems]
    counts = Counter(name for outcome in outcomes for name in outcome.faults)
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    hands = Counter(" ".join(word.split()[:3]) for outcome in outcomes for word in outcome.hands)
    print(f"by hand: {dict(hands) or 'nothing'}; a stranger's job {'stands' if untouched else 'is GONE'}")
    well, seconds = len(outcomes) - len(failed), time.monotonic() - began
    print(f"{well} of {len(outcomes)} chains ended complete, {seconds:.0f} s")
    if failed or chosen.keep:
        print(f"what went wrong lies in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed or not untouched else 0


def _bystander() -> str:
    """A waiting job of nobody's chain; it must still wait at the end."""
    words = [
        "sbatch",
        "--parsable",
        "--hold",
        "--account=lab",
        "--comment=a-stranger/sums/1",
        "--job-name=gym-sums",
    ]
    return call(*words, "--output=/dev/null", "--wrap", "true").stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
