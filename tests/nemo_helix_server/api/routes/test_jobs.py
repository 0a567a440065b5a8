"""Routes of jobs: envelopes, filters, names and ids, and a sentence with every refusal."""

import pytest
from tests.nemo_helix_server.api.service_bench import JOBS, job_body

from nemo_helix_server.jobs.states import StatusEvent

pytestmark = pytest.mark.services

PROFILES = "/apis/jobs/v2/execution-profiles"
RUNNING = (StatusEvent.ACCEPTED, StatusEvent.STARTED)


@pytest.fixture
def client(bench):
    return bench.client()


def made(client, name="tune", **changes):
    answer = client.post(JOBS, json=job_body(name, **changes))
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_a_job_is_made_and_found_by_name_and_by_id(client):
    job = made(client)
    assert job["status"] == "created"
    assert job["fileset"] == "job-fileset-tune"
    for name in (job["name"], job["id"]):
        assert client.get(f"{JOBS}/{name}").json()["id"] == job["id"]
    assert client.get(f"/apis/jobs/v2/workspaces/-/jobs/{job['id']}").json()["id"] == job["id"]


def test_the_same_request_gives_the_same_job(client):
    first = made(client)
    again = client.post(JOBS, json=job_body())
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    other = client.post(JOBS, json=job_body(spec={"backend": "y"}))
    assert other.status_code == 409
    assert other.headers["x-should-retry"] == "false"
    assert "'tune'" in other.json()["detail"] or "tune" in other.json()["detail"]


def test_a_key_gives_the_same_job_without_a_name(client):
    body = job_body()
    del body["name"]
    first, again = (client.post(JOBS, json=body, headers={"Idempotency-Key": "k1"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert client.post(JOBS, json=body, headers={"Idempotency-Key": "k2"}).json()["id"] != first.json()["id"]
    changed = client.post(JOBS, json={**body, "source": "z"}, headers={"Idempotency-Key": "k1"})
    assert changed.status_code == 409


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"name": "Tune"}, "lowercase"),
        ({"name": "a" * 60}, "51"),
        ({"nmae": "x"}, "nmae"),
        ({"platform_spec": {"steps": []}}, "steps"),
        (
            {
                "platform_spec": {
                    "steps": [
                        {
                            "name": "aa",
                            "executor": {
                                "provider": "gpu",
                                "profile": "moon",
                                "container": {"command": ["x"]},
                            },
                        }
                    ]
                }
            },
            "gpu/moon",
        ),
        ({"control": {"pause_ttl_seconds": 2_592_001}}, "2592000"),
        ({"control": {"pause_ttl_seconds": -1}}, "pause_ttl_seconds"),
        ({"spec": []}, "spec"),
    ],
)
def test_what_cannot_be_accepted_is_named(client, change, word):
    answer = client.post(JOBS, json=job_body(**change))
    assert answer.status_code == 422, answer.text
    document = answer.json()
    sentence = document.get("message") or document["detail"]
    assert word in sentence
    assert "\n" not in sentence


def test_a_validation_error_never_repeats_what_was_sent(client):
    answer = client.post(
        "/apis/secrets/v2/workspaces/default/secrets", json={"name": "x", "value": {"hidden": "hunter2"}}
    )
    assert answer.status_code == 422
    assert "hunter2" not in answer.text


def test_a_list_echoes_page_sort_and_filter(client, bench):
    for number in range(5):
        bench.clock.advance(1)
        made(client, f"job-{number}", source="even" if number % 2 == 0 else "odd")
    answer = client.get(
        JOBS, params={"filter[source]": "even", "page_size": 2, "page": 2, "sort": "created_at"}
    )
    document = answer.json()
    assert [job["name"] for job in document["data"]] == ["job-4"]
    assert document["pagination"] == {
        "page": 2,
        "page_size": 2,
        "current_page_size": 1,
        "total_pages": 2,
        "total_results": 3,
    }
    assert (document["sort"], document["filter"]) == ("created_at", {"source": "even"})


@pytest.mark.parametrize(
    "query",
    [
        {"filter[status]": "active"},
        {"filter[status][in]": "active,paused"},
        {"filter": '{"status": {"$in": ["active"]}}'},
        {"filter": 'status:"active" AND source:"test"'},
        {"filter[spec.backend]": "x", "filter[status]": "active"},
        {"filter[name][like]": "run%", "sort": "-updated_at"},
    ],
)
def test_a_filter_may_be_spelled_in_three_ways(client, bench, query):
    made(client, "runs")
    made(client, "waits")
    bench.happen("runs", *RUNNING)
    document = client.get(JOBS, params=query).json()
    assert [job["name"] for job in document["data"]] == ["runs"], document
    assert document["pagination"]["total_results"] == 1


