"""Evaluations and jobs in one list, of which each session sees what its grant allows, on a real store."""

import html
import re

import pytest
from tests.evaluation_pages import look_again, write_evaluation
from tests.nemo_helix_server.api.service_bench import JOBS, Bench, job_body
from tests.nemo_helix_server.pages.conftest import Browser

from nemo_gym.pages.evaluations.evaluation_view import topic_of
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.settings import load

pytestmark = pytest.mark.slow

TEAM_JOBS = JOBS.replace("default", "team")


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """A service with jobs of two workspaces, and evaluations of one, of the other, and of none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("teams", "ours", "nobodys"):
        write_evaluation(tmp_path / name / f"{name}-sums", [1.0, 0.0])
    made = Bench(
        tmp_path / "data",
        pages={
            "evaluations": [
                {"folder": str(tmp_path / "teams"), "workspace": "team"},
                {"folder": str(tmp_path / "ours"), "workspace": "default"},
                {"folder": str(tmp_path / "nobodys")},
            ]
        },
    )
    assert made.parts.workspaces.create("team", None)
    spec = {"optimizer": {"learning_rate": 0.25}, "secret_of_team": 1}
    assert made.client().post(TEAM_JOBS, json=job_body("team-job", spec=spec)).status_code == 201
    assert made.client().post(JOBS, json=job_body("our-job", spec={"model": "qwen"})).status_code == 201
    look(made)
    yield made
    made.close()


def look(bench):
    observers = bench.service.pages.observers
    observers.jobs.look()
    look_again(observers.evaluations.index)


def rows(page):
    return set(re.findall(r'<tr role="row"[^>]* id="row-[^"]*/([^"/]+)"', page))


def text_of(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def runs_of(bench, name):
    return next(
        run for run in bench.service.pages.observers.evaluations.index.runs() if name in str(run.folder)
    )


ALL = {"team-job", "our-job", "teams-sums", "ours-sums", "nobodys-sums"}


@pytest.mark.parametrize(
    ("role", "workspace", "seen"),
    [
        ("admin", None, ALL),
        ("operate", None, ALL - {"nobodys-sums"}),
        ("read", None, ALL - {"nobodys-sums"}),
        ("read", "team", {"team-job", "teams-sums"}),
        ("admin", "team", {"team-job", "teams-sums"}),
        ("operate", "default", {"our-job", "ours-sums"}),
        ("admin", "nobody", set()),
    ],
)
def test_a_session_sees_only_what_its_grant_allows(shown, role, workspace, seen):
    browser = Browser(shown, role, workspace)
    page = browser.get("/").text
    assert rows(page) == seen
    assert all(name not in page for name in ALL - seen)
    assert ("secret_of_team" in page) == ("team-job" in seen)
    assert (f"of {len(seen)} runs" in text_of(page)) == bool(seen)
    assert rows(browser.get("/?q=sums+job").text) == set()
    assert rows(browser.get("/?q=sums").text) == {name for name in seen if "sums" in name}
    assert rows(browser.get("/?sort=name&column=state&column=value:secret_of_team").text) == seen
    for name in ("teams", "ours", "nobodys"):
        run = runs_of(shown, name)
        allowed = f"{name}-sums" in seen
        for rest in ("", f"/{name}-sums/rollouts", f"/{name}-sums/rollouts/0/0", f"/{name}-sums/nothing"):
            answer = browser.get(f"/evaluations/{run.run_id}{rest}")
            missing = rest.endswith("nothing")
            assert answer.status_code == (200 if allowed and not missing else 404), (name, rest)
            if not allowed:
                assert str(run.folder) not in answer.text
        topics = browser.get(f"/pages/versions?topic={topic_of(run.run_id)}&topic=runs").json()
        assert len(topics) == (2 if allowed else 1)
        own = runs_of(shown, "teams")
        pair = browser.get(f"/compare?runs={own.run_id}&runs={run.run_id}")
        assert pair.status_code in ({200, 400} if {"teams-sums", f"{name}-sums"} <= seen else {404, 400})


def test_the_version_of_the_list_says_nothing_of_what_is_not_seen(shown):
    team, everybody = Browser(shown, "read", "team"), Browser(shown, "admin")
    before = [one.get("/pages/versions?topic=runs").json()["runs"] for one in (team, everybody)]
    assert shown.client().post(JOBS, json=job_body("another")).status_code == 201
    look(shown)
    after = [one.get("/pages/versions?topic=runs").json()["runs"] for one in (team, everybody)]
    assert before[0] == after[0]
    assert before[1] != after[1]


def test_the_list_follows_jobs_through_changes_and_deletion(shown):
    browser = Browser(shown, "admin")
    shown.clock.advance(60)
    shown.happen("our-job", StatusEvent.ACCEPTED, StatusEvent.STARTED)
    changed = {"description": "try two", "tags": {"add": ["baseline"]}}
    assert shown.client().request("PATCH", f"{JOBS}/our-job", json=changed).status_code == 200
    query = {"filter": '{"custom_fields.tags": {"$contains": "baseline"}}'}
    assert [job["name"] for job in shown.client().get(JOBS, params=query).json()["data"]] == ["our-job"]
    look(shown)
    page = browser.get("/?q=our-job&column=state&column=tags&column=note&column=value:spec.model").text
    assert "pending" in text_of(page) or "active" in text_of(page)
    assert all(word in text_of(page) for word in ("baseline", "try two", "qwen"))
    assert rows(browser.get("/?tag=baseline").text) == {"our-job"}
    assert shown.client().post(f"{TEAM_JOBS}/team-job/cancel").status_code == 200
    assert shown.client().request("DELETE", f"{TEAM_JOBS}/team-job").status_code < 300
    with shown.store.write() as unit:
        unit.jobs.remove(unit.jobs.find("team", "team-job").id)
    look(shown)
    assert rows(browser.get("/?kind=job").text) == {"our-job"}


def test_chosen_jobs_lead_to_their_comparison_and_kinds_are_not_mixed(shown):
    browser = Browser(shown, "admin")
    answer = browser.get("/compare?runs=team/team-job&runs=default/our-job")
    assert answer.headers["location"] == "/jobs/compare?job=team%2Fteam-job&job=default%2Four-job"
    page = text_of(browser.get(answer.headers["location"]).text)
    assert "2 jobs side by side" in page
    assert "spec.optimizer.learning_rate" in page
    assert "None of these jobs has reported a metric" in page
    mixed = browser.get(f"/compare?runs=team/team-job&runs={runs_of(shown, 'ours').run_id}")
    assert (mixed.status_code, "choose one kind" in mixed.text) == (400, True)
    assert browser.get("/jobs/compare?job=team/team-job").status_code == 400
    confined = Browser(shown, "read", "default")
    assert confined.get("/jobs/compare?job=team/team-job&job=default/our-job").status_code == 403
    assert confined.get("/jobs/compare?job=default/nope&job=default/our-job").status_code == 404


def test_a_relative_folder_of_evaluations_is_refused(tmp_path):
    with pytest.raises(Exception, match="must be an absolute path"):
        load(environ={}, overrides={"pages": {"evaluations": [{"folder": "evals"}]}})
