"""What a client sends, and what it gives back: against a real server on loopback."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import httpx
import pytest
from tests.nemo_helix_plugin.client.scripted import Answer, Scripted, job, line

from nemo_helix_plugin.client import errors, groups
from nemo_helix_plugin.client.client import AsyncNemoClient, NemoClient
from nemo_helix_plugin.client.retries import RetryPolicy
from nemo_helix_plugin.jobs import types

ROOT = "/apis/jobs/v2/workspaces/default/jobs"
NAME = "automodel-a1b2c3d4e5f6"
JOB = f"{ROOT}/{NAME}"


def client_of(service: Scripted, **options: object) -> NemoClient:
    return NemoClient(base_url=service.base_url, workspace="default", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["pause", "resume", "cancel"])
def test_an_action_is_posted_to_the_jobs_route_and_answers_with_the_job(
    service: Scripted, method: str
) -> None:
    service.on("POST", f"{JOB}/{method}", Answer(job("pausing")))
    with client_of(service) as client:
        answer = getattr(client.jobs, f"{method}_job")(name=NAME)
    assert answer.data().status is types.HelixJobStatus.PAUSING
    assert answer.json()["workspace"] == "default"


@pytest.mark.parametrize("word", ["job", "name"])
def test_rerun_takes_the_job_as_on_the_page_and_as_everywhere_else(service: Scripted, word: str) -> None:
    service.on("POST", f"{JOB}/rerun", Answer(job("created")))
    with client_of(service) as client:
        client.jobs.rerun_job(**{word: NAME}, checkpoint="ckpt-40-0123456789")
    assert service.asked[0].query == {"checkpoint": ["ckpt-40-0123456789"]}


def test_control_sends_only_what_was_set(service: Scripted) -> None:
    service.on("PATCH", f"{JOB}/control", Answer(job("paused")))
    with client_of(service) as client:
        client.jobs.update_job_control(name=NAME, body=types.JobControl(pause_ttl_seconds=1209600))
        client.jobs.update_job_control(name=NAME, body={"failed_ttl_seconds": 0})
    assert [asked.body for asked in service.asked] == [
        {"pause_ttl_seconds": 1209600},
        {"failed_ttl_seconds": 0},
    ]


def test_a_body_that_is_not_right_is_refused_before_anything_is_sent(service: Scripted) -> None:
    with client_of(service) as client, pytest.raises(ValueError, match="pause_ttl_second"):
        client.jobs.update_job_control(name=NAME, body={"pause_ttl_second": 1})
    assert service.asked == []


def test_create_carries_a_key_so_that_its_repetition_makes_no_second_job(service: Scripted) -> None:
    service.on("POST", ROOT, Answer(status=503), Answer(job("created"), 201))
    body = {
        "source": "test",
        "spec": {},
        "platform_spec": {
            "steps": [{"name": "work", "executor": {"provider": "subprocess", "command": ["x"]}}]
        },
    }
    with client_of(service, retry=RetryPolicy(backoff_seconds=0)) as client:
        client.jobs.create_job(body=body)
        client.jobs.create(**body, idempotency_key="mine")
    keys = [asked.headers["idempotency-key"] for asked in service.requests("POST", ROOT)]
    assert keys[0] == keys[1]
    assert keys[2] == "mine"
    assert len(keys) == 3


def pages(service: Scripted, total: int, size: int) -> None:
    def rule(asked: object) -> Answer | None:
        assert isinstance(asked.query, dict)  # type: ignore[attr-defined]
        number = int(asked.query.get("page", ["1"])[0])  # type: ignore[attr-defined]
        start = (number - 1) * size
        found = [job(name=f"job-{index}") for index in range(start, min(start + size, total))]
        paging = {
            "page": number,
            "page_size": size,
            "current_page_size": len(found),
            "total_pages": -(-total // size),
            "total_results": total,
        }
        return Answer({"data": found, "pagination": paging, "sort": "-created_at", "filter": None})

    service.by_rule = rule  # type: ignore[assignment]


def test_items_are_counted_without_fetching_them_and_come_from_all_pages(service: Scripted) -> None:
    pages(service, total=7, size=3)
    with client_of(service) as client:
        listed = client.jobs.list_jobs(query_params=types.ListJobsQueryParams(page_size=3))
        assert len(listed.items()) == 7
        assert len(service.asked) == 1
        assert [item.name for item in listed.items()] == [f"job-{index}" for index in range(7)]
        assert len(service.asked) == 3
    assert [item.name for item in listed.page().items] == ["job-0", "job-1", "job-2"]
    assert listed.page().metadata.total_results == 7
    assert {asked.query["page_size"][0] for asked in service.asked} == {"3"}


def test_items_begin_at_the_page_that_was_asked_for(service: Scripted) -> None:
    pages(service, total=7, size=3)
    with client_of(service) as client:
        items = client.jobs.list(page=3).items()
        assert (len(items), [item.name for item in items]) == (1, ["job-6"])


def test_a_job_that_moved_to_a_later_page_meanwhile_comes_once(service: Scripted) -> None:
    def rule(asked: object) -> Answer:
        number = int(asked.query.get("page", ["1"])[0])  # type: ignore[attr-defined]
        names = {1: ["a", "b"], 2: ["b", "c"]}[number]
        paging = {"page": number, "page_size": 2, "total_pages": 2, "total_results": 4}
        return Answer({"data": [job(name=name) for name in names], "pagination": paging})

    service.by_rule = rule  # type: ignore[assignment]
    with client_of(service) as client:
        assert [item.name for item in client.jobs.list_jobs().items()] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("given", "sent"),
    [({"status": "error"}, '{"status":"error"}'), ('status:"error"', 'status:"error"')],
)
def test_a_filter_goes_out_as_text_or_as_json(service: Scripted, given: object, sent: str) -> None:
    pages(service, total=0, size=10)
    with client_of(service) as client:
        client.jobs.list_jobs(query_params={"filter": given, "sort": "-created_at"}, workspace="-")
    assert service.asked[0].path == "/apis/jobs/v2/workspaces/-/jobs"
    assert service.asked[0].query == {"filter": [sent], "sort": ["-created_at"]}


def test_a_bare_list_is_a_page_of_its_own(service: Scripted) -> None:
    profile = {"provider": "cpu", "profile": "default", "backend": "subprocess", "config": {}}
    service.on("GET", "/apis/jobs/v2/execution-profiles", Answer([profile]))
    with client_of(service) as client:
        profiles = client.jobs.get_execution_profiles()
        assert [item.backend for item in profiles.items()] == ["subprocess"]
        assert profiles.page().metadata.total_results == 1


def test_log_lines_come_from_all_pages_and_are_counted(service: Scripted) -> None:
    def rule(asked: object) -> Answer:
        cursor = asked.query.get("page_cursor", ["0"])[0]  # type: ignore[attr-defined]
        following = {"0": "2", "2": "4", "4": None}[cursor]
        numbers = range(int(cursor), min(int(cursor) + 2, 5))
        return Answer({"data": [line(n) for n in numbers], "total": 5, "next_page": following})

    service.by_rule = rule  # type: ignore[assignment]
    with client_of(service) as client:
        lines = client.jobs.list_job_logs(name=NAME).items()
        assert len(lines) == 5
        assert [entry.message for entry in lines] == [f"line {n}" for n in range(5)]


def test_a_download_is_read_whole_by_pieces_or_into_a_file(service: Scripted, tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    path = f"{JOB}/results/model/download"
    service.on("GET", path, Answer(content, headers={"content-type": "application/x-tar"}))
    with client_of(service) as client:
        result = client.jobs.download_job_result(job=NAME, name="model")
        assert service.asked == []
        assert result.read() == content
        with result.stream() as answer:
            assert b"".join(answer.iter_bytes(999)) == content
        assert result.save(tmp_path / "model.tar").read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.tar"]


def test_a_download_that_fails_leaves_no_file(service: Scripted, tmp_path: Path) -> None:
    with client_of(service) as client, pytest.raises(errors.NotFoundError, match="nothing at"):
        client.jobs.results.download(job=NAME, name="model").save(tmp_path / "model.tar")
    assert list(tmp_path.iterdir()) == []


def test_events_are_read_as_they_come_and_unknown_ones_passed_over(service: Scripted) -> None:
    def play(send: object) -> None:
        send(": hello\n\n")  # type: ignore[operator]
        send('event: job\ndata: {"id":"j1","name":"a","workspace":"w","status":"wobbling","new":1}\n\n')  # type: ignore[operator]
        send("event: weather\ndata: rain\n\nevent: job\ndata: not json\n\n")  # type: ignore[operator]
        send('id: 7\nevent: transition\ndata: {"seq":7,"job":"a","from":"paused",\ndata: "to":"resuming",')  # type: ignore[operator]
        send('"at":"2026-11-01T10:00:00Z"}\n\n')  # type: ignore[operator]

    service.on("GET", f"{JOB}/events", Answer(stream=play))
    with client_of(service) as client:
        stream = client.jobs.stream_events(name=NAME, logs=True, tail=5, since="3")
        events = list(stream)
    assert [event.kind for event in events] == ["job", "transition"]
    assert events[0].status == "wobbling"  # type: ignore[union-attr]
    assert stream.last_id == "7"
    assert service.asked[0].headers["last-event-id"] == "3"
    assert service.asked[0].query == {"logs": ["true"], "tail": ["5"]}


def test_names_are_quoted_and_cannot_lead_elsewhere(service: Scripted) -> None:
    with client_of(service) as client:
        with pytest.raises(errors.NotFoundError):
            client.jobs.get_job(name="../secrets?x=1#y")
        for name in ("", ".", ".."):
            with pytest.raises(ValueError, match="names nothing"):
                client.jobs.delete_job(name=name)
        with pytest.raises(TypeError, match="must be a str, not int"):
            client.jobs.get_job(name=7)  # type: ignore[arg-type]
    assert [asked.path for asked in service.asked] == [f"{ROOT}/../secrets?x=1#y"]
    assert service.asked[0].query == {}


def test_a_missing_workspace_is_said_before_anything_is_sent(service: Scripted) -> None:
    with NemoClient(base_url=service.base_url) as client:
        with pytest.raises(ValueError, match="no workspace is given"):
            client.jobs.pause_job(name=NAME)
        service.on("POST", f"{JOB}/pause", Answer(job()))
        client.with_workspace("default").jobs.pause_job(name=NAME)
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda jobs: jobs.pause_job(NAME), r"pause_job\(\) takes named arguments only: pause_job\(name=…"),
        (lambda jobs: jobs.pause_job(), r"pause_job\(\): missing a required argument: 'name'"),
        (lambda jobs: jobs.pause_job(job=NAME), r"pause_job\(\): missing a required argument"),
        (lambda jobs: jobs.rerun_job(), r"takes the job's name once"),
        (lambda jobs: jobs.rerun_job(job=NAME, name=NAME), r"takes the job's name once"),
        (lambda jobs: jobs.create(body={}, source="x"), r"body or fields, not both: source"),
    ],
)
def test_misuse_says_how_the_method_is_called(service: Scripted, call: object, sentence: str) -> None:
    with client_of(service) as client, pytest.raises(TypeError, match=sentence):
        call(client.jobs)  # type: ignore[operator]
    assert service.asked == []


def test_derived_clients_share_the_connection_and_differ_in_what_was_asked(service: Scripted) -> None:
    service.on("POST", f"{JOB}/pause", Answer(job()))
    with client_of(service, default_headers={"X-Who": "me"}) as client:
        derived = client.with_headers({"X-Why": "test"}).with_options(auth="token", timeout=5)
        derived.jobs.pause_job(name=NAME)
        groups.JobsClient.from_client(derived).pause_job(name=NAME)
        NemoClient.from_client(client).close()  # does not own the connection
        client.jobs.pause_job(name=NAME)
    sent = [
        (a.headers.get("x-who"), a.headers.get("x-why"), a.headers.get("authorization"))
        for a in service.asked
    ]
    assert sent == [("me", "test", "Bearer token")] * 2 + [("me", None, None)]


def test_a_token_provider_is_asked_for_each_request(service: Scripted) -> None:
    service.on("POST", f"{JOB}/pause", Answer(job()))
    tokens = iter(["one", "two"])
    with client_of(service, auth=lambda: next(tokens)) as client:
        client.jobs.pause_job(name=NAME)
        client.jobs.pause_job(name=NAME)
    assert [asked.headers["authorization"] for asked in service.asked] == ["Bearer one", "Bearer two"]


def test_a_transport_takes_the_place_of_the_network() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=job("paused")))
    with NemoClient(transport=transport, workspace="default") as client:
        assert client.jobs.get_job(name=NAME).data().status == "paused"


def test_the_client_does_the_same_with_await(service: Scripted) -> None:
    service.on("POST", f"{JOB}/pause", Answer(status=503), Answer(job("pausing")))
    service.on("GET", f"{JOB}/results/model/download", Answer(b"bytes"))

    async def main() -> None:
        with client_of(service) as client:
            asynchronous = client.to_async()
        async with asynchronous as client_:
            assert isinstance(client_, AsyncNemoClient)
            paused = await client_.with_retry(RetryPolicy(backoff_seconds=0)).jobs.pause_job(name=NAME)
            assert paused.data().status == "pausing"
            download = await client_.jobs.download_job_result(job=NAME, name="model")
            assert await download.read() == b"bytes"
            pages(service, total=5, size=2)
            items = (await client_.jobs.list_jobs()).items()
            assert len(items) == 5
            assert [item.name async for item in items] == [f"job-{index}" for index in range(5)]
            with pytest.raises(TypeError, match="named arguments only"):
                await client_.jobs.pause_job(NAME)  # type: ignore[misc]

    asyncio.run(main())


def test_both_kinds_of_clients_have_the_same_methods_and_all_names_of_the_page() -> None:
    def methods(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert methods(groups.JobsClient) - {"open"} == methods(groups.AsyncJobsClient)
    assert methods(NemoClient) - methods(AsyncNemoClient) == {"to_async"}
    documented = (
        "create_job list_jobs get_job delete_job cancel_job pause_job resume_job rerun_job update_job "
        "update_job_control get_job_status update_job_status_details list_job_logs create_job_result "
        "list_job_results get_job_result download_job_result list_steps get_job_step update_job_step_status "
        "list_job_step_tasks update_job_step_task get_job_step_task get_execution_profiles watch_job "
        "create retrieve list cancel pause resume results steps tasks checkpoints attempts pause_all "
        "list_transitions stream_events list_job_attempts get_job_attempt open"
    )
    assert set(documented.split()) <= methods(groups.JobsClient)


def test_a_method_shows_its_signature_and_its_purpose() -> None:
    with NemoClient(workspace="w") as client:
        assert list(inspect.signature(client.jobs.resume_job).parameters) == ["name", "workspace"]
        assert inspect.getdoc(client.jobs.resume_job) == (
            "Continue a paused job from the checkpoint that the pause saved."
        )


@pytest.mark.parametrize(
    "url",
    ["localhost:8080", "ftp://x", "http://", "http://x:99999", "https://[::1", "http://x?a=1", "http://x#a"],
)
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="the base URL"):
        NemoClient(base_url=url)
