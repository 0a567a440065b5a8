"""What comes before every page: attacks that must fail, and who may see and do what."""

import re

import pytest
from starlette.routing import Route
from tests.nemo_helix_server.api.service_bench import JOBS, Bench, job_body
from tests.nemo_helix_server.pages.conftest import HOST, Browser

from nemo_helix_server.pages import guard

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script>\x1b]0;x\x07\u202egnp"
WORKSPACES = "/apis/jobs/v2/workspaces"


def routes_of(bench):
    """Every route of the pages."""
    layer = bench.application
    while not hasattr(layer, "pages"):
        layer = layer._app
    return [route for route in layer.pages._app.routes if isinstance(route, Route)]


def status(bench, name="tune"):
    return bench.client().get(f"{JOBS}/{name}").json()["status"]


def test_nobody_sees_a_page_and_is_told_how_to_sign_in(bench, job):
    for route in routes_of(bench):
        path = (
            route.path.replace("{workspace}", "default")
            .replace("{job}", job)
            .replace("{name:path}", "icon.svg")
        )
        path = re.sub(r"{\w+(:int)?}", "1", path)
        if path == "/pages/static/icon.svg":
            continue
        method = "POST" if "POST" in route.methods and "GET" not in route.methods else "GET"
        answer = Browser(bench, role=None).client.request(method, path, headers={"origin": f"http://{HOST}"})
        assert answer.status_code == (200 if path == "/pages/enter" else 401), path
        assert job not in answer.text or path == "/pages/codes"
    assert "nemo services open" in Browser(bench, role=None).get("/jobs").text
    assert status(bench) == "created"


def test_a_form_of_another_session_changes_nothing(bench, job):
    browser, other = Browser(bench), Browser(bench)
    seen = {"seen": re.search(r'name="seen" value="([^"]*)"', browser.get("/jobs/default/tune").text)[1]}
    for csrf in ({}, {"csrf": ""}, {"csrf": "0" * 64}, {"csrf": other.csrf()}):
        assert browser.post("/jobs/default/tune/cancel", **seen, **csrf).status_code == 403
    assert status(bench) == "created"
    assert browser.post("/jobs/default/tune/cancel", csrf=browser.csrf(), **seen).status_code == 303
    assert status(bench) == "cancelled"


ELSEWHERE = (
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": None},
    {"origin": f"http://{HOST}.evil.example"},
    {"origin": f"http://{HOST}@evil.example"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"host": "rebound.example"},
)


def test_another_site_changes_nothing(bench, job):
    browser = Browser(bench)
    given = {"csrf": browser.csrf(), "seen": "x"}
    for sent in ELSEWHERE:
        assert browser.post("/jobs/default/tune/cancel", headers=sent, **given).status_code in {403, 421}, (
            sent
        )
        assert browser.post("/pages/enter", headers=sent, token="x").status_code in {403, 421}, sent
    assert status(bench) == "created"


def test_a_cookie_is_no_token_and_a_token_no_cookie(bench, job):
    guarded = Browser(bench)
    answer = guarded.client.get("/jobs", headers={"authorization": f"Bearer {guarded.cookie}"})
    assert answer.status_code == 401
    made = bench.client(guarded.cookie).get(JOBS)
    assert made.status_code == 401  # credentials that are presented count


BODIES = (
    (b"x" * (guard.LARGEST_FORM + 1), {}, 413),
    (b"a=%00", {}, 422),
    (b"a=%ff", {}, 422),
    ("a=ü".encode(), {}, 422),
    (b"&".join(b"a=1" for _ in range(200)), {}, 422),
    (b"{}", {"content-type": "application/json"}, 415),
    (b"--x", {"content-type": "multipart/form-data; boundary=x"}, 415),
    (b"a", {"content-length": "x"}, 400),
)


def test_a_body_is_taken_within_bounds(bench, job):
    browser = Browser(bench)
    form = {"content-type": "application/x-www-form-urlencoded", "origin": f"http://{HOST}"}
    for body, headers, expected in BODIES:
        answer = browser.client.request(
            "POST",
            "/jobs/default/tune/cancel",
            headers={**form, **browser.headers, **headers},
            content=body,
        )
        assert (answer.status_code, status(bench)) == (expected, "created")


def test_a_viewer_sees_why_there_is_no_button_and_cannot_press_it(bench, job):
    viewer = Browser(bench, "read")
    page = viewer.get("/jobs/default/tune").text
    assert "Your role is read, and this needs operate" in page
    assert "<button>Sign out" in page
    assert "/jobs/default/tune/cancel" not in page
    assert viewer.act(job, "cancel").status_code == 403
    assert status(bench) == "created"


