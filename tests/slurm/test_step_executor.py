"""The Jobs service on the real Slurm: steps run as its jobs, are paused, resumed, and go on by themselves."""

import json
import os
import secrets
import subprocess
import sys

import pytest
from tests.helix_workplace import Workplace, step
from tests.slurm.lab import until

from nemo_helix_plugin.jobs.types import HelixJobStatus as Status
from nemo_helix_server.executors import dispatch
from nemo_helix_server.jobs.allocations import AllocationRecord
from nemo_helix_server.logs.pages import LogPages, Selection
from nemo_helix_server.logs.reader import Logs
from nemo_helix_server.service.profiles import Profiles
from nemo_helix_server.settings import Settings
from nemo_helix_server.storage.run_files import next_token
from nemo_trainer import contract

pytestmark = [pytest.mark.slurm, pytest.mark.e2e]


def on_cluster(spec, profile="lab"):
    executor = {**spec["executor"], "provider": "cpu", "profile": profile}
    return {**spec, "executor": executor}


def shell(script, **changes):
    return on_cluster(step(["/bin/sh", "-c", script], **changes))


def training(steps, step_seconds, *options, pause=60, **changes):
    command = [sys.executable, "-m", "nemo_trainer.example", "--steps", str(steps)]
    command += ["--step-seconds", str(step_seconds), *map(str, options)]
    return on_cluster(step(command, name="training", pause=pause, **changes))


GRACE = f"grace{secrets.token_hex(2)}"
_PROFILES = {
    "lab": {},
    "far": {"host": "lab"},
    "low": {"partition": "low"},
    "grace": {"partition": GRACE},
    "held": {"options": {"hold": True}},
}


class ClusterWorkplace(Workplace):
    """A workplace whose profiles are the cluster, ``cpu/far`` over ssh."""

    def __init__(self, folder, root, **config):
        profile = {
            "root": str(root),
            "python": sys.executable,
            "device": "cpu",
            "poll_seconds": 0.5,
            **config,
        }
        self.root, self.closed = root, False
        self.config = {
            "executors": [
                {"provider": "cpu", "profile": name, "backend": "slurm", "config": {**profile, **changes}}
                for name, changes in _PROFILES.items()
            ],
            "storage": {"minimum_free_bytes": 0},
            "leases": {"folder": str(folder / "leases")},
        }
        folder.mkdir(parents=True, exist_ok=True)
        settings = Settings(data_dir=folder, jobs=self.config)
        super().__init__(
            folder,
            executor=dispatch.of_service(settings),
            profiles=Profiles(settings.jobs),
            **self.config,
        )
        self.executor.warm()

    def close(self):
        if not self.closed:
            self.closed = True
            super().close()

    def job_ids(self, job):
        """The numbers of the Slurm jobs of a job's starts, in the order in which they were handed over."""
        runs = self.storage.paths("default", job).runs
        found = [json.loads(path.read_text()) for path in runs.glob("*/cluster.json")]
        return [one["job_id"] for one in sorted(found, key=lambda one: one["asked_at"])]

    def logged(self, job):
        pages = LogPages(self.store, lambda run: self.executors.files(run).log(run), Logs())
        page = pages.page("default", self.get(job).name, Selection(), limit=5000)
        return [line["message"] for line in page["data"]]

    def last_step(self, job):
        current = self.step_of(job)
        with self.store.read() as unit:
            task = unit.tasks.named(current.id, current.task or "")
        return task.status_details.get("step", 0) if task else 0

    def weights(self, job):
        """What a training ended with, byte for byte."""
        trainer = self.root / "jobs" / job / "storage" / "training"
        newest = [one for one in contract.list_checkpoints(trainer) if isinstance(one, contract.Checkpoint)][
            -1
        ]
        files = sorted(entry.path for entry in newest.manifest.files)
        return newest.step, {path: (newest.folder / path).read_bytes() for path in files}


@pytest.fixture
def shared(slurm):
    """A folder that all nodes have, and that goes with the test."""
    return slurm.folder / f"shared-{secrets.token_hex(3)}"


@pytest.fixture
def place(slurm, shared, tmp_path, monkeypatch):
    for name, value in slurm.lab.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LAB_SECRET", f"s3cr3t-{secrets.token_hex(8)}")
    place = ClusterWorkplace(tmp_path / "data", shared).start()
    yield place
    place.close()
    numbers = [number for job in (shared / "jobs").glob("*") for number in place.job_ids(job.name) if number]
    if numbers:
        subprocess.run(["scancel", *numbers], check=False)


def in_queue(*numbers):
    done = subprocess.run(
        ["squeue", "-h", "-j", ",".join(numbers), "-o", "%i"], capture_output=True, check=False
    )
    return done.stdout.split()


def steps_of(place, job):
    """The lines of a training's log that each stand for a step."""
    return [line for line in place.logged(job) if line.startswith("step ")]


