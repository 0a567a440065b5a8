"""Trainings on nodes that the real Slurm gives up, while what ran there lives on."""

import contextlib
import json
import os
import signal
import sys

import pytest
from tests.slurm.lab import away
from tests.slurm.test_step_executor import ClusterWorkplace, shared, training

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.storage import run_files
from nemo_runs.processes import trees
from nemo_trainer.contract import generations, metrics

pytestmark = [pytest.mark.slurm, pytest.mark.e2e]
__all__ = ["shared"]

_STEPS = 1500
"""Of 0.1 s each: what lives on may not be at its end before Slurm gives up its node and it is fenced off."""
_NODE = """\
#!/bin/sh
# the emulated nodes are one machine: each gets a name and processes of its own, as real ones have
[ -z "$SLURMD_NODENAME" ] || exec unshare --uts --pid --fork --mount-proc \\
  sh -c 'hostname "$SLURMD_NODENAME"; exec {python} "$@"' sh "$@"
exec {python} "$@"
"""


@pytest.fixture
def slurm(slurm_alone):
    return slurm_alone


@pytest.fixture
def place(slurm, shared, tmp_path, monkeypatch):
    for name, value in slurm.lab.environ.items():
        monkeypatch.setenv(name, value)
    program = tmp_path / "python-of-a-node"
    program.write_text(_NODE.format(python=sys.executable))
    program.chmod(0o755)
    place = ClusterWorkplace(tmp_path / "data", shared, python=str(program)).start()
    yield place
    place.close()


def node_of(place, job):
    """The node of the newest start of a job; empty while it waits for one."""
    with contextlib.suppress(FileNotFoundError):
        return json.loads((place.run_folder(job) / "node.json").read_text())["node"]
    return ""


def marked(task):
    """The processes of a start, seen from outside of its node."""
    return {pid for pid in trees.marked("NEMO_JOB_TASK", task) if b"nemo_trainer" in _words(pid)}


def _words(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
    return b""


def test_a_training_goes_on_elsewhere_while_what_ran_on_the_lost_node_lives_on(place, slurm):
    """One zombie works on until it is fenced off; the other one sleeps, and wakes up behind its successor."""
    options = ("--save-every", "20")
    whole, awake, asleep = (place.job(training(_STEPS, 0.1, *options)) for _ in range(3))
    both = (awake, asleep)
    place.wait_for(lambda: all(place.last_step(job) > 25 for job in both))
    first = {job: place.step_of(job).task for job in both}
    nodes = {node_of(place, job) for job in both}
    sleeping = marked(first[asleep])
    assert sleeping
    with contextlib.ExitStack() as stack:
        for node in nodes:
            stack.enter_context(away(slurm, node, signal.SIGKILL))
        for pid in sleeping:
            os.kill(pid, signal.SIGSTOP)
        place.wait_for(
            lambda: all(place.step_of(job).task not in {None, first[job]} for job in both),
            lambda: [place.step_of(job) for job in both],
        )
        place.wait_for(
            lambda: all(node_of(place, job) not in {"", *nodes} for job in both),
            lambda: [place.step_of(job) for job in both],
        )
        newest = place.last_step(asleep)
        place.wait_for(lambda: place.last_step(asleep) > newest + 25)
        for pid in sleeping:
            os.kill(pid, signal.SIGCONT)
        for job in both:
            place.wait_for(lambda job=job: not marked(first[job]), lambda: "a zombie goes on")
    for step in range(100, _STEPS + 1, 100):  # a slow machine may take as long for all as it needs
        for job in (*both, whole):
            place.wait_for(lambda job=job, step=step: place.last_step(job) >= step)
    for job in (*both, whole):
        place.until(job, Status.COMPLETED)
    for job in both:
        said = (place.root / "jobs" / job / "runs" / first[job] / run_files.OUTPUT).read_text()
        assert "has taken over this training as generation 2" in said
        assert place.weights(job) == place.weights(whole)
        trainer = place.root / "jobs" / job / "storage" / "training"
        assert [one.task for one in generations.records(trainer)] == [first[job], place.step_of(job).task]
        steps = [row.step for row in metrics.history(trainer / "metrics.jsonl")]
        assert steps == list(range(1, _STEPS + 1))
        assert len(place.job_ids(job)) == 2