def test_a_session_of_one_workspace_sees_no_other(bench, job):
    client = bench.client()
    assert client.post("/apis/workspaces/v2/workspaces", json={"name": "team"}).status_code == 201
    assert client.post(f"{WORKSPACES}/team/jobs", json=job_body("theirs")).status_code == 201
    job_id = client.get(f"{JOBS}/tune").json()["id"]
    browser = Browser(bench, "operate", "team")
    assert "theirs" in browser.get("/jobs").text
    for path in (
        "/jobs?workspace=default",
        "/jobs?workspace=-",
        "/jobs/default/tune",
        "/jobs/default/tune/log",
    ):
        answer = browser.get(path, **{"hx-request": "true"})
        assert (answer.status_code, "tune" in answer.text.replace("default/tune", "")) == (403, False), path
    assert browser.get(f"/jobs/team/{job_id}").status_code == 404
    beside = browser.get("/jobs/team/theirs?against=default/tune").text
    assert "not for" in beside
    assert "platform_spec.steps[1].name" in beside
    assert browser.get(f"/pages/versions?topic=job-{job_id}&topic=log-{job_id}").json() == {}
    assert browser.act("tune", "cancel", "default").status_code == 403
    assert browser.act("theirs", "cancel", "team").status_code == 303


def test_what_jobs_say_is_text(bench):
    body = job_body("tune", description=HOSTILE)
    body["spec"] = {"key": HOSTILE.replace("\x1b", "").replace("\x07", "")}
    assert bench.client().post(JOBS, json=body).status_code == 201
    details = {"train_loss": 1.0, "wandb_run": {"url": "javascript:alert(1)"}, "warnings": [HOSTILE]}
    assert bench.client().request("PATCH", f"{JOBS}/tune/status-details", json=details).status_code == 200
    page = Browser(bench).get("/jobs/default/tune").text
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert 'href="javascript' not in page
    assert "javascript:alert(1)" in page  # said, and no link


def test_every_answer_forbids_frames_foreign_scripts_and_keeping(bench, job):
    for path in ("/", "/jobs", "/jobs/default/tune", "/jobs/default/none", "/pages/enter"):
        headers = Browser(bench).get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
        assert headers["referrer-policy"] == "same-origin"  # with no-referrer forms have the origin "null"
    page = Browser(bench).get("/jobs/default/tune").text
    assert not re.search(r"<script(?![^>]* src=)|\son[a-z]+=|\sstyle=|(src|href)=\"(https?:)?//", page)


def test_paths_are_exact_and_the_api_stays_beside_them(bench, job):
    browser = Browser(bench)
    for path in ("/jobs/", "/jobs/default", "/jobs/default/tune/", "/jobs/default/tune/../../x", "/pages"):
        assert browser.get(path).status_code == 404, path
    assert browser.client.get("/nothing").json()["detail"].startswith("there is nothing")
    assert browser.client.get(JOBS).status_code == 200
    assert browser.client.get(f"{JOBS}", headers=browser.headers).status_code == 200


@pytest.fixture
def below(tmp_path):
    pages = {"root_path": "/user/anna/proxy/8080", "origins": ["https://hub.example.org"]}
    made = Bench(tmp_path / "data", pages=pages)
    yield made
    made.close()


@pytest.mark.parametrize("strips", [True, False])
def test_pages_work_below_a_path_whether_the_proxy_takes_it_away_or_not(below, strips):
    root = below.service.parts and "/user/anna/proxy/8080"
    assert below.client().post(JOBS, json=job_body("tune")).status_code == 201
    browser = Browser(below, root="" if strips else root)
    through = {"host": "hub.example.org", "origin": "https://hub.example.org"}
    page = browser.get("/jobs/default/tune", host="hub.example.org").text
    for address in re.findall(r'(?:href|src|action|hx-get)="([^"#]*)"', page):
        assert address.startswith(f"{root}/"), address
    seen = re.search(r'name="seen" value="([^"]*)"', page)[1]
    answer = browser.post("/jobs/default/tune/cancel", headers=through, csrf=browser.csrf(), seen=seen)
    assert answer.headers["location"] == f"{root}/jobs/default/tune?done=cancel"
    assert browser.get("/jobs", host="other.example.org").status_code == 421
    foreign = {**through, "origin": "https://evil.example"}
    assert browser.post("/jobs/default/tune/resume", headers=foreign, csrf=browser.csrf()).status_code == 403


def test_a_path_that_names_the_root_twice_or_steps_out_is_none(below):
    root = "/user/anna/proxy/8080"
    browser = Browser(below)
    for path in (f"{root}{root}/jobs", f"{root}x/jobs", f"{root}//jobs", f"{root}/%2e%2e/jobs"):
        assert browser.get(path).status_code == 404, path
    page = browser.get("/", host="hub.example.org").text
    for address in re.findall(r'(?:href|src|action|hx-get)="([^"#]*)"', page):
        assert address.startswith(f"{root}/"), address