@pytest.mark.parametrize(
    "query",
    [
        {"filter[status]": "acitve"},
        {"filter[colour]": "red"},
        {"filter": "{"},
        {"filter": '{"status": {"$near": 1}}'},
        {"filter[created_at][gte]": "yesterday"},
        {"filter[": "x"},
        {"filter.status": "error"},
        {"status": "error"},
        {"page": "0"},
        {"page": "9" * 30},
        {"page_size": "x"},
        {"sort": "colour"},
    ],
)
def test_a_query_that_means_nothing_is_refused_in_a_sentence(client, query):
    answer = client.get(JOBS, params=query)
    assert answer.status_code in {400, 422}
    sentence = answer.json().get("message") or answer.json()["detail"]
    assert isinstance(sentence, str)
    assert "\n" not in sentence


def test_a_job_that_is_not_there_is_a_404_everywhere(client):
    paths = [
        "",
        "/status",
        "/logs",
        "/steps",
        "/attempts",
        "/results",
        "/checkpoints",
        "/transitions",
        "/events",
    ]
    for path in paths:
        answer = client.get(f"{JOBS}/none{path}")
        assert answer.status_code == 404, path
        assert isinstance(answer.json()["detail"], str)
    for action in ("pause", "resume", "cancel", "rerun"):
        assert client.post(f"{JOBS}/none/{action}").status_code == 404
    assert client.request("DELETE", f"{JOBS}/none").status_code == 404
    assert client.request("PATCH", f"{JOBS}/none/control", json={"pause_ttl_seconds": 1}).status_code == 404


def test_the_life_of_a_job_through_its_routes(client, bench):
    made(client)
    refused = client.post(f"{JOBS}/tune/pause")
    assert refused.status_code == 409
    assert refused.headers["x-should-retry"] == "false"
    assert "download" in refused.json()["detail"]
    bench.happen("tune", *RUNNING, StatusEvent.FINISHED, *RUNNING)
    assert client.post(f"{JOBS}/tune/pause").json()["status"] == "pausing"
    bench.happen("tune", StatusEvent.CHECKPOINT_VERIFIED)
    paused = client.get(f"{JOBS}/tune").json()
    assert paused["status"] == "paused"
    assert paused["storage_expires_at"] is not None
    changed = client.request("PATCH", f"{JOBS}/tune/control", json={"pause_ttl_seconds": 1_209_600}).json()
    assert changed["control"]["pause_ttl_seconds"] == 1_209_600
    assert changed["storage_expires_at"] > paused["storage_expires_at"]
    assert client.post(f"{JOBS}/tune/rerun").status_code == 409
    assert client.post(f"{JOBS}/tune/resume").json()["status"] == "resuming"
    bench.happen("tune", *RUNNING, StatusEvent.FAILED)
    assert client.post(f"{JOBS}/tune/resume").status_code == 409
    again = client.post(f"{JOBS}/tune/rerun")
    assert again.json()["status"] == "created"
    attempts = client.get(f"{JOBS}/tune/attempts").json()
    assert [(entry["seq"], entry["is_current"]) for entry in attempts["data"]] == [(1, True), (0, False)]
    assert (
        client.get(f"{JOBS}/tune/attempts", params={"filter[status]": "error"}).json()["data"][0]["seq"] == 0
    )
    assert client.request("DELETE", f"{JOBS}/tune").status_code == 409
    assert client.post(f"{JOBS}/tune/cancel").json()["status"] == "cancelled"
    assert client.request("DELETE", f"{JOBS}/tune").status_code == 204
    assert client.get(f"{JOBS}/tune").json()["status"] == "deletion_pending"
    story = client.get(f"{JOBS}/tune/transitions").json()["data"]
    assert [row["to"] for row in story if row["step"] is None][-2:] == ["cancelled", "deletion_pending"]


def test_what_a_workload_reads_and_writes(client, bench):
    made(client)
    bench.happen("tune", *RUNNING, StatusEvent.FINISHED, *RUNNING)
    client.post(f"{JOBS}/tune/pause")
    step = client.get(f"{JOBS}/tune/steps/training").json()
    assert step["status"] == "pausing"
    task = client.get(f"{JOBS}/tune/steps/training/tasks").json()["data"][0]["name"]
    body = {"status": "active", "status_details": {"step": 7}}
    written = client.request("PUT", f"{JOBS}/tune/steps/training/tasks/{task}", json=body)
    assert written.json()["status_details"]["step"] == 7
    assert client.get(f"{JOBS}/tune").json()["status_details"]["step"] == 7
    assert (
        client.request("PATCH", f"{JOBS}/tune/status-details", json={"epoch": 2}).json()["status_details"][
            "epoch"
        ]
        == 2
    )
    stale = client.request(
        "PATCH", f"{JOBS}/tune/attempts/current/status-details", json={}, params={"expected_step_id": "other"}
    )
    assert stale.status_code == 409
    tree = client.get(f"{JOBS}/tune/status").json()
    assert [entry["name"] for entry in tree["steps"]] == ["download", "training"]
    assert tree["error_details"] is None
    moved = client.request("PATCH", f"{JOBS}/tune/steps/training/status", json={"status": "created"})
    assert moved.status_code == 409
    across = client.get(
        "/apis/jobs/v2/workspaces/-/jobs/-/steps", params={"filter[status]": "pausing,active"}
    ).json()
    assert [entry["name"] for entry in across["data"]] == ["training"]


