"""Which service has a job's folder, where several ask on one storage root."""

import json
from pathlib import Path

import pytest

from nemo_helix_server.executors.slurm.on_cluster import holders
from nemo_helix_server.executors.slurm.on_cluster.holders import ServiceMark
from nemo_helix_server.executors.slurm.on_cluster.requests import _OPERATIONS, answer

ANN, BEN = ServiceMark("a", 0, "that of /ann on login1"), ServiceMark("b", 0, "that of /ben on login2")


@pytest.fixture
def asked(tmp_path):
    """What a service is answered, about a run of a job that there is."""
    run = tmp_path / "jobs" / "job-1" / "runs" / "task-1"
    run.mkdir(parents=True)

    def ask(service, op, **more):
        given = {"op": op, "service": list(service), "root": str(tmp_path), "run": str(run), **more}
        return answer(json.loads(json.dumps(given)))

    return ask


def of_one_run(tmp_path, **more):
    run = tmp_path / "jobs" / "job-1" / "runs" / "task-1"
    return [{"token": "task-1", "run": str(run), "trainer": str(run / "t"), "have": {}, **more}]


def requests_for(tmp_path):
    job = tmp_path / "jobs" / "job-1"
    return {
        "give_up": {},
        "deliver": {"name": "stop.json", "data": "{}"},
        "hold": {"folder": str(job / "storage" / "training" / "checkpoints" / "3"), "id": "x", "hold": True},
        "end_chain": {},
        "remove": {"paths": [str(job)]},
        "prepare": {"folders": [str(job / "storage")]},
        "missing": {"folder": str(job / "storage"), "files": [], "cache": str(tmp_path / "cache")},
        "settle": {"folder": str(job / "storage"), "files": [], "cache": str(tmp_path / "cache")},
        "may_act": {"folder": str(job)},
    }


def test_every_request_about_another_services_job_is_refused_and_changes_nothing(asked, tmp_path):
    asked(ANN, "prepare", folders=[])
    before = sorted(tmp_path.rglob("*"))
    for op, more in requests_for(tmp_path).items():
        refused = asked(BEN, op, **more)
        assert refused["other_service"], op
        assert (
            "belongs to another service, that of /ann on login1; this one, that of /ben" in refused["error"]
        )
    assert sorted(tmp_path.rglob("*")) == before
    assert "error" not in asked(ANN, "may_act")


def test_no_operation_is_left_out():
    assert set(requests_for(Path("/x"))) | {"look", "tidy"} == set(_OPERATIONS)


def test_a_look_at_several_runs_leaves_out_those_of_other_services(asked, tmp_path):
    asked(ANN, "may_act")
    seen = asked(BEN, "look", runs=of_one_run(tmp_path))
    assert seen["runs"] == {}
    assert "belongs to another service" in seen["others"]["task-1"]
    assert list(asked(ANN, "look", runs=of_one_run(tmp_path))["runs"]) == ["task-1"]


def test_what_a_start_leaves_is_removed_for_its_own_service_alone(asked, tmp_path):
    secrets = tmp_path / "jobs" / "job-1" / "runs" / "task-1" / "secrets.json"
    secrets.write_text("{}")
    asked(ANN, "may_act")
    assert asked(BEN, "tidy", runs=[str(secrets.parent)]) == {}
    assert secrets.exists()
    asked(ANN, "tidy", runs=[str(secrets.parent)])
    assert not secrets.exists()


def test_a_job_without_a_mark_is_of_the_service_that_asks_first(asked, tmp_path):
    job = tmp_path / "jobs" / "job-1"
    assert holders.read(job) is None
    asked(BEN, "give_up")
    assert holders.read(job) == BEN
    assert asked(ANN, "give_up")["other_service"]


def test_who_has_taken_over_has_the_jobs_and_the_original_has_them_no_more(asked, tmp_path):
    asked(ANN, "may_act")
    later = BEN._replace(term=1000)
    assert asked(later, "may_act") == {}
    assert holders.read(tmp_path / "jobs" / "job-1") == later
    assert asked(ANN, "may_act")["other_service"]


def test_a_damaged_mark_is_written_again_and_other_folders_need_none(asked, tmp_path):
    (tmp_path / "jobs" / "job-1" / "service.json").write_text("{")
    assert asked(ANN, "may_act") == {}
    assert holders.read(tmp_path / "jobs" / "job-1") == ANN
    assert asked(BEN, "prepare", run=None, folders=[str(tmp_path / "images")])["begun"] is False
    assert not (tmp_path / "images" / "service.json").exists()
