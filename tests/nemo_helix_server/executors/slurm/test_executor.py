"""The executor beside a fake scheduler; the part on the cluster's host answers in this process."""

import contextlib
import dataclasses
import json
import os
import time

import pytest
from tests.nemo_helix_server.executors.slurm.scheduler_world import (
    Connection,
    Files,
    Killed,
    Place,
    run_of,
)

from nemo_helix_server.executors.background import ObservedInBackground
from nemo_helix_server.executors.base import (
    AlreadyStartedError,
    CapacityRequest,
    ExecutorError,
    NeverPossibleError,
    NotConfinedError,
    ResourceNeeds,
    RunState,
)
from nemo_helix_server.executors.landlock import FileAccess
from nemo_helix_server.executors.slurm import job_script, submissions
from nemo_helix_server.executors.slurm.connection import ClusterAddress, UnusableClusterError
from nemo_helix_server.executors.slurm.observation import FILES_LAG
from nemo_helix_server.executors.slurm.opening import KIND
from nemo_helix_server.executors.slurm.submissions import RunList
from nemo_helix_server.executors.slurm.tidying import Tidying
from nemo_helix_server.settings import Settings, SettingsError
from nemo_helix_server.storage import run_files
from nemo_helix_server.storage.run_files import next_token
from nemo_runs.processes import trees
from nemo_runs.secret_refs import SecretText
from nemo_slurm.cluster import Cluster
from nemo_slurm.errors import (
    NotConnectedError,
    NotReachableError,
    SchedulerRefusedError,
    StorageFullError,
)
from nemo_slurm.hosts import Completed
from nemo_slurm.testing import Faults


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


# ---------------------------------------------------------------- what a look costs


@pytest.mark.slow
def test_a_look_costs_the_scheduler_two_calls_and_each_root_one_look_however_many_jobs_there_are(place):
    runs = [run_of(number, "ab"[number % 2], f"job-{number}") for number in range(1, 1201)]
    script = place.jobs.data_dir.parent / "job.sh"
    script.write_text("#!/bin/sh\n")
    address = {name: ClusterAddress.of(settings) for name, settings in place.settings.items()}
    for run in runs:
        job = place.fake.submit(str(script), token=run.token).job
        known = submissions.ClusterSubmission(
            address=address[run.profile], token=run.token, name="", user=None, asked_at=place.fake.now()
        )
        known.accepted(job).save(place.jobs.run_folder(run))
        if run in runs[:200]:
            place.fake.start(job.id)
    before = sum(place.fake.calls().values())
    seen = place.executor.observe(runs)
    waiting = [one for one in seen.values() if one.state is RunState.QUEUED]
    assert (len(waiting), len(seen)) == (1000, 1200)
    # at most a thousand numbers go into one call
    assert sum(place.fake.calls().values()) - before <= 2
    assert place.connections.asked == ["look", "look"]


def test_runs_that_are_over_are_tidied_up_by_one_request(place):
    runs = [run_of(number) for number in range(1, 6)]
    for run in runs:
        place.start(run)
    for job in place.fake.jobs():
        place.fake.start(job.id)
        place.fake.end(job.id, "TIMEOUT")
    place.fake.move(100)
    place.connections.asked.clear()
    seen = place.executor.observe(runs)
    assert {one.state for one in seen.values()} == {RunState.LOST}
    assert place.connections.asked == ["look", "tidy"]


# ---------------------------------------------------------------- who may read what


def test_a_run_that_is_to_be_kept_to_its_own_files_is_refused_before_anything_is_brought(place):
    run = run_of(1)
    request = CapacityRequest(run, "job-1", "default", ResourceNeeds(), 1, (0.0, 0))
    place.executor.require_possible(request)
    place.executor.admit(request)
    for ask in (place.executor.require_possible, place.executor.admit):
        with pytest.raises(NotConfinedError, match=r"cluster it cannot.*shares_user: true"):
            ask(dataclasses.replace(request, confined=True))
    with pytest.raises(NotConfinedError, match="shares_user: true"):
        place.start(run, file_access=FileAccess(("/usr",), ("/tmp",)))
    assert (place.fake.jobs(), place.connections.asked, place.known(run)) == ([], [], None)
    assert not place.there(run).exists()
    place.start(run)
    assert len(place.fake.jobs()) == 1


# ---------------------------------------------------------------- at most one job for a start


