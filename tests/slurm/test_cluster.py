"""What every cluster does: the fake in this process, the fake's programs, the real one, and it over ssh."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm import stages
from tests.slurm.stages import Stage

from nemo_slurm import scripts
from nemo_slurm.cluster import SlurmJob, Witness
from nemo_slurm.errors import NotReachableError, SchedulerRefusedError
from nemo_slurm.ssh import SshHost

pytestmark = pytest.mark.services

KILL = "--kill-on-invalid-dep=yes"
REAL = pytest.param("real", marks=pytest.mark.slurm)
SSH = pytest.param("ssh", marks=pytest.mark.slurm)


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """One of the clusters, in a folder with an odd name."""
    folder = tmp_path / 'it\'s "odd"\n$(here)'
    folder.mkdir()
    if request.param == "in-process":
        yield stages.in_process(folder)
    elif request.param == "programs":
        found = stages.programs(folder, monkeypatch)
        yield found
        found.fake.bash.close()
    else:
        slurm = request.getfixturevalue("slurm")
        slurm.folder = folder
        slurm.host = SshHost("lab") if request.param == "ssh" else slurm.host
        yield stages.Real(slurm.cluster, folder, prefix=slurm.prefix, slurm=slurm, patch=monkeypatch)
        slurm.host.close()


everywhere = pytest.mark.parametrize("stage", ["in-process", "programs", REAL], indirect=True)
also_over_ssh = pytest.mark.parametrize("stage", ["in-process", "programs", REAL, SSH], indirect=True)


@also_over_ssh
def test_a_job_is_seen_from_its_submission_to_its_end(stage: Stage) -> None:
    submitted = stage.submit("x/1")
    assert not submitted.found
    job = submitted.job
    running = stage.wait(job, "RUNNING")
    assert (running.source, running.settled, running.exit_status) == (Witness.CONTROLLER, False, None)
    assert running.started_at is not None
    found = stage.cluster.find(f"{stage.prefix}x/1")
    assert found is not None
    assert (found.id, found.submitted_at) == (job.id, running.submitted_at)
    stage.finish(job, 3)
    ended = stage.settled(job)
    assert ended.state is not None
    assert (ended.state.name, ended.exit_status, ended.signal) == ("FAILED", 3, 0)


@everywhere
def test_a_job_that_ends_with_0_is_completed_and_accounting_has_its_one_run(stage: Stage) -> None:
    job = stage.submit("x/1").job
    stage.wait(job, "RUNNING")
    stage.finish(job, 0)
    ended = stage.settled(job)
    assert ended.state is not None
    assert (ended.state.name, ended.exit_status) == ("COMPLETED", 0)
    for _ in range(60):
        runs = stage.cluster.observe([job], history=True)[job].runs
        if runs and runs[-1].state.name == "COMPLETED" and runs[-1].ended_at is not None:
            break
        stage.later()
    assert [run.state.name for run in runs] == ["COMPLETED"]
    assert runs[0].elapsed == int((runs[0].ended_at or 0) - (runs[0].started_at or 0))


@everywhere
def test_a_job_that_nobody_knows_is_neither_gone_nor_done(stage: Stage) -> None:
    unknown, known = SlurmJob("999999"), stage.submit("x/1").job
    look = stage.cluster.observe([unknown, known])
    assert (look[unknown].state, look[unknown].settled, look[unknown].source) == (None, False, Witness.NOBODY)
    assert look[known].state is not None
    assert (look.controller, look.accounting) == (None, None)
    alone = stage.cluster.observe([unknown])
    assert (alone[unknown].state, alone[unknown].settled) == (None, False)


@also_over_ssh
def test_cancel_ends_the_waiting_job_before_the_running_one_so_that_it_never_starts(stage: Stage) -> None:
    first = stage.submit("x/1").job
    stage.wait(first, "RUNNING")
    second = stage.submit("x/2", [f"--dependency={scripts.dependency('afternotok', [first.id])}", KILL]).job
    assert stage.wait(second, "PENDING").reason == "Dependency"
    stage.cluster.cancel([first, second])
    for job in (first, second):
        seen = stage.settled(job)
        assert seen.state is not None
        assert seen.state.name == "CANCELLED"
    assert not stage.has_started(second)
    stage.cluster.cancel([first, second, SlurmJob("999999")])


@everywhere
def test_a_time_limit_ends_as_timeout_and_releases_the_next_job(stage: Stage) -> None:
    first = stage.submit("x/1").job
    stage.wait(first, "RUNNING")
    second = stage.submit("x/2", [f"--dependency=afternotok:{first.id}", KILL]).job
    stage.time_out(first)
    ended = stage.settled(first)
    assert ended.state is not None
    assert ended.state.name == "TIMEOUT"
    stage.wait(second, "RUNNING")


@everywhere
def test_a_job_that_waits_for_a_failure_is_cancelled_by_a_success(stage: Stage) -> None:
    first = stage.submit("x/1").job
    stage.wait(first, "RUNNING")
    second = stage.submit("x/2", [f"--dependency=afternotok:{first.id}", KILL]).job
    stage.finish(first, 0)
    ended = stage.settled(second)
    assert ended.state is not None
    assert (ended.state.name, ended.started_at) == ("CANCELLED", None) or not stage.has_started(second)


@everywhere
def test_a_cancelled_job_too_releases_what_waits_for_its_failure(stage: Stage) -> None:
    first = stage.submit("x/1").job
    stage.wait(first, "RUNNING")
    second = stage.submit("x/2", [f"--dependency=afternotok:{first.id}", KILL]).job
    assert stage.wait(second, "PENDING").eligible_at is None
    stage.cluster.cancel([first])
    released = stage.wait(second, "RUNNING")
    assert released.eligible_at is not None
    assert released.submitted_at is not None
    assert released.submitted_at <= released.eligible_at <= (released.started_at or 0)


@everywhere
def test_a_requeued_job_keeps_its_number_and_has_one_record_a_run(stage: Stage) -> None:
    job = stage.submit("x/1", ["--requeue"]).job
    stage.wait(job, "RUNNING")
    for _ in range(60):  # accounting must have seen the first run
        if [run.state.name for run in stage.cluster.observe([job], history=True)[job].runs] == ["RUNNING"]:
            break
        stage.later()
    stage.requeue(job)
    again = stage.wait(job, "PENDING", "RUNNING")
    assert again.restarts == 1
    assert not again.settled
    runs = stage.cluster.observe([job], history=True)[job].runs
    assert [run.state.name for run in runs][:1] == ["REQUEUED"]


@everywhere
def test_what_the_scheduler_refuses_is_told_in_its_own_words(stage: Stage) -> None:
    with pytest.raises(SchedulerRefusedError) as caught:
        stage.submit("x/1", ["--partition=nowhere"])
    assert "Invalid partition name specified" in caught.value.text
    assert stage.cluster.find(f"{stage.prefix}x/1") is None


@everywhere
def test_asking_whether_a_job_would_be_accepted_submits_nothing(stage: Stage, tmp_path: Path) -> None:
    script = tmp_path / "s.sh"
    script.write_text("#!/bin/bash\ntrue\n")
    assert "to start at" in stage.cluster.test(str(script))
    with pytest.raises(SchedulerRefusedError):
        stage.cluster.test(str(script), options=["--partition=nowhere"])


@everywhere
def test_a_submission_asked_again_takes_the_job_that_is_there(stage: Stage) -> None:
    first = stage.submit("x/1")
    again = stage.submit("x/1", again=True)
    other = stage.submit("x/10", again=True)
    assert (again.job.id, again.found) == (first.job.id, True)
    assert (other.job.id != first.job.id, other.found) == (True, False)
    assert [row.comment for row in stage.cluster.queue_of(f"{stage.prefix}x/")] == [
        f"{stage.prefix}x/1",
        f"{stage.prefix}x/10",
    ]


@everywhere
def test_a_job_whose_submission_was_not_heard_of_is_found_by_its_token_and_is_the_only_one(
    stage: Stage,
) -> None:
    stage.lose_reply()
    submitted = stage.submit("x/1")
    assert submitted.found
    assert [row.id for row in stage.cluster.queue_of(stage.prefix)] == [submitted.job.id]


@everywhere
def test_silence_of_the_controller_is_never_an_end(stage: Stage) -> None:
    running, done = stage.submit("x/1").job, stage.submit("x/2").job
    stage.wait(running, "RUNNING")
    stage.wait(done, "RUNNING")
    stage.finish(done, 1)
    stage.settled(done)
    for _ in range(60):
        runs = stage.cluster.observe([done], history=True)[done].runs
        if runs and runs[-1].state.name == "FAILED":
            break
        stage.later()
    stage.part_from_controller()
    look = stage.cluster.observe([running, done])
    assert look.controller is not None
    assert "contact" in look.controller.lower()
    assert not look[running].settled
    assert (look[done].settled, look[done].source, look[done].exit_status) == (True, Witness.ACCOUNTING, 1)
    for ask in (
        lambda: stage.cluster.queue_of(stage.prefix),
        lambda: stage.cluster.cancel([running]),
        lambda: stage.submit("x/3"),
    ):
        with pytest.raises(NotReachableError):
            ask()
    stage.part_from_accounting()
    with pytest.raises(NotReachableError, match="neither"):
        stage.cluster.observe([running])


@everywhere
def test_without_accounting_the_controller_alone_tells_ends_and_statuses(stage: Stage) -> None:
    stage.part_from_accounting()
    job = stage.submit("x/1").job
    stage.wait(job, "RUNNING")
    stage.finish(job, 4)
    ended = stage.settled(job)
    assert ended.state is not None
    assert (ended.state.name, ended.exit_status, ended.runs) == ("FAILED", 4, ())
    look = stage.cluster.observe([job])
    assert look.accounting is not None


@everywhere
def test_partitions_have_their_limits_in_seconds(stage: Stage) -> None:
    main = next(partition for partition in stage.cluster.partitions() if partition.name == "main")
    assert (main.up, main.default, main.max_seconds, main.default_seconds, main.nodes) == (
        True,
        True,
        None,
        3600,
        4,
    )
    assert main.accounts is None
    assert "lab" in {right.account for right in stage.cluster.associations("root")}
