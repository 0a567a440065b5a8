"""A service that keeps steps to their own files has none run where it cannot, unless the operator lets it."""

import pytest
from tests.nemo_helix_server.api.service_bench import Bench, job_body

from nemo_helix_server.executors.background import ObservedInBackground

pytestmark = pytest.mark.slow

JOBS = "/apis/jobs/v2/workspaces/default/jobs"
REFUSED = "this service keeps steps to their own files, and on a cluster it cannot"


@pytest.fixture
def made(tmp_path):
    """Makes services on one data directory, whose profile `cpu/cluster` is one of a Slurm cluster."""
    benches = []

    def make(*, isolated, **config):
        while benches:
            benches.pop().close()
        root = str(tmp_path / "shared")
        profile = {"provider": "cpu", "profile": "cluster", "backend": "slurm"}
        executors = [{**profile, "config": {"root": root, "python": "python3", **config}}]
        leases = {"folder": tmp_path / "leases", "devices": []}
        jobs = {"executors": executors, "leases": leases}
        benches.append(Bench(tmp_path / "data", isolated=isolated, jobs=jobs))
        return benches[0]

    yield make
    for bench in benches:
        bench.close()


def on(profile, name="tune"):
    body = job_body(name)
    container = {"command": ["true"]}
    for step in body["platform_spec"]["steps"]:
        step["executor"] = {"provider": "cpu", "profile": profile, "container": container}
    return body


def created(bench, profile, name="tune"):
    return bench.client().post(JOBS, json=on(profile, name))


def test_a_job_of_a_cluster_is_refused_and_one_of_this_machine_is_not(made):
    bench = made(isolated=True)
    answer = created(bench, "cluster")
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"the step download: {REFUSED}")
    assert "shares_user: true" in answer.json()["detail"]
    assert bench.client().get(JOBS).json()["data"] == []
    assert created(bench, "default").status_code == 201


@pytest.mark.parametrize("service", [{"isolated": False}, {"isolated": True, "shares_user": True}])
def test_where_nobody_is_kept_apart_or_the_operator_lets_it_the_job_is_started(made, service, monkeypatch):
    launches = []
    monkeypatch.setattr(ObservedInBackground, "start", lambda _self, _run, launch: launches.append(launch))
    bench = made(**service)
    assert created(bench, "cluster").status_code == 201
    bench.service.controller.run_once()
    assert [launch.file_access for launch in launches] == [None]


def test_a_job_that_was_made_before_is_not_started(made):
    assert created(made(isolated=False), "cluster").status_code == 201
    bench = made(isolated=True)
    bench.service.controller.run_once()
    job = bench.client().get(f"{JOBS}/tune").json()
    assert job["status"] == "error"
    assert REFUSED in str(job["error_details"])


@pytest.mark.parametrize(
    ("service", "verdicts"),
    [
        ({"isolated": True}, ["problem"]),
        ({"isolated": True, "shares_user": True}, ["warning"]),
        ({"isolated": False}, []),
    ],
)
def test_a_check_of_the_profile_says_it(made, service, verdicts):
    found = made(**service).parts.profile_checks.check("cpu", "cluster")["findings"]
    about = [finding for finding in found if finding["about"] == "file access"]
    assert [finding["verdict"] for finding in about] == verdicts
    assert all("files and secrets" in finding["text"] for finding in about)


def test_profiles_that_keep_steps_apart_have_nothing_to_say(made):
    found = made(isolated=True).parts.profile_checks.check("cpu", "default")["findings"]
    assert not [finding for finding in found if finding["about"] == "file access"]