@pytest.mark.parametrize("fault", ["lost_replies", "lost_requests"])
def test_a_reply_that_was_lost_makes_no_second_job_and_no_failure(place, fault):
    run = run_of(1)
    place.fake.set(Faults(**{fault: 1}))
    if fault == "lost_requests":
        with pytest.raises(ExecutorError) as said:
            place.start(run)
        assert not isinstance(said.value, NeverPossibleError)
        place.fake.move(60)
        assert place.state(run) is RunState.ABSENT
        place.start(run)
    else:
        place.start(run)
    assert len(place.fake.jobs()) == 1
    assert place.known(run).job_id == place.fake.jobs()[0].id


@pytest.mark.parametrize("moment", ["folders", "order", "intent", "sbatch", "record"])
def test_a_service_that_is_killed_at_any_moment_of_a_start_makes_one_job_of_it(place, moment, monkeypatch):
    run = run_of(1)

    def dies(*_args, **_changes):
        raise Killed

    def submits_and_dies(self, *args, **changes):
        submit(self, *args, **changes)
        raise Killed

    submit = Cluster.submit
    with monkeypatch.context() as patch:
        match moment:
            case "folders":
                patch.setattr(Connection, "write", dies)
            case "order":
                patch.setattr(submissions.ClusterSubmission, "save", dies)
            case "intent":
                patch.setattr(Cluster, "submit", dies)
            case "sbatch":
                patch.setattr(Cluster, "submit", submits_and_dies)
            case "record":
                patch.setattr(submissions.ClusterSubmission, "accepted", dies)
        with pytest.raises(Killed):
            place.start(run)
    place.restarted()
    if place.state(run) is RunState.UNKNOWN:  # it may be that a reply is still to come
        place.fake.move(60)
    if place.state(run) is RunState.ABSENT:
        place.start(run)
    assert [job.comment for job in place.fake.jobs()] == [run.token]
    assert place.state(run) is RunState.QUEUED
    assert place.known(run).job_id == place.fake.jobs()[0].id


def test_a_job_that_began_and_was_forgotten_before_its_reply_was_heard_is_known_by_its_own_files(place):
    run = run_of(1)
    place.start(run)
    job = place.fake.jobs()[0]
    unheard = dataclasses.replace(place.known(run), job_id=None, submitted_at=None)
    unheard.save(place.jobs.run_folder(run))
    place.fake.forget(job.id)
    run_files.make_claim(place.there(run), run_files.RunClaim(trees.identify(), 1.0))
    (place.there(run) / "node.json").write_text(json.dumps({"job_id": job.id, "nodes": "n1"}))
    end = run_files.ExitRecord(3, 0, 1.0, 2.0, False, False, False, "exited with status 3")
    run_files.write_end(place.there(run), end)
    place.executor.observe([run])
    assert place.state(run) is RunState.EXITED
    assert len(place.fake.jobs()) == 1


def test_a_start_whose_job_runs_already_is_taken_over(place):
    run = run_of(1)
    place.start(run)
    job = place.fake.jobs()[0]
    (place.jobs.run_folder(run) / submissions.NAME).unlink()  # the service was given back an older copy
    (place.there(run) / "node.json").write_text(json.dumps({"job_id": job.id, "nodes": "n1"}))
    with pytest.raises(AlreadyStartedError):
        place.start(run)
    assert (len(place.fake.jobs()), place.known(run).job_id) == (1, job.id)


def test_a_strangers_job_with_the_number_of_ours_is_never_touched(place):
    run = run_of(1)
    place.start(run)
    number = place.fake.jobs()[0].id
    place.fake.change(number, comment="theirs", uid=4242, name="theirs")
    for act in (lambda: place.executor.stop(run, grace_seconds=1), lambda: place.executor.kill(run)):
        act()
        assert place.fake.job(number).state == "PENDING"
    assert place.state(run) is not RunState.QUEUED


# ---------------------------------------------------------------- limits of the site


def test_what_a_limit_keeps_out_is_queued_and_starts_when_the_limit_is_gone(place):
    runs = [run_of(number) for number in range(1, 5)]
    place.fake.set(Faults(submit_limit=1, starts_jobs=False))
    for run in runs:
        place.start(run)
    seen = place.executor.observe(runs)
    assert {one.state for one in seen.values()} == {RunState.QUEUED}
    assert sum("limit of the cluster" in one.reason for one in seen.values()) == 3
    before = place.fake.calls()["sbatch"]
    for _ in range(10):
        place.executor.observe(runs)
    assert place.fake.calls()["sbatch"] - before <= 1  # a limit is asked about seldom
    place.fake.set(Faults(starts_jobs=False))
    place.fake.move(60)
    seen = place.executor.observe(runs)
    assert [job.comment for job in place.fake.jobs()] == [run.token for run in runs]
    assert not any("limit of the cluster" in one.reason for one in seen.values())


