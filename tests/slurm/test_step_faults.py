"""The Jobs service killed again and again, and replies of the real scheduler that are lost or refuse."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from tests.slurm.test_step_executor import ClusterWorkplace, on_cluster, place, shared, steps_of, training

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status

pytestmark = [pytest.mark.slurm, pytest.mark.e2e]
__all__ = ["place", "shared"]

_CONTROLLER = """
import sys, time
from pathlib import Path
from tests.slurm.test_step_executor import ClusterWorkplace
ClusterWorkplace(Path(sys.argv[1]), Path(sys.argv[2])).start()
print("ready", flush=True)
time.sleep(600)
"""
_SBATCH = """\
#!/bin/sh
# submits, writes down what was accepted, and keeps the reply to itself while there is a fault to be had
said=$({sbatch} "$@" 2>&1); status=$?
for word in "$@"; do case $word in --comment=*) token=${{word#--comment=}} ;; esac; done
[ $status = 0 ] && echo "$token $said" >>{folder}/accepted
for fault in {folder}/lost.*; do
  if [ -e "$fault" ] && rm "$fault"; then
    echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1
  fi
done
[ $status = 0 ] && echo "$said" || echo "$said" >&2
exit $status
"""
_LIMIT = """\
#!/bin/sh
[ -e {folder}/full ] || exec {sbatch} "$@"
echo 'sbatch: error: AssocMaxSubmitJobLimit' >&2
echo 'sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)' >&2
exit 1
"""


@pytest.fixture
def wrapped(tmp_path, monkeypatch):
    """Puts an ``sbatch`` of one's own on the PATH of the service."""
    folder = tmp_path / "wrapper"
    folder.mkdir()

    def wrap(text):
        program = folder / "sbatch"
        program.write_text(text.format(sbatch=shutil.which("sbatch"), folder=folder))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return folder

    return wrap


def killed_after(data, shared, seconds):
    """A controller of its own process, which gets so many seconds before it is killed."""
    done = subprocess.Popen(
        [sys.executable, "-c", _CONTROLLER, str(data), str(shared)],
        stdout=subprocess.PIPE,
        cwd=os.getcwd(),
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    try:
        done.stdout.readline()
        time.sleep(seconds)
    finally:
        done.send_signal(signal.SIGKILL)
        done.wait()
        done.stdout.close()


def test_a_service_that_is_killed_at_any_moment_makes_one_job_of_a_start_and_loses_nothing(
    slurm, shared, tmp_path, monkeypatch, wrapped
):
    for name, value in slurm.lab.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAB_SECRET", "none")
    folder, chance = wrapped(_SBATCH), random.Random(5)
    quiet = ClusterWorkplace(tmp_path / "data", shared)
    whole, *disturbed = (quiet.job(training(400, 0.1, "--save-every", "20")) for _ in range(4))
    quiet.close()
    for number in range(6):
        if number % 2 == 0:
            (folder / f"lost.{number}").touch()
        killed_after(tmp_path / "data", shared, chance.uniform(1, 6))
        if number == 4 and (folder / "accepted").exists():
            accepted = [line.split()[1] for line in (folder / "accepted").read_text().splitlines()]
            for job in accepted[1:]:
                subprocess.run(["scontrol", "update", f"JobId={job}", "TimeLimit=0"], check=False)
    place = ClusterWorkplace(tmp_path / "data", shared).start()
    try:
        for job in (whole, *disturbed):
            place.until(job, Status.COMPLETED)
        expected = place.weights(whole)
        for job in disturbed:
            assert place.weights(job) == expected
            assert len(set(steps_of(place, job))) == 400
        shown = [place.step_of(job).status_details for job in (whole, *disturbed)]
        assert any(one.get("allocations", {}).get("interrupted") for one in shown), shown
        tokens = Counter(line.split()[0] for line in (folder / "accepted").read_text().splitlines())
        assert set(tokens.values()) == {1}
    finally:
        place.close()


def test_a_limit_of_the_site_is_waited_for(slurm, place, wrapped):
    folder = wrapped(_LIMIT)
    (folder / "full").touch()
    job = place.job(on_cluster(training(20, 0.01)))
    place.wait_for(
        lambda: "AssocMaxSubmitJobLimit" in (place.step_of(job).status_details.get("queued_reason") or ""),
        lambda: place.step_of(job),
    )
    assert place.get(job).status is Status.PENDING
    (folder / "full").unlink()
    place.until(job, Status.COMPLETED)
