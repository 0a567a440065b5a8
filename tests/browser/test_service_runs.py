"""Evaluations and jobs in one list of the service, and chosen jobs side by side, in a browser."""

from __future__ import annotations

import math
import re

import pytest
from playwright.sync_api import Page, expect
from tests.browser.looking import look
from tests.evaluation_pages import look_again, write_evaluation
from tests.nemo_helix_server.api.service_bench import JOBS, Bench, job_body

from nemo_helix_plugin.jobs.types import HelixJobStatus
from nemo_helix_server.jobs.allocations import RECORD, AllocationRecord
from nemo_helix_server.jobs.model import MetricPoint
from nemo_helix_server.jobs.states import StatusEvent
from nemo_helix_server.pages.sessions import PageGrant

pytestmark = pytest.mark.services

RATES = {"sft-slow": 1e-5, "sft-good": 3e-5, "sft-wild": 3e-4}
HOUR = 3600


def trained(bench: Bench, name: str, rate: float, steps: int) -> None:
    """A job that has trained some steps, with its curve, its tags and what it used."""
    spec = {"model": "meta/llama-3.2-1b", "optimizer": {"learning_rate": rate}, "backend": "automodel"}
    body = job_body(name, spec=spec, custom_fields={"tags": ["sweep", "llama"]})
    body["platform_spec"]["steps"] = body["platform_spec"]["steps"][1:]
    assert bench.client().post(JOBS, json=body).status_code == 201
    bench.clock.advance(600)
    bench.happen(name, StatusEvent.ACCEPTED, StatusEvent.STARTED)
    losses = {at: 0.3 + 2 * math.exp(-at * rate * 2e3) + rate * 4e2 * math.sin(at / 3) for at in range(steps)}
    details = {"step": steps, "max_steps": 120, "train_loss": losses[steps - 1], "seconds_left": 5400}
    began = bench.clock.now() / 1e6
    with bench.store.write() as unit:
        job = unit.jobs.find("default", name)
        step = unit.steps.current(job.attempt_id)
        points = [
            MetricPoint(step=at, epoch=None, name="train_loss", value=loss) for at, loss in losses.items()
        ]
        unit.series.add(job.id, step.name, points)
        unit.attempts.note(job.attempt_id, details)
        record = AllocationRecord(began_at=began, ended_at=began + steps * 90, nodes=1, gpus=8)
        unit.tasks.move(
            step.id, step.task, HelixJobStatus.ACTIVE, who="x", details={RECORD: record.to_json()}
        )


def unstarted(application):
    """The same application without its controller, which would look for the processes of these jobs."""

    async def answer(scope, receive, send):
        if scope["type"] == "lifespan":
            raise RuntimeError("nothing is started")
        await application(scope, receive, send)

    return answer


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_evaluation(tmp_path / "evals" / "arithmetic", [1.0, 0.0, 1.0, 1.0, 0.5] * 8)
    made = Bench(
        tmp_path / "data",
        pages={"evaluations": [{"folder": str(tmp_path / "evals"), "workspace": "default"}]},
    )
    for number, (name, rate) in enumerate(RATES.items()):
        trained(made, name, rate, 120 - 30 * number)
    assert made.client().post(JOBS, json=job_body("waits-for-a-gpu")).status_code == 201
    yield made
    made.close()


def test_evaluations_and_jobs_are_one_list_from_which_jobs_are_compared(bench, page: Page, serve):
    served = serve(unstarted(bench.application))
    sessions = bench.service.page_sessions
    grant = PageGrant(name="ann", role="operate", workspace="default")
    value = sessions.begin(grant)
    page.context.add_cookies([{"name": sessions.cookie, "value": value, "url": served.address}])
    observers = bench.service.pages.observers
    observers.jobs.look()
    look_again(observers.evaluations.index)

    columns = ("state", "progress", "measure", "cost", "tags", "value:spec.optimizer.learning_rate")
    page.goto(f"{served.address}/?{'&'.join(f'column={name}' for name in columns)}")
    expect(page.locator("tbody tr")).to_have_count(5)
    good = page.locator("tr", has_text="sft-good")
    expect(good).to_contain_text("1 h 30 min left")
    expect(good).to_contain_text("18 GPU h")
    expect(good).to_contain_text("3e\u22125")
    expect(good.locator("svg.spark")).to_be_visible()
    evaluation = page.locator("tr", has_text="arithmetic")
    expect(evaluation).to_contain_text("70.0")
    expect(evaluation.locator("svg.interval")).to_be_visible()
    assert look(page, "service-runs") == []

    page.get_by_role("link", name="sweep").first.click()
    expect(page).to_have_url(re.compile("tag=sweep"))
    expect(page.locator("tbody tr")).to_have_count(3)
    for name in RATES:
        page.get_by_label(f"Choose {name} of").check()
    page.get_by_role("button", name="Compare 3 runs").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("3 jobs side by side")
    expect(page.locator("figure.chart canvas")).to_be_visible()
    expect(page.locator("figure.chart figcaption")).to_contain_text("sft-good fell from")
    expect(page.locator("#comparison")).to_contain_text("spec.optimizer.learning_rate")
    assert look(page, "jobs-compared") == []