def test_a_start_that_waits_for_a_limit_and_is_refused_then_says_so(place, monkeypatch):
    run = run_of(1)
    place.fake.set(Faults(submit_limit=0))
    place.start(run)
    assert place.state(run) is RunState.QUEUED

    def refuses(_self, *_args, **_changes):
        raise SchedulerRefusedError(["sbatch"], 1, "error: Invalid account or account/partition")

    monkeypatch.setattr(Cluster, "submit", refuses)
    place.fake.move(60)
    seen = place.executor.observe([run])[run.token]
    assert (seen.state, seen.never_started) == (RunState.LOST, True)
    with pytest.raises(NeverPossibleError, match="Invalid account"):
        place.start(run._replace(token=next_token(run.token)))


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("sbatch: error: Batch job submission failed: No space left on device", True),
        ("Slurm temporarily unable to accept job, sleeping and retrying", True),
        ("error: Invalid qos specification", False),
        ("error: Requested node configuration is not available", False),
    ],
)
def test_only_what_would_be_refused_again_fails_a_step(place, monkeypatch, text, passes):
    def refuses(_self, *_args, **_changes):
        raise SchedulerRefusedError(["sbatch"], 1, text)

    monkeypatch.setattr(Cluster, "submit", refuses)
    with pytest.raises(ExecutorError) as said:
        place.start(run_of(1))
    assert isinstance(said.value, NeverPossibleError) is not passes


# ---------------------------------------------------------------- chains that are to end


def test_a_chain_is_open_from_before_its_first_job_until_the_cluster_was_asked_to_end_it(place, monkeypatch):
    run = run_of(1)
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "prepare", lambda *_args: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            place.start(run)
    assert place.restarted().open_chains() == [run]
    place.start(run)
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "ask", lambda *_args, **_more: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            place.executor.end_chain(run)
    assert place.restarted().open_chains() == [run]
    place.executor.end_chain(run)
    assert place.executor.open_chains() == []


def test_the_end_of_a_chain_is_that_of_the_starts_before_it_and_of_no_other(place):
    first = run_of(1)
    second = first._replace(token=next_token(first.token))
    other, resumed = run_of(2, job="job-2"), run_of(3)
    for run in (first, second, other, resumed):
        place.start(run)
    place.executor.end_chain(second)
    assert set(place.executor.open_chains()) == {other, resumed}


def test_a_start_that_nothing_can_follow_has_no_chain(place):
    run = run_of(1)
    place.settings["a"] = place.settings["a"].model_copy(update={"max_allocations": 1})
    place.start(run)
    assert place.executor.open_chains() == []


def test_a_job_that_waits_again_after_its_start_was_made_is_taken_out_of_the_queue(place):
    run = run_of(1)
    place.start(run)
    number = place.fake.jobs()[0].id
    place.fake.start(number)
    run_files.make_claim(place.there(run), run_files.RunClaim(trees.identify(), 1.0))
    place.fake.requeue(number)
    seen = place.executor.observe([run])[run.token]
    assert (seen.state, seen.interrupted) == (RunState.LOST, "its job was put back into the queue")
    assert place.fake.job(number).state == "CANCELLED"


def test_a_job_that_ended_and_was_forgotten_long_before_the_service_woke_up_is_found_in_accounting(place):
    run = run_of(1)
    place.start(run)
    job = place.fake.jobs()[0]
    (place.jobs.run_folder(run) / submissions.NAME).unlink()  # an allocation had queued it
    (place.there(run) / "queued.json").write_text(json.dumps({"job_id": job.id}))
    place.fake.start(job.id)
    place.fake.end(job.id, "TIMEOUT")
    place.fake.move(7 * 86_400)
    with pytest.raises(AlreadyStartedError):
        place.start(run)
    seen = place.executor.observe([run])[run.token]
    assert (seen.state, seen.interrupted) == (RunState.LOST, "its walltime was over")


# ---------------------------------------------------------------- in the background


def test_a_start_that_is_given_up_while_its_files_are_brought_queues_nothing(place):
    run = run_of(1)
    place.executor.storage.bring_inputs = lambda run: place.executor.stop(run, grace_seconds=0)
    with pytest.raises(AlreadyStartedError, match="was given up before it was queued"):
        place.start(run)
    assert not place.fake.jobs()
    seen = place.executor.observe([run])[run.token]
    assert (seen.state, seen.never_started) == (RunState.LOST, True)


