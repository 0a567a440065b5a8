"""Pages of jobs in a browser: a real service and the real trainer, each button through to its effect."""

from __future__ import annotations

import contextlib

import pytest
from playwright.sync_api import Page, expect
from tests.browser.looking import look
from tests.nemo_helix_server.commands.programs import (
    JOBS,
    Program,
    cancel_everything,
    nemo,
    training,
    until,
)

pytestmark = pytest.mark.services

HOSTILE = '<script>document.title="stolen "+document.cookie</script>\u202egnp.exe'

EVALUATED = {
    "evaluation": {
        "benchmark": "arithmetic",
        "shown": [
            {"step": 50, "score": 0.25, "low": 0.1, "high": 0.4, "rows": 20, "seconds": 4.0},
            {"step": 100, "error": f"OutOfMemoryError: {HOSTILE}"},
        ],
        "prompts": [
            {
                "prompt": "What is 17 + 25?",
                "answers": [
                    {"step": 50, "text": f"{HOSTILE} {'42 ' * 100}"},
                    {"step": 100, "text": "w" * 400},
                ],
            }
        ],
    }
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One service for all tests here."""
    made = Program(tmp_path_factory.mktemp("pages") / "data")
    yield made
    with contextlib.ExitStack() as after:
        after.callback(made.process.stdout.close)
        after.callback(made.end)
        cancel_everything(made)


@pytest.fixture
def http(service):
    with service.client() as client:
        yield client


def enter(page: Page, service, *options: str) -> None:
    """Open the address that the command prints."""
    opened = nemo("services", "open", "--data-dir", service.data_dir, *options)
    assert opened.returncode == 0, opened.stderr
    page.goto(opened.stdout.strip())
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def reached(http, name, status):
    until(lambda: http.get(f"{JOBS}/{name}").json()["status"] == status, f"{name} is {status}")


def press(page: Page, action: str) -> str:
    """Open what an action says beforehand, and do it; what it said."""
    place = page.locator(f"#action-{action}")
    place.locator("summary").press("Enter")
    said = place.locator("form").inner_text()
    place.get_by_role("button").press("Enter")
    expect(page.locator(".notice")).to_be_visible()
    return said


def test_each_button_of_a_real_training_does_what_it_says(page, service, http):
    body = training("tune", "--steps", "100000", "--save-every", "25")
    assert http.post(JOBS, json={**body, "description": HOSTILE}).status_code == 201
    reached(http, "tune", "active")
    enter(page, service)
    page.get_by_role("link", name="tune").click()
    expect(page.locator(".title .chip")).to_have_text("active")
    expect(page.locator("figure.chart canvas").first).to_be_visible()
    assert "saves a checkpoint and stops" in press(page, "pause")
    expect(page.locator(".title .chip")).to_have_text("paused")  # by itself
    assert http.get(f"{JOBS}/tune").json()["status"] == "paused"
    expect(page.locator(".marks")).to_contain_text("Paused at step")
    expect(page.get_by_text("Rerun: not now.")).to_be_visible()
    page.locator("[id^=pin-] summary").first.press("Enter")
    page.locator("[id^=pin-] button").first.press("Enter")
    expect(page.locator(".notice")).to_have_text("Asked to pin the checkpoint.")
    expect(page.locator("[id^=unpin-]").first).to_be_visible()  # by itself
    press(page, "control")
    assert http.get(f"{JOBS}/tune").json()["control"]["pause_ttl_seconds"] > 7 * 86_400
    assert "starts again from its checkpoint of step" in press(page, "resume")
    expect(page.locator(".title .chip")).to_have_text("active")
    expect(page.locator(".marks")).to_contain_text("Resumed at step")
    lines = page.locator("#log pre").inner_text()
    expect(page.locator("#log pre")).not_to_have_text(lines)  # the log goes on by itself
    assert look(page, "job-active") == []
    assert page.title().startswith("tune")
    assert "1 pinned checkpoint stays" in press(page, "cancel")
    expect(page.locator(".title .chip")).to_have_text("cancelled")
    press(page, "delete")
    expect(page.get_by_role("link", name="tune")).to_have_count(0)
    assert http.get(f"{JOBS}/tune").status_code == 404


def test_a_failed_training_goes_on_from_the_checkpoint_that_is_chosen(page, service, http):
    options = ("--steps", "150", "--save-every", "25", "--fail-at", "70")
    assert http.post(JOBS, json=training("fails", *options, step_seconds="0.005")).status_code == 201
    reached(http, "fails", "error")
    assert http.post(JOBS, json=training("other", "--steps", "1", "--rate", "0.2")).status_code == 201
    enter(page, service)
    page.goto(f"{service.url}/jobs/default/fails?against=other")
    expect(page.locator("#configuration")).to_contain_text("differ")
    expect(page.locator("#configuration tbody")).to_contain_text("0.2")
    rerun = page.locator("[id^=rerun-ckpt]").last
    rerun.locator("summary").press("Enter")
    assert "goes on from step 25" in rerun.inner_text()
    rerun.get_by_role("button").press("Enter")
    expect(page.locator(".title .chip")).to_have_text("completed")
    expect(page.locator(".marks li")).to_contain_text(["Failed at step", "Rerun at step 25", "Completed"])
    expect(page.locator("figure.chart figcaption").first).to_contain_text("at step 150")
    http.patch(f"{JOBS}/fails/status-details", json=EVALUATED)
    page.reload()
    expect(page.get_by_role("heading", name="Evaluations while it trained")).to_be_visible()
    expect(page.get_by_role("region", name="Answers to prompt 1")).to_contain_text("gnp.exe")
    assert look(page, "job-rerun") == []


def test_the_list_the_way_in_and_the_way_out_look_right(page, service, http):
    enter(page, service, "--role", "read", "--workspace", "default")
    expect(page.get_by_text("role read, workspace default")).to_be_visible()
    assert look(page, "jobs") == []
    page.goto(f"{service.url}/jobs/default/fails")
    expect(page.get_by_text("Your role is read").first).to_be_visible()
    assert page.locator("[id^=action-]").count() == 0
    cookies = page.context.cookies()
    assert [(one["httpOnly"], one["sameSite"]) for one in cookies] == [(True, "Strict")]
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert look(page, "sign-in") == []
    page.goto(f"{service.url}/jobs")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
