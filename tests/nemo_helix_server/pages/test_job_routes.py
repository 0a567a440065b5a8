"""The list of jobs and the page of one, with what its buttons do, on a real store."""

import html
import re

import pytest
from tests.nemo_helix_server.api.service_bench import JOBS, job_body
from tests.nemo_helix_server.pages.conftest import Browser

from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.pages import listing

pytestmark = pytest.mark.slow

E = StatusEvent
TRAINING = {
    "name": "training",
    "executor": {"provider": "subprocess", "command": ["true"]},
    "lifecycle": {"pause_deadline_seconds": 60},
}


def make(bench, *names, **changes):
    for name in names:
        body = job_body(name, platform_spec={"steps": [TRAINING]}, **changes)
        assert bench.client().post(JOBS, json=body).status_code == 201
        bench.clock.advance(1)


def names(page):
    return re.findall(r'id="row-job/default/([^"]+)"', page)


def link(page, text):
    found = re.search(rf'<a href="([^"]+)"[^>]*>{text}</a>', page)
    return html.unescape(found[1]) if found else None


def text_of(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_list_goes_forth_and_back_and_loses_nothing_that_is_added_meanwhile(bench, monkeypatch):
    monkeypatch.setattr(listing, "SIZE", 2)
    make(bench, "job-a", "job-b", "job-c", "job-d", "job-e")
    browser = Browser(bench)
    first = browser.get("/jobs").text
    assert (names(first), link(first, "Previous")) == (["job-e", "job-d"], None)
    make(bench, "job-f")
    second = browser.get(link(first, "Next")).text
    assert names(second) == ["job-c", "job-b"]
    third = browser.get(link(second, "Next")).text
    assert (names(third), link(third, "Next")) == (["job-a"], None)
    back = browser.get(link(third, "Previous")).text
    assert names(back) == ["job-c", "job-b"]
    assert names(browser.get(link(back, "Previous")).text) == ["job-e", "job-d"]
    assert names(browser.get(link(back, "First")).text) == ["job-f", "job-e"]


def test_the_list_is_filtered_by_its_address(bench):
    make(bench, "one", "two")
    make(bench, "three", source="other")
    bench.happen("one", E.ACCEPTED, E.STARTED)
    browser = Browser(bench)
    assert names(browser.get("/jobs?state=running").text) == ["one"]
    assert names(browser.get("/jobs?state=waiting,running&q=o").text) == ["two", "one"]
    assert names(browser.get('/jobs?filter=source:"other"').text) == ["three"]
    assert names(browser.get("/jobs?sort=changed").text)[0] in {"one", "three"}
    assert "No job fits this view" in browser.get("/jobs?q=%25").text
    for wrong in ("state=x", "sort=x", "after=x", "after=eyJ9", "filter=(", "before=WzEsMl0"):
        answer = browser.get(f"/jobs?{wrong}")
        assert answer.status_code in {400, 422}, wrong
        assert "Traceback" not in answer.text


def test_buttons_do_what_they_say_and_are_there_only_when_the_table_allows_it(bench):
    make(bench, "tune")
    browser = Browser(bench)
    bench.happen("tune", E.ACCEPTED, E.STARTED)
    page = browser.get("/jobs/default/tune").text
    assert re.findall(r'id="action-(\w+)"', page) == ["pause", "cancel", "control"]
    assert "only a job that ended in error can be run again" in text_of(page)
    assert browser.act("tune", "pause").headers["location"] == "/jobs/default/tune?done=pause"
    assert bench.client().get(f"{JOBS}/tune").json()["status"] == "pausing"
    bench.happen("tune", E.CHECKPOINT_VERIFIED)
    page = browser.get("/jobs/default/tune?done=pause").text
    assert re.findall(r'id="action-(\w+)"', page) == ["resume", "cancel", "control"]
    assert "kept until" in text_of(page)
    assert browser.act("tune", "control", window="1209600").status_code == 303
    assert bench.client().get(f"{JOBS}/tune").json()["control"]["pause_ttl_seconds"] == 1_209_600
    assert browser.act("tune", "control", window="99999999999").status_code == 422
    assert browser.act("tune", "control", window="-1").status_code == 422
    assert browser.act("tune", "delete").status_code == 409
    assert browser.act("tune", "rerun").status_code == 409
    assert browser.act("tune", "rerun", checkpoint="nope").status_code == 404
    assert browser.act("tune", "pin", checkpoint="nope").status_code == 404
    events = bench.client().get(f"{JOBS}/tune/transitions").json()["data"]
    assert {event["who"] for event in events if event["why"] == "asked to pause"} == {"operate"}


def test_a_job_that_has_changed_since_its_page_was_made_is_left_alone(bench):
    make(bench, "tune")
    browser = Browser(bench)
    seen = html.unescape(re.search(r'name="seen" value="([^"]*)"', browser.get("/jobs/default/tune").text)[1])
    bench.happen("tune", E.ACCEPTED, E.STARTED)
    answer = browser.post("/jobs/default/tune/cancel", csrf=browser.csrf(), seen=seen)
    assert (answer.status_code, bench.client().get(f"{JOBS}/tune").json()["status"]) == (409, "active")
    assert "it is active now" in answer.text
    assert link(answer.text, "Back to job tune") == "/jobs/default/tune"


def test_tags_and_a_note_are_kept_and_nothing_else_of_a_job_is_changed(bench):
    make(bench, "tune", custom_fields={"team": "red", "tags": ["old"]})
    browser = Browser(bench)
    answer = browser.act("tune", "annotate", tags="best, llama  old", note="for table 2")
    assert answer.headers["location"] == "/jobs/default/tune?done=annotate"
    job = bench.client().get(f"{JOBS}/tune").json()
    assert job["custom_fields"] == {"team": "red", "tags": ["old", "best", "llama"]}
    assert (job["description"], job["status"]) == ("for table 2", "created")
    assert 'href="/?tag=llama"' in browser.get("/jobs/default/tune").text
    assert browser.act("tune", "annotate", tags="", note="").status_code == 303
    assert bench.client().get(f"{JOBS}/tune").json()["custom_fields"] == {"team": "red"}
    assert browser.act("tune", "annotate", tags="x" * 101, note="").status_code == 422
    assert browser.act("tune", "annotate", tags=" ".join(f"t{at}" for at in range(51))).status_code == 422
    reader = Browser(bench, "read")
    assert reader.act("tune", "annotate", tags="theirs").status_code == 403
    assert "Keep</button>" not in reader.get("/jobs/default/tune").text


def test_a_page_of_an_error_leads_back_to_where_it_came_from(bench):
    make(bench, "tune")
    browser = Browser(bench)
    refused = browser.act("tune", "delete")
    assert (refused.status_code, link(refused.text, "Back to job tune")) == (409, "/jobs/default/tune")
    foreign = browser.post("/jobs/default/tune/pause", csrf="another session's")
    assert (foreign.status_code, link(foreign.text, "Back to job tune")) == (403, "/jobs/default/tune")
    reader = Browser(bench, "read")
    allowed = reader.post("/jobs/default/tune/pause", csrf=reader.csrf())
    assert (allowed.status_code, link(allowed.text, "Back to job tune")) == (403, "/jobs/default/tune")
    elsewhere = Browser(bench, workspace="team").get("/jobs/default/tune")
    assert (elsewhere.status_code, link(elsewhere.text, "Back to job tune")) == (403, None)
    missing = browser.get("/jobs/default/nope")
    assert (missing.status_code, link(missing.text, "All jobs")) == (404, "/jobs")
    odd = browser.get("/jobs?sort=x")
    assert (odd.status_code, link(odd.text, "Show this page as usual")) == (422, "/jobs")


def test_a_part_of_the_page_is_sent_to_a_script_that_asks_for_it(bench):
    make(bench, "tune")
    browser = Browser(bench)
    part = browser.get("/jobs/default/tune", **{"hx-request": "true"}).text
    assert part.lstrip().startswith('<div id="state"')
    assert "<html" not in part
    assert browser.get("/jobs", **{"hx-request": "true"}).text.lstrip().startswith('<section id="jobs"')
    job_id = bench.client().get(f"{JOBS}/tune").json()["id"]
    before = browser.get(f"/pages/versions?topic=job-{job_id}&topic=log-{job_id}&topic=jobs&topic=x").json()
    assert set(before) == {f"job-{job_id}", f"log-{job_id}", "jobs"}
    bench.clock.advance(1)
    bench.happen("tune", E.ACCEPTED)
    after = browser.get(f"/pages/versions?topic=job-{job_id}&topic=jobs").json()
    assert after[f"job-{job_id}"] != before[f"job-{job_id}"]
    assert after["jobs"] != before["jobs"]


def test_the_list_knows_of_a_job_that_is_removed(bench):
    make(bench, "tune")
    browser = Browser(bench)
    assert browser.act("tune", "cancel").status_code == 303
    assert browser.act("tune", "delete").headers["location"] == "/jobs?workspace=default&done=delete"
    before = browser.get("/pages/versions?topic=jobs").json()
    with bench.store.write() as writer:
        writer.jobs.remove(writer.jobs.find("default", "tune").id)
    assert browser.get("/pages/versions?topic=jobs").json() != before


def test_an_address_signs_in_once_and_a_token_too(bench):
    nobody = Browser(bench, role=None)
    admin = bench.token("admin")
    made = bench.client(admin).post("/pages/codes", json={"role": "read"}).json()
    assert made["address"].startswith("http://localhost:8080/pages/enter?code=")
    path = made["address"].removeprefix("http://localhost:8080")
    looked = {"sec-purpose": "prefetch;prerender"}
    assert nobody.get(path, **looked).status_code == 503
    assert nobody.client.request("HEAD", path).status_code == 503
    entered = nobody.get(path)
    cookie = entered.headers["set-cookie"].lower()
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/", "max-age=43200"))
    assert "secure" not in cookie
    given = entered.headers["set-cookie"].partition(";")[0]
    assert "role read" in " ".join(nobody.get("/jobs", cookie=given).text.split())
    assert nobody.get(path).status_code == 401
    signed = nobody.post("/pages/enter", headers={"x-forwarded-proto": "https"}, token=bench.token("read"))
    assert signed.status_code == 303
    assert "secure" in signed.headers["set-cookie"].lower()
    assert nobody.post("/pages/enter", token="nhx_guess").status_code == 401


def test_nobody_makes_an_address_for_more_than_they_may(bench):
    reader, team = bench.token("read"), bench.token("admin", "team")
    ask = [
        (None, {}, 401),
        (reader, {"role": "operate"}, 403),
        (reader, {"role": "owner"}, 422),
        (reader, {"x": 1}, 422),
        (team, {"workspace": "default"}, 403),
        (team, {}, 200),
        (reader, None, 200),
    ]
    for token, body, expected in ask:
        assert bench.client(token).post("/pages/codes", json=body).status_code == expected, body


def test_signing_out_ends_the_session(bench):
    browser = Browser(bench)
    assert browser.post("/pages/leave", csrf=browser.csrf()).status_code == 303
    assert browser.get("/jobs").status_code == 401


def test_scores_and_answers_of_its_checkpoints_are_on_the_page_of_a_job(bench):
    make(bench, "tune")
    bench.happen("tune", E.ACCEPTED, E.STARTED)
    answers = [{"step": 2, "text": "six <script>"}, {"step": 4, "text": "five"}]
    shown = [
        {"step": 2, "score": 0.25, "low": 0.1, "high": 0.4, "rows": 20, "seconds": 3.5},
        {"step": 4, "error": "its process was ended by SIGKILL"},
    ]
    details = {
        "step_seconds": 0.5,
        "tokens_per_second": 1200.0,
        "train_lr": 1e-4,
        "memory_bytes": 2_100_000_000,
        "seconds_left": 300,
        "best_checkpoint": {"step": 2, "metric": "eval_sums", "value": 0.25, "published": True},
        "early_stopping": {"metric": "eval_sums", "direction": "highest", "patience": 3, "waited": 1},
        "evaluation": {
            "benchmark": "sums",
            "device": "same",
            "count": 2,
            "seconds": 4.0,
            "shown": shown,
            "prompts": [{"prompt": "What is 2 + 3?", "answers": answers}],
        },
    }
    sent = bench.client().request("PATCH", f"{JOBS}/tune/status-details", json=details)
    assert sent.status_code == 200
    page = Browser(bench).get("/jobs/default/tune").text
    assert "six <script>" not in page
    said = text_of(page)
    for part in (
        "0.5 s a step, 1,200 tokens/s, lr 0.0001, 2.1 GB of memory, 5 min left",
        "step 2, eval_sums 0.25; it becomes the model",
        "when eval_sums is not higher in 3 evaluations; 1 of them so far",
        "sums 0.25 [0.1, 0.4] at step 2; 2 evaluations, 4 s in all, for which it waited",
        "the evaluation of step 4 failed, and training went on: its process was ended by SIGKILL",
        "What is 2 + 3? Step 2 Step 4 six <script> five",
    ):
        assert part in said, part