def test_what_was_handed_over_before_it_is_given_up_is_not_forgotten(place, monkeypatch):
    """Between the two the service would have a job that it takes for one that never was."""
    run, read = run_of(1), submissions.read
    begun = []

    def first_read_is_overtaken(folder):
        found = read(folder)
        if not begun:
            begun.append(folder)
            place.start(run)
        return found

    monkeypatch.setattr(submissions, "read", first_read_is_overtaken)
    place.executor.stop(run, grace_seconds=0)
    assert place.known(run).job_id == place.fake.jobs()[0].id
    assert place.state(run) is RunState.LOST


@pytest.mark.parametrize(("host", "refused"), [(None, True), ("login", False)])
def test_a_root_around_the_services_keys_is_refused_where_it_is_on_the_same_machine(tmp_path, host, refused):
    profile = {
        "provider": "cpu",
        "profile": "a",
        "backend": "slurm",
        "config": {"root": str(tmp_path), **({"host": host} if host else {})},
    }
    settings = Settings(data_dir=tmp_path / "data", jobs={"executors": [profile]})
    if refused:
        with pytest.raises(SettingsError, match="name another root"):
            KIND.open(settings)
    else:
        KIND.open(settings).close()


def test_each_host_is_looked_at_and_asked_apart_from_the_others(tmp_path):
    profiles = [
        {
            "provider": "cpu",
            "profile": name,
            "backend": "slurm",
            "config": {
                "root": str(tmp_path / "shared"),
                "poll_seconds": seconds,
                **({"host": host} if host else {}),
            },
        }
        for name, host, seconds in (("a", "one", 1), ("b", "two", 60), ("c", "two", 30), ("d", None, 2))
    ]
    settings = Settings(data_dir=tmp_path / "data", jobs={"executors": profiles})
    executor = KIND.open(settings)
    assert isinstance(executor, ObservedInBackground)
    try:
        lanes = [
            executor._lane(run_of(n, f"cpu/{name}")) for n, name in enumerate(["a", "b", "c", "d", "gone"])
        ]
        assert [lanes.index(lane) for lane in lanes] == [0, 1, 1, 3, 3]
        assert [lane._interval for lane in lanes] == [1, 30, 30, 2, 2]
        assert [lane._stale_after for lane in lanes] == [120, 180, 180, 120, 120]
    finally:
        executor.close()


def test_a_follower_that_cannot_be_signalled_is_told_to_stop_and_keeps_its_chain_open(place):
    run = run_of(1)
    place.start(run)
    after = run._replace(token=next_token(run.token))
    follower = follow(place, run, after)
    run_files.make_claim(place.there(after), run_files.RunClaim(trees.identify(), 1.0))
    place.fake.start(follower)
    place.fake.change(follower, state="CONFIGURING")
    with pytest.raises(ExecutorError, match="CONFIGURING"):
        place.executor.end_chain(run)
    assert run_files.read_stop(place.there(after)) is not None
    assert place.executor.open_chains() == [run]
    place.fake.change(follower, state="RUNNING")
    place.executor.end_chain(run)
    assert place.executor.open_chains() == []


def test_a_follower_is_signalled_where_the_site_keeps_no_comments(place):
    run = run_of(1)
    place.start(run)
    after = run._replace(token=next_token(run.token))
    follower = follow(place, run, after)
    run_files.make_claim(place.there(after), run_files.RunClaim(trees.identify(), 1.0))
    place.fake.start(follower)
    place.fake.change(follower, comment="")
    before = place.fake.calls().get("scancel", 0)
    place.executor.end_chain(run)
    assert place.fake.calls()["scancel"] == before + 1
    assert place.executor.open_chains() == []


def test_a_follower_that_was_given_up_but_not_cancelled_is_cancelled_by_the_next_try(place):
    run = run_of(1)
    place.start(run)
    after = run._replace(token=next_token(run.token))
    follower = follow(place, run, after)
    place.fake.set(Faults(controller_down=True, accounting="off"))
    with pytest.raises(ExecutorError):
        place.executor.end_chain(run)
    assert place.executor.open_chains() == [run]
    place.fake.set(Faults(starts_jobs=False))
    place.executor.end_chain(run)
    assert place.fake.job(follower).state == "CANCELLED"
    assert place.executor.open_chains() == []


def follow(place, run, after):
    """The number of the job that an allocation of ``run`` has queued."""
    script = place.jobs.data_dir.parent / "follower.sh"
    name = job_script.job_name(run.job_id, run.step, after.token)
    script.write_text(f"#!/bin/bash\n#SBATCH --job-name={name}\n")
    job = place.fake.submit(str(script), token=after.token).job
    place.there(after).mkdir(parents=True)
    (place.there(after) / "order.json").write_text(json.dumps({"start": 2}))
    (place.there(after) / "queued.json").write_text(json.dumps({"job_id": job.id}))
    return job.id


