"""Jobs of the `local` executor and the Jobs service's steps on one machine's devices and slots."""

import os

import pytest
from tests.local_jobs import Workplace, service, until

from nemo_gym.chain.observation import JobState
from nemo_runs.leases import machine_leases
from nemo_runs.processes import trees

pytestmark = pytest.mark.e2e


def test_a_job_waits_for_a_step_of_the_jobs_service_and_gets_its_device_and_slot_then(tmp_path):
    environ = {
        **os.environ,
        "NEMO_LEASES_DIR": str(tmp_path / "leases"),
        "NEMO_LEASES_SLOTS": "1",
        "CUDA_VISIBLE_DEVICES": "6",
    }
    pool = machine_leases.Pool(tmp_path / "leases", ("6",), 1)
    step = machine_leases.LeaseRequest(
        name="task-1", label="default", devices=1, ticket=machine_leases.ticket(1.0)
    )
    assert isinstance(pool.acquire(step), machine_leases.Granted)
    place = Workplace(tmp_path, environ=environ)
    try:
        command = 'echo "$CUDA_VISIBLE_DEVICES $NEMO_LEASE" > seen; until [ -e end ]; do sleep 0.05; done'
        plan = place.plan(run=None, command=command, services=[service(gpus=1)])
        [job] = place.submit(plan)

        def look():
            return place.executor.observe([job])[job.job_id]

        until(lambda: "default/task-1" in look().reason)
        assert look().state is JobState.QUEUED
        assert look().reason == "waiting for 1 GPU device: 6 is held by default/task-1"
        pool.release("task-1")
        until((job.job_dir / "seen").exists)
        [holder] = pool.holders()
        assert (holder.label, holder.devices, holder.slots) == ("gym", ("6",), 1)
        assert holder.identity != trees.identify()
        until(lambda: (job.job_dir / "seen").read_text() == f"6 {holder.name}\n")
        assert isinstance(pool.acquire(step), machine_leases.LeaseWaiting)
        (job.job_dir / "end").touch()
        until(lambda: look().state not in {JobState.QUEUED, JobState.RUNNING})
        assert look().state is JobState.SUCCEEDED
        until(lambda: isinstance(pool.acquire(step), machine_leases.Granted))
    finally:
        place.tidy()


def test_a_killed_supervisor_keeps_its_share_as_long_as_its_job_runs(tmp_path):
    environ = {**os.environ, "NEMO_LEASES_DIR": str(tmp_path / "leases"), "NEMO_LEASES_SLOTS": "1"}
    pool = machine_leases.Pool(tmp_path / "leases", (), 1)
    place = Workplace(tmp_path, environ=environ)
    try:
        command = 'trap "" TERM; touch seen; until [ -e end ]; do sleep 0.05; done'
        [job] = place.submit(place.plan(run=None, command=command, services=[service()]))
        until((job.job_dir / "seen").exists)
        [holder] = pool.holders()
        os.kill(holder.identity.pid, 9)
        until(lambda: trees.liveness(holder.identity) is trees.Liveness.DEAD)
        other = machine_leases.LeaseRequest(name="x", label="default", ticket=machine_leases.ticket(1.0))
        if trees.marked(*holder.marker):
            answer = pool.acquire(other)
            assert isinstance(answer, machine_leases.LeaseWaiting) or not trees.marked(*holder.marker)
        place.executor.cancel([job])
        until(lambda: isinstance(pool.acquire(other), machine_leases.Granted))
    finally:
        place.tidy()
