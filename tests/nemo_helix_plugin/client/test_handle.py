"""A job in a notebook: its fields, its words, waiting, metrics, charts and actions."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from tests.nemo_helix_plugin.client.scripted import Answer, Asked, Scripted, job

from nemo_helix_plugin.client import errors
from nemo_helix_plugin.client.client import NemoClient
from nemo_helix_plugin.client.handle import JobHandle, MetricsTable, TextChart
from nemo_helix_plugin.jobs.watch_types import JobWatchTimeoutError

NAME = "automodel-a1b2c3d4e5f6"
JOB = f"/apis/jobs/v2/workspaces/default/jobs/{NAME}"
LOSS = [{"step": 1, "epoch": 0.1, "value": 2.0}, {"step": 2, "epoch": 0.2, "value": 1.0}]
HALF = {"step": 50, "max_steps": 100, "train_loss": 0.5, "metrics": {"train_loss": LOSS, "lr": LOSS[:1]}}


@pytest.fixture
def client(service: Scripted) -> Iterator[NemoClient]:
    service.on("GET", JOB, Answer(job(status_details=HALF)))
    with NemoClient(base_url=service.base_url, workspace="default") as made:
        yield made


@pytest.fixture
def handle(client: NemoClient) -> JobHandle:
    return client.jobs.open(name=NAME)


def test_fields_of_the_job_are_attributes(handle: JobHandle) -> None:
    assert (handle.name, handle.status, handle.workspace) == (NAME, "active", "default")
    assert handle.status_details["step"] == 50
    assert {"status", "storage_expires_at", "wait"} <= set(dir(handle))
    with pytest.raises(AttributeError, match="JobHandle has no attribute 'statsu'"):
        _ = handle.statsu


def test_a_completed_job_has_its_model(client: NemoClient, service: Scripted) -> None:
    spec = {"output": {"name": "sums"}}
    assert client.jobs.open(name=NAME).model is None
    service.on("GET", JOB, Answer(job("completed", source="customization", spec=spec)))
    handle = client.jobs.open(name=NAME)
    assert handle.model == "default/sums"
    assert "<td>default/sums</td>" in handle._repr_html_()
    assert "model" in dir(handle)


def test_it_says_in_one_line_how_far_the_job_is(handle: JobHandle) -> None:
    said = f"<job '{NAME}' in default: active, step 50 of 100 (50%), train_loss 0.5>"
    assert repr(handle) == said


def test_a_notebook_shows_its_state_escaped_with_a_bar(client: NemoClient, service: Scripted) -> None:
    failed = {"error_details": {"message": "<b>no & memory</b>"}, "status_details": HALF}
    service.on("GET", JOB, Answer(job("error", **failed)))
    shown = client.jobs.open(name=NAME)._repr_html_()
    assert '<progress max="100" value="50"></progress>' in shown
    assert "<td>error, step 50 of 100 (50%), train_loss 0.5</td>" in shown
    assert "&lt;b&gt;no &amp; memory&lt;/b&gt;" in shown
    assert "<b>" not in shown


def test_waiting_ends_with_the_job_and_shows_its_progress(
    handle: JobHandle, service: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    service.on("GET", JOB, Answer(job(status_details=HALF)), Answer(job("completed")))
    assert handle.wait(poll_interval=0.01) is handle
    assert handle.status == "completed"
    found = capsys.readouterr()
    assert found.out == ""
    assert f"{NAME}: completed" in found.err


def test_waiting_ends_at_a_pause_and_without_a_bar_says_nothing(
    handle: JobHandle, service: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    service.on("GET", JOB, Answer(job("pausing")), Answer(job("paused")))
    assert handle.wait(poll_interval=0.01, bar=False).status == "paused"
    assert capsys.readouterr() == ("", "")


def test_waiting_gives_up_after_its_timeout(handle: JobHandle) -> None:
    with pytest.raises(JobWatchTimeoutError):
        handle.wait(timeout=0.05, poll_interval=0.01, bar=False)


@pytest.mark.parametrize("action", ["pause", "resume", "cancel"])
def test_an_action_is_asked_for_and_its_answer_is_the_new_state(
    handle: JobHandle, service: Scripted, action: str
) -> None:
    service.on("POST", f"{JOB}/{action}", Answer(job(f"{action}-asked")))
    assert getattr(handle, action)() is handle
    assert handle.status == f"{action}-asked"


def test_a_rerun_may_name_a_checkpoint(handle: JobHandle, service: Scripted) -> None:
    service.on("POST", f"{JOB}/rerun", Answer(job("created")))
    assert handle.rerun(checkpoint="ckpt-10").status == "created"
    (asked,) = service.requests("POST", f"{JOB}/rerun")
    assert "ckpt-10" in str((asked.body, asked.query))


def test_what_the_service_refuses_is_raised_and_changes_nothing(handle: JobHandle, service: Scripted) -> None:
    service.on("POST", f"{JOB}/resume", Answer({"detail": "there is nothing to resume"}, 409))
    with pytest.raises(errors.ConflictError, match="nothing to resume"):
        handle.resume()
    assert handle.status == "active"


def test_the_end_of_the_log_is_text(handle: JobHandle, service: Scripted) -> None:
    lines = [{"timestamp": "2026-11-01T10:00:00Z", "message": text} for text in ("one", "two")]
    service.on("GET", f"{JOB}/logs", Answer({"data": lines}))
    assert handle.logs(tail=2) == "one\ntwo"
    assert service.requests("GET", f"{JOB}/logs")[0].query["tail"] == ["2"]


@pytest.mark.slow
def test_metrics_are_a_data_frame_by_step(handle: JobHandle) -> None:
    found = handle.metrics()
    assert list(found.columns) == ["train_loss", "lr"]
    assert found.loc[2, "train_loss"] == 1.0
    assert found["lr"].isna().tolist() == [False, True]
    assert list(handle.metrics("*loss").columns) == ["train_loss"]
    assert handle.metrics("reward*").empty


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither pandas nor matplotlib is installed."""
    find = importlib.util.find_spec
    left_out = {"pandas", "matplotlib"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in left_out else find(name))