# ---------------------------------------------------------------- sites that write comments of their own


def test_a_job_whose_comment_the_site_wrote_over_is_seen_and_cancelled(place):
    run = run_of(1)
    place.start(run)
    number = place.fake.jobs()[0].id
    place.fake.change(number, comment="charged to project 42")
    assert place.state(run) is RunState.QUEUED
    place.fake.start(number)
    assert place.state(run) is RunState.STARTING
    place.executor.kill(run)
    assert place.fake.job(number).state == "CANCELLED"


def test_a_lost_reply_makes_no_second_job_where_the_site_writes_over_comments(place):
    run = run_of(1)
    place.start(run)
    number = place.fake.jobs()[0].id
    place.fake.change(number, comment="charged to project 42")
    dataclasses.replace(place.known(run), job_id=None, submitted_at=None).save(place.jobs.run_folder(run))
    assert place.state(run) is RunState.QUEUED
    assert (len(place.fake.jobs()), place.known(run).job_id) == (1, number)


def test_a_job_of_an_earlier_version_that_named_all_alike_is_found_and_its_follower_is_ended(place):
    run, old = run_of(1), "job-1-main"
    place.start(run)
    number = place.fake.jobs()[0].id
    place.fake.change(number, name=old)
    known = dataclasses.replace(place.known(run), name=old, job_id=None, submitted_at=None)
    known.save(place.jobs.run_folder(run))
    after = run._replace(token=next_token(run.token))
    follower = follow(place, run, after)
    place.fake.change(follower, name=old)
    assert place.state(run) is RunState.QUEUED
    assert place.known(run).job_id == number
    with pytest.raises(AlreadyStartedError):
        place.start(after)
    assert place.state(after) is RunState.QUEUED
    place.executor.end_chain(run)
    assert [place.fake.job(one).state for one in (number, follower)] == ["PENDING", "CANCELLED"]


def test_a_start_of_an_earlier_version_that_no_reply_came_for_keeps_its_name(place):
    run, old = run_of(1), "job-1-main"
    place.start(run)
    place.fake.forget(place.fake.jobs()[0].id)
    known = dataclasses.replace(place.known(run), name=old, job_id=None, submitted_at=None)
    known.save(place.jobs.run_folder(run))
    place.fake.move(60)
    place.start(run)
    assert place.fake.jobs()[-1].name == old
    assert place.state(run) is RunState.QUEUED


# ---------------------------------------------------------------- jobs that nobody remembers


@pytest.mark.parametrize("claimed", [True, False])
def test_a_job_that_the_scheduler_has_forgotten_is_lost_where_there_is_no_accounting(place, claimed):
    run = run_of(1)
    place.fake.set(Faults(starts_jobs=False, accounting="off"))
    place.start(run)
    number = place.fake.jobs()[0].id
    if claimed:
        run_files.make_claim(place.there(run), run_files.RunClaim(trees.identify(), 1.0))
    place.fake.forget(number)
    assert place.state(run) is RunState.UNKNOWN
    place.fake.move(FILES_LAG - 5)
    assert place.state(run) is RunState.UNKNOWN
    place.fake.move(10)
    seen = place.executor.observe([run])[run.token]
    assert (seen.state, seen.never_started) == (RunState.LOST, not claimed)
    assert seen.interrupted == "the scheduler does not know its job any more"


def test_a_job_is_not_forgotten_by_a_scheduler_that_does_not_answer(place):
    run = run_of(1)
    place.start(run)
    place.fake.set(Faults(starts_jobs=False, controller_down=True))
    for _ in range(3):
        place.fake.move(3 * FILES_LAG)
        assert place.state(run) is not RunState.LOST


# ---------------------------------------------------------------- secrets


SECRETS = {"KEY": SecretText("value")}


def test_secrets_are_not_there_when_a_job_is_refused(place, monkeypatch):
    def refuses(_self, *_args, **_changes):
        assert (place.there(run) / "secrets.json").exists()
        raise SchedulerRefusedError(["sbatch"], 1, "error: Invalid account")

    run = run_of(1)
    monkeypatch.setattr(Cluster, "submit", refuses)
    with pytest.raises(NeverPossibleError):
        place.start(run, secrets=SECRETS)
    assert not (place.there(run) / "secrets.json").exists()


def test_secrets_are_not_there_when_a_script_cannot_be_made(place):
    run = run_of(1)
    with pytest.raises(NeverPossibleError):
        place.start(run, secrets=SECRETS, exclude_nodes=("a node",))
    assert not (place.there(run) / "secrets.json").exists()


