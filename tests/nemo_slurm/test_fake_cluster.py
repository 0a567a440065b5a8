"""The fake cluster: what can go wrong with one, the clock, and real bash on its programs."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_slurm.cluster import Cluster, SlurmJob, Witness
from nemo_slurm.errors import NotReachableError, SchedulerRefusedError, SubmitLimitError
from nemo_slurm.hosts import LocalHost
from nemo_slurm.testing import FakeCluster, Faults
from nemo_slurm.testing.jobs import FakeJob
from nemo_slurm.testing.model import ClusterModel

pytestmark = pytest.mark.services

KILL = "--kill-on-invalid-dep=yes"


@pytest.fixture
def fake() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/bash\n#SBATCH --time=1:00:00\ntrue\n")
    return str(path)


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    fake = FakeCluster(tmp_path / "it's a\nfolder")
    monkeypatch.setenv("PATH", f"{fake.path}:{os.environ['PATH']}")
    yield fake
    fake.bash.close()


def name_of(cluster: Cluster, job: SlurmJob) -> str | None:
    state = cluster.observe([job])[job].state
    return state.name if state else None


def test_a_time_limit_is_kept_at_its_second(fake: FakeCluster, script: str) -> None:
    job = fake.submit(script, token="t").job
    fake.move(3599)
    assert name_of(fake, job) == "RUNNING"
    fake.move(1)
    assert name_of(fake, job) == "TIMEOUT"
    (run,) = fake.observe([job], history=True)[job].runs
    assert run.elapsed == 3600


def test_suspended_time_is_not_allocated_and_does_not_use_up_the_limit(
    fake: FakeCluster, script: str
) -> None:
    job = fake.submit(script, token="t").job
    fake.move(600)
    fake.suspend(job.id, 7200)
    fake.move(60)
    fake.end(job.id)
    (run,) = fake.observe([job], history=True)[job].runs
    assert run.elapsed == 660


@pytest.mark.parametrize("shows", ["RUNNING", "PENDING", "half", ""])
def test_accounting_that_lags_says_nothing_of_an_end_until_its_time(shows: str, script: str) -> None:
    fake = FakeCluster(faults=Faults(accounting_lag=90, lag_shows=shows, remembers=10))
    job = fake.submit(script, token="t").job
    fake.move(100)
    fake.end(job.id, "FAILED", 2)
    assert name_of(fake, job) == "FAILED"
    fake.move(20)
    assert name_of(fake, job) is None
    fake.move(70)
    seen = fake.observe([job])[job]
    assert (seen.state and seen.state.name, seen.exit_status, seen.runs[0].elapsed) == ("FAILED", 2, 100)


def test_accounting_can_be_off_or_down_or_blind_to_one_job(fake: FakeCluster, script: str) -> None:
    job = fake.submit(script, token="t").job
    fake.end(job.id)
    for state, said in (("off", "disabled"), ("down", "database")):
        with fake.faults() as faults:
            faults.accounting = state
        look = fake.observe([job])
        assert said in (look.accounting or "")
        assert look[job].settled
    with fake.faults() as faults:
        faults.accounting, faults.invisible = "on", [job.id]
    fake.move(301)
    assert fake.observe([job])[job].state is None


def test_a_number_that_is_used_again_has_an_older_record(fake: FakeCluster, script: str) -> None:
    fake.reuse("41")
    fake.remember_older("41", "COMPLETED")
    job = fake.submit(script, token="t").job
    assert job.id == "41"
    with fake.faults() as faults:
        faults.invisible, faults.remembers = ["41"], 1
    fake.end("41", "FAILED")
    fake.move(2)
    assert name_of(fake, job) == "COMPLETED", "without the time of submission nothing tells them apart"
    known = SlurmJob("41", submitted_at=fake.job("41").submitted_at)
    assert fake.observe([known])[known].state is None


def test_a_requeued_job_has_a_record_a_run_and_its_time_counts_anew(fake: FakeCluster, script: str) -> None:
    job = fake.submit(script, token="t", options=["--requeue"]).job
    for state in ("REQUEUED", "PREEMPTED", "NODE_FAIL"):
        fake.move(1000)
        fake.requeue(job.id, state)
    fake.move(1000)
    fake.end(job.id)
    seen = fake.observe([job], history=True)[job]
    assert [(run.state.name, run.elapsed) for run in seen.runs] == [
        ("REQUEUED", 1000), ("PREEMPTED", 1000), ("NODE_FAIL", 1000), ("COMPLETED", 1000),
    ]  # fmt: skip
    assert seen.restarts == 3


def test_states_cut_short_and_ids_with_a_cluster_are_understood(script: str) -> None:
    fake = FakeCluster(faults=Faults(cuts_states=True, cluster_name="west", banner="hi 5\n", remembers=0))
    job = fake.submit(script, token="t").job
    assert job.cluster == "west"
    fake.cancel([job])
    assert fake.job(job.id).author == 0
    assert name_of(fake, job) == "CANCELLED"


def test_only_a_job_that_carries_the_token_is_cancelled_and_the_others_are_named(
    fake: FakeCluster, script: str
) -> None:
    ours, stranger = fake.submit(script, token="run/a/1").job, fake.submit(script, token="run/ab/1").job
    silent = fake.submit(script, token="").job
    with fake._state.open() as model:
        model.jobs["1001"].name = model.jobs["1000"].name = "gym-a"
    begun, user = fake.now(), os.getuid()

    def known(number: str, **values: Any) -> SlurmJob:
        return SlurmJob(
            number, **{"token": "run/a/", "name": "job.sh", "user": user, "submitted_at": begun, **values}
        )

    wrong = [
        known(stranger.id),
        SlurmJob(ours.id),
        known(silent.id, name="gym-a"),
        known(silent.id, user=user + 1),
        known(silent.id, submitted_at=begun + 90_000),
        known(silent.id, user=None),
    ]
    for job in wrong:
        assert fake.cancel([job]) == [job]
    assert all(job.active for job in fake.jobs())
    assert fake.cancel([known(ours.id, name="gym-a"), known(silent.id), SlurmJob("4711")]) == []
    assert [job.active for job in fake.jobs()] == [False, True, False]


@pytest.mark.parametrize("number", ["", "1000", "1000;west"])
def test_a_reply_that_can_mean_two_jobs_leads_to_the_one_with_the_token(number: str, script: str) -> None:
    fake = FakeCluster(faults=Faults(banner=f"hours left\n{number}\n"))
    fake.submit(script, token="strangers")
    submitted = fake.submit(script, token="t")
    assert (submitted.job.id, submitted.found) == ("1001", True)
    assert len(fake.jobs()) == 2


def test_where_comments_are_dropped_the_number_of_the_reply_is_taken(script: str) -> None:
    fake = FakeCluster(faults=Faults(banner="hours left\n"))
    accept = ClusterModel.accept

    def without_comment(model: ClusterModel, job: FakeJob) -> FakeJob:
        job.comment = ""
        return accept(model, job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClusterModel, "accept", without_comment)
        assert fake.submit(script, token="t").job.id == "1000"


def test_a_submission_that_never_arrived_is_told_from_one_that_was_not_heard_of(
    fake: FakeCluster, script: str
) -> None:
    with fake.faults() as faults:
        faults.lost_requests = 1
    began = fake.now()
    with pytest.raises(SchedulerRefusedError, match="was not accepted"):
        fake.submit(script, token="t")
    assert 30 <= fake.now() - began < 45
    assert fake.jobs() == []
    with fake.faults() as faults:
        faults.lost_replies, faults.hidden_for = 1, 20
    submitted = fake.submit(script, token="t")
    assert submitted.found
    assert [job.id for job in fake.jobs()] == [submitted.job.id]


def test_a_lost_reply_from_a_controller_that_then_goes_away_stays_open_until_asked_again(
    fake: FakeCluster, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake.faults() as faults:
        faults.lost_replies = 1

    def go_away(token: str) -> None:
        raise NotReachableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(fake, "queue_of", go_away)
        with pytest.raises(NotReachableError, match="submit it again"):
            fake.submit(script, token="t")
    assert fake.submit(script, token="t", again=True).found
    assert len(fake.jobs()) == 1


def test_limits_and_forbidden_options_refuse(fake: FakeCluster, script: str) -> None:
    with fake.faults() as faults:
        faults.submit_limit, faults.refuses_kill_option = 1, True
    with pytest.raises(SchedulerRefusedError, match="kill-on-invalid-dep"):
        fake.submit(script, token="t", options=[KILL])
    fake.submit(script, token="t")
    with pytest.raises(SubmitLimitError):
        fake.submit(script, token="u")


def test_a_dependency_that_cannot_be_satisfied_kills_or_lingers(fake: FakeCluster, script: str) -> None:
    first = fake.submit(script, token="a").job
    with fake.faults() as faults:
        faults.kills_invalid = False
    second = fake.submit(script, token="b", dependency=f"afternotok:{first.id}", options=[KILL]).job
    fake.end(first.id)
    seen = fake.observe([second])[second]
    assert (seen.state and seen.state.name, seen.reason) == ("PENDING", "DependencyNeverSatisfied")
    with fake.faults() as faults:
        faults.kills_invalid = True
    assert name_of(fake, second) == "CANCELLED"


def test_a_dependency_on_an_unknown_job_is_satisfied_or_refused(fake: FakeCluster, script: str) -> None:
    assert name_of(fake, fake.submit(script, token="a", dependency="afternotok:5").job) == "RUNNING"
    with fake.faults() as faults:
        faults.unknown_dependency = "refused"
    with pytest.raises(SchedulerRefusedError, match="dependency problem"):
        fake.submit(script, token="b", dependency="afternotok:5")


def test_a_job_that_an_administrator_removed_leaves_no_trace_in_the_queue(
    fake: FakeCluster, script: str
) -> None:
    first = fake.submit(script, token="b").job
    job = fake.submit(script, token="a", dependency=f"afternotok:{first.id}").job
    fake.forget(job.id)
    assert fake.find("a") is None
    assert name_of(fake, job) == "CANCELLED"


def test_looking_at_many_jobs_is_one_call_each_to_controller_and_accounting(
    fake: FakeCluster, script: str
) -> None:
    jobs = [fake.submit(script, token=f"t/{n}").job for n in range(120)]
    for job in jobs[::2]:
        fake.end(job.id)
    before = fake.calls()
    look = fake.observe(jobs)
    after = fake.calls()
    assert {name: after[name] - before.get(name, 0) for name in ("squeue", "sacct")} == {
        "squeue": 1,
        "sacct": 1,
    }
    assert sum(seen.settled for seen in look.seen.values()) == 60


@pytest.mark.parametrize("seed", range(40))
def test_no_schedule_of_faults_makes_two_jobs_of_one_submission_or_an_end_of_silence(
    script: str, seed: int
) -> None:
    chance = random.Random(seed)
    fake = FakeCluster(faults=Faults(remembers=60, accounting_lag=chance.choice([0, 5, 90])))
    job = None
    while job is None:
        with fake.faults() as faults:
            faults.lost_replies, faults.lost_requests = chance.randrange(2), chance.randrange(2)
            faults.controller_down = chance.random() < 0.3
            faults.hidden_for = chance.choice([0, 10])
        try:
            job = fake.submit(script, token="t", again=True).job
        except (NotReachableError, SchedulerRefusedError):
            fake.move(chance.randrange(60))
    assert len(fake.jobs()) == 1
    for _ in range(20):
        with fake.faults() as faults:
            faults.controller_down = chance.random() < 0.3
            faults.accounting = chance.choice(["on", "off", "down"])
        fake.move(chance.randrange(100))
        try:
            seen = fake.observe([job])[job]
        except NotReachableError:
            continue
        assert not seen.settled or not fake.job(job.id).active
        if chance.random() < 0.1:
            fake.end(job.id, chance.choice(["COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL"]))


CHAIN = """\
#!/bin/bash
trap 'echo "$SLURM_JOB_ID told to end" >>"$1"; exit 75' TERM
echo "$SLURM_JOB_ID after ${2:-nobody}" >>"$1"
state=$([ -z "$2" ] || sacct -j "$2" -n -X -P -o State)
echo "predecessor: ${state:-none}" >>"$1"
links=$(grep -c after "$1")
sbatch --parsable --dependency=afternotok:$SLURM_JOB_ID --kill-on-invalid-dep=yes SCRIPT "$1" "$SLURM_JOB_ID"
srun --overlap --output=step-%j.log sh -c 'echo step of $SLURM_JOB_ID'
while [ -e "$1.wait" ]; do sleep 0.05; done
[ "$links" -lt 3 ] || exit 0
exit 3
"""


def chain(folder: Path) -> Path:
    script = folder / "chain"
    script.write_text(CHAIN.replace("SCRIPT", f"'{script}'"))
    return script


def test_a_chain_of_real_bash_jobs_runs_on_the_programs(on_path: FakeCluster, tmp_path: Path) -> None:
    argv = ["sbatch", chain(tmp_path), tmp_path / "log"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "Submitted batch job 1000\n"
    on_path.bash.run()
    assert (tmp_path / "log").read_text().splitlines() == [
        "1000 after nobody", "predecessor: none",
        "1001 after 1000", "predecessor: FAILED",
        "1002 after 1001", "predecessor: FAILED",
    ]  # fmt: skip
    assert [job.state for job in on_path.jobs()] == ["FAILED", "FAILED", "COMPLETED", "CANCELLED"]
    assert (tmp_path / "step-1000.log").read_text() == "step of 1000\n"
    assert (tmp_path / "slurm-1002.out").read_text() == "1003\n"


def test_a_cancelled_job_of_real_bash_is_told_and_ended(on_path: FakeCluster, tmp_path: Path) -> None:
    log = tmp_path / "log"
    (tmp_path / "log.wait").touch()
    cluster = Cluster(LocalHost())
    job = cluster.submit(str(chain(tmp_path)), [str(log)], token="t", folder=str(tmp_path)).job
    on_path.bash.step()
    end = time.monotonic() + 60
    while not (tmp_path / "step-1000.log").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    subprocess.run(["scancel", job.id, "1001"], check=True)
    on_path.bash.run()
    assert log.read_text().splitlines()[-1] == "1000 told to end"
    assert [job.state for job in on_path.jobs()] == ["CANCELLED", "CANCELLED"]


def test_a_failed_node_can_leave_its_processes_behind(on_path: FakeCluster, tmp_path: Path) -> None:
    script, log = tmp_path / "zombie", tmp_path / "log"
    script.write_text("#!/bin/bash\nwhile :; do echo x >>log; sleep 0.02; done\n")
    job = Cluster(LocalHost()).submit(str(script), token="t", folder=str(tmp_path)).job
    on_path.bash.step()
    on_path.end(job.id, "NODE_FAIL")
    assert not on_path.bash.step(stray_nodes=True)
    assert len(on_path.bash.strays) == 1
    size = log.stat().st_size if log.exists() else 0
    end = time.monotonic() + 60
    while not log.exists() or log.stat().st_size <= size:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_became_of_a_job_is_asked_of_accounting_though_a_strangers_live_job_has_its_number(
    fake: FakeCluster, script: str
) -> None:
    job = fake.submit(script, token="task-1").job
    fake.end(job.id, "FAILED", 3)
    fake.remember_older(job.id, "FAILED", ago=60.0, name="job", comment="task-1", uid=os.getuid())
    fake.change(job.id, state="RUNNING", uid=4242, name="theirs", comment="theirs", ended_at=None)
    seen = fake.observe([job])[job]
    assert (seen.state and seen.state.name, seen.source) == ("FAILED", Witness.ACCOUNTING)