def test_a_step_runs_on_a_node_and_its_log_and_end_come_back(place):
    job = place.job(
        shell('echo "on $SLURM_JOB_ID with $GREETING"; pwd; exit 3', environment=[("GREETING", "hello")])
    )
    failed = place.until(job, Status.ERROR)
    (number,) = place.job_ids(job)
    assert place.logged(job) == [f"on {number} with hello", f"{place.root}/jobs/{job}/storage"]
    assert failed.error_details["exit_code"] == 3
    node = json.loads((place.run_folder(job) / "node.json").read_text())["nodes"]
    assert place.step_of(job).status_details["place"] == f"job {number} on {node}"


def test_a_training_is_paused_its_allocation_is_gone_and_it_ends_with_the_same_bytes(place):
    whole, job = (place.job(training(300, 0.1, "--save-every", "20")) for _ in range(2))
    place.wait_for(lambda: place.last_step(job) > 8)
    place.pause(job)
    place.until(job, Status.PAUSED)
    place.wait_for(lambda: not in_queue(*place.job_ids(job)))
    place.resume(job)
    place.until(job, Status.COMPLETED)
    place.until(whole, Status.COMPLETED)
    assert place.weights(job) == place.weights(whole)
    assert len(place.job_ids(job)) == 2
    assert len(steps_of(place, job)) == 300


def test_a_training_outlives_its_walltime_with_nobody_touching_it(place, slurm):
    job = place.job(training(500, 0.1, "--save-every", "20"))
    place.wait_for(lambda: place.last_step(job) > 8)
    slurm.control("update", f"JobId={place.job_ids(job)[-1]}", "TimeLimit=0")
    place.until(job, Status.COMPLETED)
    assert len(place.job_ids(job)) == 2
    assert len(steps_of(place, job)) == 500


def test_a_pause_in_the_queue_is_immediate_and_leaves_no_job_behind(place):
    held = place.job(on_cluster(training(20, 0.01), profile="held"))
    place.wait_for(
        lambda: "JobHeldUser" in (place.step_of(held).status_details.get("queued_reason") or ""),
        lambda: place.step_of(held),
    )
    place.pause(held)
    place.until(held, Status.PAUSED)
    place.wait_for(lambda: not in_queue(*place.job_ids(held)))
    assert "nothing to save" in place.step_of(held).status_details["message"]


def test_it_is_the_same_over_ssh(place):
    whole, job = (
        place.job(on_cluster(training(150, 0.1, "--save-every", "20"), profile=name))
        for name in ("lab", "far")
    )
    place.wait_for(lambda: place.last_step(job) > 8)
    place.pause(job)
    place.until(job, Status.PAUSED)
    place.resume(job)
    place.until(job, Status.COMPLETED)
    place.until(whole, Status.COMPLETED)
    assert place.weights(job) == place.weights(whole)


def test_a_job_that_a_more_important_one_preempts_goes_on(place, slurm):
    job = place.job(on_cluster(training(300, 0.1, "--save-every", "20"), profile="low"))
    place.wait_for(lambda: place.last_step(job) > 8, lambda: place.step_of(job))
    node = json.loads((place.run_folder(job) / "node.json").read_text())["node"]
    script = slurm.script("#!/bin/bash\nsleep 3\n")
    options = ["--output=/dev/null", "--partition=high", f"--nodelist={node}", "--exclusive"]
    high = slurm.cluster.submit(script, token=f"{slurm.prefix}high", options=options)
    place.until(job, Status.COMPLETED)
    slurm.settled(high.job)
    assert len(place.job_ids(job)) >= 2
    assert len(set(steps_of(place, job))) == 300


@pytest.fixture
def grace(slurm):
    """A partition that announces a preemption: Slurm signals job steps then, and no batch script."""
    limits = ["GraceTime=20", "PreemptMode=CANCEL", "PriorityTier=1", "MaxTime=INFINITE", "State=UP"]
    slurm.control("create", f"PartitionName={GRACE}", "Nodes=n1", *limits)
    yield GRACE
    subprocess.run(["scancel", f"--partition={GRACE}"], check=True)
    queue = ["squeue", "--noheader", f"--partition={GRACE}"]
    until(lambda: not subprocess.run(queue, check=True, capture_output=True).stdout, timeout=60)
    slurm.control("delete", f"PartitionName={GRACE}")