def test_secrets_of_a_start_that_is_given_up_meanwhile_are_not_brought(place, monkeypatch):
    run = run_of(1)
    write = Connection.write

    def stops_meanwhile(self, path, data):
        write(self, path, data)
        if path.name == "order.json":
            place.executor.stop(run, grace_seconds=1)

    monkeypatch.setattr(Connection, "write", stops_meanwhile)
    with pytest.raises(AlreadyStartedError):
        place.start(run, secrets=SECRETS)
    assert not (place.there(run) / "secrets.json").exists()
    assert place.fake.jobs() == []


def test_secrets_stay_while_a_job_may_come_of_a_request_that_was_not_answered(place, monkeypatch):
    def is_not_heard(_self, *_args, **_changes):
        raise NotReachableError("it is not known whether the job was accepted")

    run = run_of(1)
    with monkeypatch.context() as patch:
        patch.setattr(Cluster, "submit", is_not_heard)
        with pytest.raises(ExecutorError):
            place.start(run, secrets=SECRETS)
    assert (place.there(run) / "secrets.json").exists()
    place.executor.stop(run, grace_seconds=1)
    assert not (place.there(run) / "secrets.json").exists()


def test_what_could_not_be_tidied_up_is_tried_again_also_after_a_restart(place, monkeypatch):
    run, other = run_of(1), run_of(2, job="job-2")
    place.start(run, secrets=SECRETS)
    place.start(other)
    number = place.fake.jobs()[0].id
    place.fake.start(number)
    place.fake.end(number, "NODE_FAIL")
    place.fake.move(100)
    ask = Connection.ask

    def cannot_tidy(self, request, *, timeout=120):
        if request["op"] == "tidy":
            raise NotReachableError("the host does not answer")
        return ask(self, request, timeout=timeout)

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "ask", cannot_tidy)
        assert place.state(run) is RunState.LOST
    assert (place.there(run) / "secrets.json").exists()
    assert not place.known(run).tidied
    place.restarted()
    place.executor.observe([other])  # nobody asks about the one that is over any more
    assert not (place.there(run) / "secrets.json").exists()
    assert place.known(run).tidied
    assert place.state(run) is RunState.LOST


def test_secrets_of_a_start_that_waited_for_a_limit_and_was_refused_then_are_removed(place, monkeypatch):
    run = run_of(1)
    place.fake.set(Faults(submit_limit=0))
    place.start(run, secrets=SECRETS)

    def refuses(_self, *_args, **_changes):
        raise SchedulerRefusedError(["sbatch"], 1, "error: Invalid account or account/partition")

    monkeypatch.setattr(Cluster, "submit", refuses)
    place.fake.move(60)
    assert place.state(run) is RunState.LOST
    assert not (place.there(run) / "secrets.json").exists()


# ---------------------------------------------------------------- what a start is given


def test_a_user_number_that_was_not_heard_is_asked_for_again(place, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Files, "run", lambda *_args, **_more: Completed(1, "", "fork failed"))
        place.start(run_of(1))
    place.start(run_of(2))
    assert [place.known(run_of(number)).user for number in (1, 2)] == [None, os.getuid()]


def test_a_chain_ends_after_as_many_idle_allocations_as_the_service_allows(place):
    place.restarted(most_idle=3)
    place.start(run_of(1))
    order = json.loads((place.there(run_of(1)) / "order.json").read_bytes())
    assert order["chain"]["most_idle"] == 3


# ---------------------------------------------------------------- clusters that cannot be asked any more


def away(place, monkeypatch, *, host="lab", python="python3", error=NotConnectedError):
    """From now on the cluster cannot be asked by that host and interpreter."""
    ask = Connection.ask

    def answers(connection, request, *, timeout=120):
        if (connection.address.host, connection.address.python) == (host, python):
            raise error("cannot be asked")
        return ask(connection, request, timeout=timeout)

    monkeypatch.setattr(Connection, "ask", answers)
    monkeypatch.setattr(Files, "exists", lambda _host, path: os.path.exists(path))


@pytest.mark.parametrize("error", [NotConnectedError, UnusableClusterError])
def test_a_start_of_which_nothing_was_ever_queued_has_no_chain_to_end(place, monkeypatch, error):
    run = run_of(1)
    away(place, monkeypatch, host=None, error=error)
    with pytest.raises(ExecutorError):
        place.start(run)
    place.executor.stop(run, grace_seconds=0)
    place.executor.end_chain(run)
    assert place.executor.open_chains() == []


