"""What `gym job status` costs for 500 submissions of one machine: wall time, and calls of the scheduler.

Each submission has a chain of three jobs. On Slurm the last one runs; the cluster is the fake one of
`nemo_slurm.testing`, called as programs. The same folders stand for local jobs too. Limits for each: 2 calls;
5 s. Ends with 1 when one is passed.

    python bench/status.py [--submissions 500]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.jobs import BenchmarkEntry, SubmissionRecord
from nemo_slurm.testing import FakeCluster

GYM = Path(sys.executable).parent / "gym"
CALLS = 2
SECONDS = 5.0


def submission(cluster: FakeCluster, folder: Path, number: int, executor: str) -> SubmissionRecord:
    """The folder and the record of one submission whose third job runs."""
    gym_job_id = f"gym-job-20270115T080000Z-{number:06x}"
    paths = JobPaths(folder / "runs" / gym_job_id / "gpqa")
    paths.artifacts.mkdir(parents=True)
    script = folder / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --account=bench\ntrue\n")
    if executor == "slurm":
        job_id = cluster.submit(str(script), token=gym_job_id, folder=str(paths.job_dir)).job.id
        ids = [f"{900_000 + 2 * number}", f"{900_001 + 2 * number}", job_id]
    else:
        ids = [f"local-{3 * number + place}" for place in (1, 2, 3)]
    for index, name in enumerate(ids):
        link = paths.link(name)
        link.folder.mkdir(parents=True)
        files = {"started": f"{1_800_000_000 + index}", "predecessor": ids[index - 1] if index else ""}
        files |= {
            "decision": "go_on running\nthe job before ended as TIMEOUT\nscheduler=TIMEOUT source=scontrol"
        }
        if index < 2:
            files |= {"end": "drained 75 walltime\nasked to stop", "queued": ids[index + 1]}
            files |= {"accounted": f"{name}.0 3600", "rows": "100"}
        for key, text in files.items():
            (link.folder / key).write_text(f"{text}\n")
    progress = {"state": "running", "expected": 198, "done": 120, "updated_at": time.time(), "eta_s": 600.0}
    paths.rollouts.progress.write_text(json.dumps(progress))
    entry = BenchmarkEntry(benchmark="gpqa", job_dir=str(paths.job_dir), job_id=ids[0])
    return SubmissionRecord(
        gym_job_id=gym_job_id, gym_version="0", gym_commit=None, submitted_at="2027-01-15T08:00:00Z",
        run_dir=str(paths.job_dir.parent), cluster="fake", executor=executor, submitted_by="bench",
        benchmarks=(entry,),
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--submissions", type=int, default=500)
    count = parser.parse_args().submissions
    kept = [measure(count, executor) for executor in ("slurm", "local")]
    return 0 if all(kept) else 1


def measure(count: int, executor: str) -> bool:
    """Look at so many submissions and print one line; whether the limits were kept."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cluster = FakeCluster(folder)
        index = folder / "cache" / "nemo-gym" / "jobs"
        index.mkdir(parents=True)
        for number in range(count):
            record = submission(cluster, folder, number, executor)
            (index / f"{record.gym_job_id}.json").write_bytes(record.dumps())
        before = sum(cluster.calls().values())
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        environ = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(folder / "cache"), "HOME": name}
        begun = time.monotonic()
        done = subprocess.run(
            [GYM, "job", "status", "--json"], env=environ, stdout=subprocess.PIPE, check=True
        )
        seconds = time.monotonic() - begun
        calls = sum(cluster.calls().values()) - before
    found = json.loads(done.stdout)["submissions"]
    states = sorted({submission["state"] for submission in found})
    print(f"{executor}: {len(found)} submissions ({', '.join(states)}), {seconds:.2f} s, {calls} calls")
    return len(found) == count and calls <= CALLS and seconds <= SECONDS


if __name__ == "__main__":
    sys.exit(main())
