"""The pages of evaluations as a server sends them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.evaluation_pages import HOSTILE, client, look_again, observed, write_evaluation

from nemo_gym.pages.index.observer import EvaluationIndex

FAILURES = [(4, 0, "model_call_failed")]


@pytest.fixture
def index(tmp_path: Path) -> EvaluationIndex:
    write_evaluation(tmp_path / "a", [1.0, 0.0, 0.5, 1.0], failures=FAILURES)
    write_evaluation(tmp_path / "b", [0.0, 0.0, 0.5, 1.0], failures=FAILURES)
    return observed(tmp_path / "a", tmp_path / "b", tables=tmp_path / "tables")


@pytest.fixture
def pages(index: EvaluationIndex) -> TestClient:
    return client(index)


def run_id(index: EvaluationIndex, name: str = "a") -> str:
    return next(run.run_id for run in index.runs() if run.run_id.startswith(f"{name}-"))


def words(text: str) -> str:
    """What a page says, without its markup."""
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def path(index: EvaluationIndex, rest: str = "", name: str = "a") -> str:
    return f"/evaluations/{run_id(index, name)}{rest}"


def test_an_evaluation_has_its_score_its_tasks_and_its_certificate(
    index: EvaluationIndex, pages: TestClient
) -> None:
    first = words(pages.get(path(index)).text)
    assert "Being worked out …" in first
    look_again(index)
    said = words(pages.get(path(index)).text)
    assert "62.5 %" in said
    assert "score 62.5% (95% interval" in said
    assert "NOT CERTIFIED: see above." in said
    assert "1 model_call_failed" in said
    assert pages.get(path(index)).text.count('class="cell ') == 5


def test_every_filter_shows_the_rollouts_that_it_names(index: EvaluationIndex, pages: TestClient) -> None:
    def shown(query: str) -> list[str]:
        text = pages.get(path(index, f"/a/rollouts{query}")).text
        return re.findall(r"/a/rollouts/(\d+)/0", text)

    assert shown("") == ["0", "1", "2", "3", "4"]
    assert shown("?show=wrong") == ["1", "2"]
    assert shown("?show=failed") == ["4"]
    assert shown("?show=failed&show=wrong") == ["1", "2", "4"]
    assert shown("?show=truncated") == []
    assert shown("?task=2") == ["2"]


@pytest.mark.parametrize(
    "query", ["show=lucky", "sort=size", "task=-1", "task=x", "page=%00", "task=" + "9" * 40]
)
def test_a_view_that_does_not_exist_is_said(index: EvaluationIndex, pages: TestClient, query: str) -> None:
    found = pages.get(path(index, f"/a/rollouts?{query}"))
    assert found.status_code == 400
    assert query.partition("=")[0] in found.text


def test_hostile_text_is_shown_as_text(index: EvaluationIndex, pages: TestClient) -> None:
    text = pages.get(path(index, "/a/rollouts/1/0")).text
    assert HOSTILE not in text
    assert "<img" not in text
    assert "<script>" not in text
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "&lt;script&gt;alert" in text
    assert "⟨U+202E⟩cod" in text
    assert "Thoughts (" in text


def test_the_reader_leads_to_the_neighbours_and_to_the_next_wrong_one(
    index: EvaluationIndex, pages: TestClient
) -> None:
    text = pages.get(path(index, "/a/rollouts/1/0")).text
    keys = dict(re.findall(r'data-key="(\w)" href="([^"]+)"', text))
    assert {key: way.partition("/rollouts")[2] for key, way in keys.items()} == {
        "k": "/0/0",
        "j": "/2/0",
        "w": "/2/0",
        "u": "",
    }
    filtered = pages.get(path(index, "/a/rollouts/1/0?show=failed")).text
    assert dict(re.findall(r'data-key="(\w)" href="([^"]+)"', filtered))["j"].endswith("/4/0?show=failed")


def test_a_failed_rollout_shows_its_prompt_and_its_attempts(
    index: EvaluationIndex, pages: TestClient
) -> None:
    said = words(pages.get(path(index, "/a/rollouts/4/0")).text)
    assert "What is 4 + 0?" in said
    assert "model_call_failed" in said


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("/a/rollouts/99/0", "Nothing is recorded of task 99, repeat 0"),
        ("/other/rollouts", "has no benchmark"),
        ("/a/log", "No log of a is here"),
    ],
)
def test_what_is_not_there_is_said(index: EvaluationIndex, pages: TestClient, rest: str, said: str) -> None:
    found = pages.get(path(index, rest))
    assert found.status_code == 404
    assert said in words(found.text)
    assert f'<a href="{path(index, "")}" class="button main-action">Back to its evaluation</a>' in found.text


def test_two_runs_are_compared_and_a_flipped_task_leads_to_both_answers(
    index: EvaluationIndex, pages: TestClient
) -> None:
    query = f"/compare?runs={run_id(index)}&runs={run_id(index, 'b')}"
    assert "Being worked out …" in pages.get(query).text
    look_again(index)
    text = pages.get(query).text
    assert "-25.0" in words(text)
    assert "worse by 100.0 %" in words(text)
    for name in ("a", "b"):
        way = f"{path(index, f'/{name}/rollouts/0/0', name)}?task=0"
        assert way in text
        assert pages.get(way).status_code == 200


def test_runs_that_cannot_be_compared_say_why(
    index: EvaluationIndex, pages: TestClient, tmp_path: Path
) -> None:
    assert pages.get(f"/compare?runs={run_id(index)}").status_code == 400
    assert pages.get(f"/compare?runs={run_id(index)}&runs=nothing").status_code == 404


def test_each_page_works_below_a_path_and_its_part_has_no_frame(index: EvaluationIndex) -> None:
    pages = client(index, root_path="/user/ann/proxy/1")
    for rest in ("", "/a/rollouts", "/a/rollouts/1/0"):
        whole = pages.get(path(index, rest)).text
        links = re.findall(r'(?:href|src|action|hx-get)="([^"#]+)"', whole)
        assert [link for link in links if not link.startswith("/user/ann/proxy/1/")] == []
        part = pages.get(path(index, rest), headers={"hx-request": "true"}).text
        assert "<html" not in part
        assert "<h1" in part


def test_versions_change_with_what_pages_show(
    index: EvaluationIndex, pages: TestClient, tmp_path: Path
) -> None:
    topic = f"evaluation-{run_id(index)}"
    before = pages.get("/pages/versions", params={"topic": topic}).json()
    assert pages.get("/pages/versions", params={"topic": topic}).json() == before
    pages.get(path(index))
    look_again(index)
    assert pages.get("/pages/versions", params={"topic": topic}).json() != before
    assert pages.get("/pages/versions", params={"topic": "evaluation-nothing"}).json() == {}


def test_a_row_that_is_too_large_is_named_with_its_size(
    index: EvaluationIndex, pages: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemo_gym.pages.evaluations.reader_view.HELD", 10)
    said = words(pages.get(path(index, "/a/rollouts/0/0")).text)
    assert "too much for a page" in said
    assert "--task 0" in said