def test_a_start_that_was_given_up_has_the_chain_of_those_before_it(place, monkeypatch):
    first = run_of(1)
    second = first._replace(token=next_token(first.token))
    place.start(first)
    follower = follow(place, first, second)
    with monkeypatch.context() as patch:
        away(place, patch, host=None)
        with pytest.raises(ExecutorError):
            place.start(second)
        place.executor.stop(second, grace_seconds=0)
        with pytest.raises(ExecutorError):
            place.executor.end_chain(second)
        assert first in place.executor.open_chains()
    place.executor.end_chain(second)
    assert place.fake.job(follower).state == "CANCELLED"
    assert place.executor.open_chains() == []


def changed(place, **changes):
    """The service after its profile was changed."""
    place.settings["a"] = place.settings["a"].model_copy(update=changes)
    executor = place.restarted()
    executor.storage._present = lambda: [ClusterAddress.of(one) for one in place.settings.values()]


@pytest.mark.parametrize("change", [{"python": "python3.12"}, {"host": "login2"}])
def test_the_end_of_a_chain_is_asked_for_as_the_profile_says_now(place, monkeypatch, change):
    changed(place, host="lab")
    run = run_of(1)
    place.start(run)
    follower = follow(place, run, run._replace(token=next_token(run.token)))
    away(place, monkeypatch)
    with pytest.raises(ExecutorError):
        place.executor.end_chain(run)
    changed(place, **change)
    place.executor.end_chain(run)
    assert place.fake.job(follower).state == "CANCELLED"
    assert place.executor.open_chains() == []


def test_another_host_of_the_same_root_that_has_not_the_jobs_folder_is_another_cluster(place, monkeypatch):
    changed(place, host="lab")
    run = run_of(1)
    place.start(run)
    away(place, monkeypatch)
    changed(place, host="login2")
    monkeypatch.setattr(Files, "exists", lambda _host, _path: False)
    with pytest.raises(ExecutorError):
        place.executor.end_chain(run)
    assert place.executor.open_chains() == [run]


def test_a_job_is_deleted_though_its_cluster_is_away_and_what_it_left_is_said_and_removed_later(
    place, monkeypatch, caplog
):
    changed(place, host="lab")
    run = run_of(1)
    place.start(run)
    there, here = place.there(run).parent.parent, place.jobs.paths("default", "job-1").folder
    with monkeypatch.context() as patch:
        away(place, patch)
        place.executor.storage.discard("default", "job-1")
        assert not here.exists()
        assert f"lab:{there}" in caplog.text
        assert place.executor.storage.remove_leftovers({"elsewhere"})
        assert not place.executor.storage.remove_leftovers({"lab"})
    assert [one.shown for one in place.restarted().storage.leftovers] == [f"lab:{there}"]
    other = run_of(2, job="job-2")
    place.start(other)
    place.executor.observe([other])
    assert list(place.executor.storage.leftovers) == []
    assert not there.exists()


def until(true, *, timeout):
    end = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_was_left_is_removed_after_a_restart_though_no_job_is_looked_at(place, monkeypatch):
    changed(place, host="lab")
    run, untidied = run_of(1), run_of(2, job="job-2")
    place.start(run)
    place.start(untidied, secrets=SECRETS)
    there = place.there(run).parent.parent
    with monkeypatch.context() as patch:
        away(place, patch)
        place.executor.storage.discard("default", "job-1")
        place.executor._untidied.add(untidied)
    again = place.restarted()
    again.warm()
    again.warm()
    until(lambda: not there.exists() and not (place.there(untidied) / "secrets.json").exists(), timeout=60)
    until(lambda: not list(again.storage.leftovers), timeout=60)
    again.close()


def test_each_host_is_asked_again_after_pauses_of_its_own_that_grow(tmp_path):
    asked = []

    class Storage:
        def ways_to_leftovers(self):
            return [ClusterAddress(host, "/scratch", "python3") for host in ("near", "away")]

        def remove_leftovers(self, hosts):
            asked.extend(hosts)
            return hosts != ["away"]

    now = [0.0]
    tidying = Tidying(Storage(), None, None, RunList(tmp_path / "none"), lambda: now[0])
    found = {}
    for minute in range(121):
        now[0] = minute * 30.0
        asked.clear()
        tidying.everywhere()
        for host in asked:
            found.setdefault(host, []).append(minute * 30)
    assert found["near"] == [minute * 30 for minute in range(121)]
    assert found["away"] == [0, 30, 90, 210, 450, 930, 1890]
    # a job on that host is looked at meanwhile
    asked.clear()
    tidying.on(["away"])
    assert asked == []


# ---------------------------------------------------------------- a clock that is set


DAY = 86_400


