"""The pages of one evaluation in a browser, with what a real run of `gym eval run` leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.browser.looking import look
from tests.evaluation_pages import HOSTILE, application, look_again, observed, write_evaluation
from tests.mock_server import MockServer

from nemo_gym.pages.index.run_places import run_id_of

pytestmark = pytest.mark.services

GYM = Path(sys.executable).with_name("gym")
CONFIG = """
benchmark:
  name: sums
  datasets: {benchmark: {jsonl_fpath: data.jsonl}}
  prompt: {user: '{question}'}
  verifier: {type: match, mode: numeric}
  group_by: [level]
"""


def evaluate(folder: Path, name: str, **answers: object) -> Path:
    """What `gym eval run` leaves of twelve questions."""
    rows = [
        {"question": f"What is {task} + 1? {HOSTILE if task == 3 else ''}", "expected_answer": str(task + 1)}
        | {"level": "even" if task % 2 == 0 else "odd"}
        for task in range(12)
    ]
    (folder / "data.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "config.yaml").write_text(CONFIG)
    output = folder / name / "rollouts.jsonl"
    with MockServer(**answers) as server:
        subprocess.run(
            [
                *(str(GYM), "eval", "run", "-c", str(folder / "config.yaml"), "-m", "mock"),
                *("--model-url", server.base_url, "--output", str(output), "++num_repeats=2"),
            ],
            check=False,
            capture_output=True,
            timeout=120,
        )
    return output.parent


def test_an_evaluation_is_read_from_its_scores_to_the_last_wrong_answer(page, serve, tmp_path):
    good = evaluate(tmp_path, "good", faults_for={"What is 5 +": ["400*"], "What is 9 +": ["length*"]})
    bad = evaluate(tmp_path, "bad", answer=f"<think>{HOSTILE}</think> {HOSTILE} 12")
    index = observed(good, bad, tables=tmp_path / "tables")
    address = serve(application(index)).address
    page.on("dialog", lambda dialog: pytest.fail(f"a script of a model ran: {dialog.message}"))

    page.goto(f"{address}/evaluations/{run_id_of(good)}")
    look_again(index)
    expect(page.get_by_text("NOT CERTIFIED: see above.")).to_be_visible()
    expect(page.get_by_role("link", name="% of task 3", exact=False).first).to_be_visible()
    assert look(page, "evaluation") == []

    page.get_by_role("link", name="Failed").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("link", name="Truncated").click()
    expect(page.locator("tbody tr")).to_have_count(4)
    assert look(page, "rollouts") == []

    page.goto(f"{address}/evaluations/{run_id_of(bad)}/bad/rollouts?show=wrong")
    page.locator("tbody a").nth(6).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Task 3, repeat 0")
    expect(page.get_by_text("thoughts", exact=False).first).to_be_visible()
    assert look(page, "reader") == []
    page.keyboard.press("w")
    expect(page.get_by_role("heading", level=1)).to_have_text("Task 3, repeat 1")
    page.keyboard.press("k")
    expect(page.get_by_role("heading", level=1)).to_have_text("Task 3, repeat 0")
    page.keyboard.press("u")
    expect(page.get_by_role("heading", level=1)).to_have_text("Rollouts of bad")

    page.goto(f"{address}/compare?runs={run_id_of(good)}&runs={run_id_of(bad)}")
    look_again(index)
    expect(page.get_by_text("A is better").first).to_be_visible()
    assert look(page, "comparison") == []
    page.locator(".flips tbody tr").first.locator("a").last.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Task 0, repeat 0")


def test_a_page_follows_what_is_recorded(page, serve, tmp_path):
    write_evaluation(tmp_path / "a", [1.0, 0.0])
    index = observed(tmp_path / "a", tables=tmp_path / "tables")
    page.goto(f"{serve(application(index)).address}/evaluations/{run_id_of(tmp_path / 'a')}/a/rollouts")
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("#live")).to_have_attribute("data-live", "stream")
    write_evaluation(tmp_path / "a", [1.0, 0.0, 1.0])
    look_again(index)
    expect(page.locator("tbody tr")).to_have_count(3)