def test_a_preemption_that_is_announced_costs_no_step_and_is_on_record(place, slurm, grace):
    job = place.job(on_cluster(training(6000, 0.1, "--save-every", "5000"), profile="grace"))
    place.wait_for(lambda: place.last_step(job) > 8, lambda: place.step_of(job))
    run = place.run_folder(job)
    options = ["--output=/dev/null", "--partition=high", "--nodelist=n1", "--exclusive"]
    high = slurm.cluster.submit(
        slurm.script("#!/bin/bash\nsleep 60\n"), token=f"{slurm.prefix}high", options=options
    )
    place.wait_for(lambda: "goes_on" in place.step_of(job).status_details, lambda: place.step_of(job))
    said = json.loads((run / "allocation.json").read_text())
    assert (said["kind"], said["ends_at"] - said["noticed_at"]) == ("preemption", 20)
    waits = place.step_of(job).status_details["goes_on"]
    assert "after it was preempted with 20 s of notice, 2nd allocation, from step " in waits
    step_id = place.step_of(job).id
    with place.store.read() as unit:
        first, *_ = unit.tasks.of_step(step_id)
    record = AllocationRecord.read(first.status_details["allocation"])
    assert (record.notice, record.noticed_at) == ("preemption", said["noticed_at"])
    assert (record.repeated_steps, record.unannounced) == (0, False)
    place.cancel(job)
    place.until(job, Status.CANCELLED)
    slurm.cluster.cancel([high.job])


def test_a_training_ends_while_the_service_sleeps_and_is_found_when_it_wakes_up(
    place, slurm, shared, tmp_path
):
    job = place.job(training(500, 0.1, "--save-every", "20"))
    place.wait_for(lambda: place.last_step(job) > 8)
    (first,) = place.job_ids(job)
    place.close()
    slurm.control("update", f"JobId={first}", "TimeLimit=0")
    trainer = shared / "jobs" / job / "storage" / "training"
    until(lambda: contract.read_progress(trainer / "progress.json").get("phase") == "completed", timeout=90)
    again = ClusterWorkplace(tmp_path / "data", shared).start()
    try:
        again.until(job, Status.COMPLETED)
        assert len(again.job_ids(job)) == 2
        assert len(steps_of(again, job)) == 500
    finally:
        again.close()


def test_a_step_of_two_nodes_runs_on_each_and_is_told_where_they_meet(place):
    said = 'echo "$NODE_RANK of $NNODES on $SLURMD_NODENAME meet at $MASTER_ADDR:$MASTER_PORT"'
    job = place.job(shell(said, resources={"num_nodes": 2}))
    place.until(job, Status.COMPLETED)
    first, second = (line.split() for line in sorted(place.logged(job)))
    assert (first[:3], second[:3]) == (["0", "of", "2"], ["1", "of", "2"])
    assert first[4] != second[4]
    assert first[-1] == second[-1]


def test_after_a_bare_scancel_a_training_goes_on_only_where_its_end_was_recorded(place):
    saved = place.job(training(300, 0.1, "--save-every", "1000"))
    # its save takes longer than Slurm waits before it kills what it has cancelled
    caught = place.job(training(2000, 0.1, "--save-every", "5000", "--save-seconds", "60"))
    for job in (saved, caught):
        place.wait_for(lambda job=job: place.last_step(job) > 8, lambda job=job: place.step_of(job))
    first, cut = (place.root / "jobs" / job / "runs" / place.step_of(job).task for job in (saved, caught))
    subprocess.run(["scancel", *place.job_ids(saved), *place.job_ids(caught)], check=True)
    after = cut.with_name(next_token(cut.name))
    place.wait_for((after / "claim.json").exists)
    assert "this allocation runs nothing: how the allocation before ended is not known (CANCELLED)" in (
        (after / "slurm.log").read_text()
    )
    assert not (cut / "exit.json").exists()
    place.until(saved, Status.COMPLETED)
    assert json.loads((first / "exit.json").read_text())["stopped"] is True
    assert len(place.job_ids(saved)) == 2
    assert len(set(steps_of(place, saved))) == 300


def test_cancelling_ends_the_job_and_whatever_was_to_follow_it(place):
    job = place.job(training(2000, 0.1, "--save-every", "20"))
    place.wait_for(lambda: place.last_step(job) > 3)
    (first,) = place.job_ids(job)
    place.cancel(job)
    place.until(job, Status.CANCELLED)
    place.wait_for(lambda: not in_queue(first))
    tokens = {path.name for path in (place.root / "jobs" / job / "runs").iterdir()}
    assert len(tokens) == 2
    place.wait_for(lambda: not tokens & comments())


def comments():
    done = subprocess.run(["squeue", "-h", "--me", "-o", "%k"], capture_output=True, text=True, check=False)
    return set(done.stdout.split())


def test_no_secret_is_in_a_file_an_argument_or_a_record_once_the_job_runs(place):
    secret = os.environ["LAB_SECRET"]
    job = place.job(
        shell("echo got $KEY; sleep 2", environment=[{"name": "KEY", "value": "host:LAB_SECRET"}])
    )
    place.wait_for(lambda: place.get(job).status is Status.ACTIVE)
    (number,) = place.job_ids(job)
    shown = subprocess.run(
        ["scontrol", "show", "job", number], capture_output=True, text=True, check=False
    ).stdout
    assert secret not in shown
    place.until(job, Status.COMPLETED)
    assert place.logged(job) == ["got ***"]
    assert not [
        path for path in place.root.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()
    ]
    assert not [
        path for path in place.folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()
    ]