def test_a_start_that_was_not_heard_is_made_again_though_the_clock_was_set_back(place):
    run = run_of(1)
    place.fake.set(Faults(lost_requests=1, starts_jobs=False))
    place.connections.cluster._settle = 0.0
    place.ahead = DAY
    with contextlib.suppress(ExecutorError):
        place.start(run)
    place.ahead = 0.0
    assert place.state(run) is RunState.UNKNOWN
    place.fake.move(11)
    assert place.state(run) is RunState.ABSENT
    with contextlib.suppress(AlreadyStartedError):
        place.start(run)
    assert place.state(run) is RunState.QUEUED
    assert len(place.fake.jobs()) == 1


def test_a_limit_is_tried_again_though_the_clock_was_set_back(place):
    run = run_of(1)
    place.fake.set(Faults(submit_limit=0))
    place.ahead = DAY
    place.start(run)
    place.fake.move(60)
    assert place.state(run) is RunState.QUEUED  # asked again, and still full
    place.fake.set(Faults())
    place.ahead = 0.0
    place.fake.move(60)
    place.state(run)
    assert len(place.fake.jobs()) == 1


def test_a_job_that_the_scheduler_does_not_show_is_not_lost_since_the_clock_was_set_forward(place):
    run = run_of(1)
    place.start(run)
    number = place.fake.jobs()[0].id
    place.fake.start(number)
    run_files.make_claim(place.there(run), run_files.RunClaim(trees.identify(), place.fake.now()))
    assert place.state(run) is RunState.STARTING
    place.fake.set(Faults(invisible=[number]))
    place.fake.forget(number)
    assert place.state(run) is RunState.UNKNOWN
    place.ahead = DAY
    assert place.state(run) is RunState.UNKNOWN


# ---------------------------------------------------------------- a full storage root


def full(place, monkeypatch, *operations):
    """From now on the cluster has no space for these operations."""
    ask = Connection.ask

    def asked(self, request, *, timeout=120):
        if request["op"] in operations:
            raise StorageFullError("tmp: No space left on device", where="'lab'", path="/scratch/baton")
        return ask(self, request, timeout=timeout)

    monkeypatch.setattr(Connection, "ask", asked)


@pytest.mark.parametrize("operation", ["give_up", "deliver"])
def test_a_job_that_no_file_can_tell_to_end_is_ended_by_the_scheduler(place, monkeypatch, operation):
    run = run_of(1)
    place.start(run)
    job = place.fake.jobs()[0]
    if operation == "deliver":
        place.fake.start(job.id)
        run_files.make_claim(place.there(run), run_files.RunClaim(trees.identify(), place.fake.now()))
    full(place, monkeypatch, operation)
    place.executor.stop(run, grace_seconds=5)
    place.fake.move(100)
    seen = place.executor.observe([run])[run.token]
    assert (seen.state, seen.asked) == (RunState.LOST, True)
    assert place.fake.jobs()[0].state == "CANCELLED"
    assert seen.fallback == (
        "no space is left on the storage of its cluster for the request of its end, so its job "
        f"{job.id} is cancelled by the scheduler"
    )


def test_a_pause_that_cannot_be_written_makes_the_training_save_and_leave(place, monkeypatch):
    run = run_of(1)
    place.start(run)
    place.fake.start(place.fake.jobs()[0].id)
    full(place, monkeypatch, "deliver")
    sent = []
    monkeypatch.setattr(Cluster, "signal", lambda _self, job, name: sent.append((job.id, name)))
    with pytest.raises(ExecutorError, match="no space is left at /scratch/baton on 'lab'"):
        place.executor.withdraw_pause(run, seq=1, by="ada", at=1.0)
    assert (sent, place.executor.last_request(run)) == ([], None)
    place.executor.request_pause(run, seq=2, by="ada", at=2.0)
    assert sent == [(place.fake.jobs()[0].id, "TERM")]
    assert place.executor.last_request(run) == 2
    assert place.executor.observe([run])[run.token].fallback.endswith("a pause, so it is asked by SIGTERM")


def test_a_refusal_names_what_was_asked_for(place, monkeypatch):
    def refuses(*_args, **_changes):
        raise SchedulerRefusedError(["sbatch"], 1, "Requested node configuration is not available")

    monkeypatch.setattr(Cluster, "submit", refuses)
    needs = ResourceNeeds(nodes=1, gpus=16, cpus=7.5, memory_bytes=900 << 30)
    with pytest.raises(NeverPossibleError) as said:
        place.start(run_of(1), needs=needs)
    assert str(said.value).endswith(
        "is not available; it asks for num_nodes 1, num_gpus 16, cpus 8, memory 900 GiB"
    )