def test_results_are_named_and_downloaded_and_lead_nowhere_else(client, bench):
    job = made(client)
    storage = bench.data_dir / "jobs" / "default" / job["id"] / "storage"
    (storage / "model.bin").write_bytes(b"weights")
    answer = client.post(f"{JOBS}/tune/results/model", json={"artifact_url": "model.bin"})
    assert answer.status_code == 201
    assert client.post(f"{JOBS}/tune/results/model", json={"artifact_url": "model.bin"}).status_code == 409
    download = client.get(f"{JOBS}/tune/results/model/download")
    assert (download.content, download.headers["content-length"]) == (b"weights", "7")
    assert client.get(answer.json()["download_url"]).content == b"weights"
    for url in ("../x", "/etc/passwd", "fileset://other/x", "file:///etc/passwd"):
        assert client.post(f"{JOBS}/tune/results/bad", json={"artifact_url": url}).status_code == 422
    (storage / "model.bin").unlink()
    (storage / "model.bin").symlink_to("/etc/passwd")
    assert client.get(f"{JOBS}/tune/results/model/download").status_code == 404
    assert [entry["name"] for entry in client.get(f"{JOBS}/tune/results").json()["data"]] == ["model"]


def test_everything_is_paused_that_can_be(client, bench):
    for name in ("one", "two"):
        made(client, name)
        bench.happen(name, *RUNNING, StatusEvent.FINISHED, *RUNNING)
    made(client, "early")
    bench.happen("early", *RUNNING)
    answer = client.post("/apis/jobs/v2/workspaces/-/pause-all").json()
    assert sorted(answer["pausing"]) == ["one", "two"]
    assert [entry["name"] for entry in answer["refused"]] == ["early"]
    assert "download" in answer["refused"][0]["detail"]


def test_pages_of_logs_refuse_what_contradicts_itself(client):
    made(client)
    assert client.get(f"{JOBS}/tune/logs").json() == {
        "data": [],
        "total": 0,
        "next_page": None,
        "prev_page": None,
    }
    assert client.get(f"{JOBS}/tune/logs", params={"tail": 1, "limit": 1}).status_code == 400
    assert client.get(f"{JOBS}/tune/logs", params={"page_cursor": "x"}).status_code == 422
    assert client.get(f"{JOBS}/tune/logs", params={"limit": 0}).status_code == 422
    assert client.get(f"{JOBS}/tune/logs", params={"attempt_id": "other"}).status_code == 404


def test_unknown_paths_and_methods_are_sentences(client):
    assert client.get("/nothing").status_code == 404
    answer = client.request("PUT", JOBS, json={})
    assert answer.status_code == 405
    assert answer.headers["allow"]
    for found in (client.get("/nothing"), answer):
        assert isinstance(found.json()["detail"], str)


def test_health_and_status_say_that_the_service_works(client):
    made(client)
    assert client.get("/health").json()["status"] == "ok"
    document = client.get("/status").json()
    assert document["jobs"] == {"created": 1}
    profiles = client.get(PROFILES).json()
    assert {"provider": "subprocess", "profile": "default", "backend": "subprocess"}.items() <= profiles[
        -1
    ].items()


def test_a_profile_is_checked_without_a_job(client):
    found = client.post(f"{PROFILES}/cpu/default/check").json()
    assert (found["provider"], found["profile"], found["backend"]) == ("cpu", "default", "subprocess")
    assert {"devices", "slots", "disk", "engine trl"} <= {one["about"] for one in found["findings"]}
    without = client.post(f"{PROFILES}/gpu/default/check").json()
    assert without["ok"] is False
    unknown = client.post(f"{PROFILES}/gpu/alps/check")
    assert unknown.status_code == 404
    assert unknown.json()["detail"].startswith(
        "there is no execution profile 'gpu/alps'; there are cpu/default"
    )
    assert client.get("/status").json()["jobs"] == {}