def test_without_pandas_metrics_are_rows(handle: JobHandle, without: None) -> None:
    found = handle.metrics()
    assert isinstance(found, MetricsTable)
    assert found[1] == {"step": 2, "train_loss": 1.0, "lr": None}
    assert repr(found) == "<2 training steps: step, train_loss, lr>"
    assert "<td>2</td><td>1</td><td></td>" in found._repr_html_()


def bill(service: Scripted) -> None:
    service.on(
        "GET", f"{JOB}/bill", Answer({"allocations": [], "totals": {}, "job": NAME, "status": "active"})
    )


def test_without_matplotlib_a_plot_is_text(handle: JobHandle, service: Scripted, without: None) -> None:
    bill(service)
    chart = handle.plot()
    assert isinstance(chart, TextChart)
    assert "train_loss fell from 2 at step 1 to 1 at step 2" in repr(chart)
    assert "no metrics yet" in handle.plot("nothing*")


@pytest.mark.slow
def test_a_plot_is_a_figure(handle: JobHandle, service: Scripted) -> None:
    bill(service)
    assert [axes.get_ylabel() for axes in handle.plot().axes] == ["loss", "lr"]


def test_a_submission_gives_such_a_handle(client: NemoClient, service: Scripted) -> None:
    def created(asked: Asked) -> Answer | None:
        return Answer(job("created"), 201) if asked.method == "POST" else None

    service.by_rule = created
    made = client.customization.rl.jobs.create(spec={"model": "default/base"})
    assert (made.status_code, made.data().status, made.job.status) == (201, "created", "created")
    service.by_rule = None
    assert made.refresh().status == "active"
    assert made.data().status == "created"


def test_a_job_itself_is_one_line_too(handle: JobHandle) -> None:
    assert repr(handle.job) == f"<HelixJobResponse '{NAME}' in default: active>"
