"""`nemo sweeps`: a table, a chart and actions over the jobs of a sweep."""

from __future__ import annotations

import pytest
from tests.nemo_helix_plugin import stand_in

LR = "schedule.learning_rate"


def member(number, status, *losses, rate):
    points = [{"step": step, "epoch": 0.0, "value": value} for step, value in enumerate(losses, start=1)]
    return stand_in.job(
        f"mine-{number}",
        status,
        status_details={"step": len(losses), "max_steps": 10, "metrics": {"train_loss": points}},
        custom_fields={"sweep": "mine", "swept": {LR: rate}},
    )


@pytest.fixture
def swept(service):
    service.jobs = {
        found["name"]: found
        for found in (
            member(2, "paused", 2.0, 1.5, rate=3e-5),
            member(1, "active", 2.0, 0.5, 0.75, rate=1e-5),
            member(3, "completed", rate=1e-4),
        )
    }
    return service


def test_the_jobs_are_compared_in_the_order_of_their_values(swept, nemo):
    rows = nemo("sweeps", "get", "mine", "--json").document
    assert [row["job"] for row in rows] == ["mine-1", "mine-2", "mine-3"]
    assert rows[0] == {
        "job": "mine-1",
        LR: 1e-05,
        "status": "active",
        "progress": "step 3 of 10 (30%)",
        "train_loss lowest": 0.5,
        "train_loss now": 0.75,
    }
    assert rows[2]["train_loss now"] is None


def test_a_person_gets_a_table(swept, nemo):
    ran = nemo("sweeps", "get", "mine", "-f", "table")
    assert (ran.status, ran.err) == (0, "")
    assert "mine-2" in ran.out
    assert "paused" in ran.out


def test_curves_are_named_by_the_values(swept, nemo):
    ran = nemo("sweeps", "plot", "mine", "-f", "table")
    assert (
        "learning_rate=1e-05: train_loss fell from 2 at step 1 to 0.75 at step 3; lowest 0.5 at step 2"
        in ran.out
    )
    assert nemo("sweeps", "plot", "mine", "--json").document[0]["job"] == "learning_rate=1e-05"
    nothing = nemo("sweeps", "plot", "mine", "-f", "table", "--metric", "x*")
    assert nothing.err == "nemo: no job of sweep 'mine' has a metric like x* yet.\n"


@pytest.mark.parametrize(
    ("verb", "done"), [("pause", ["mine-1"]), ("resume", ["mine-2"]), ("cancel", ["mine-1", "mine-2"])]
)
def test_an_action_is_done_to_the_jobs_that_it_fits(swept, nemo, verb, done):
    rows = nemo("sweeps", verb, "mine", *(["--yes"] if verb == "cancel" else []), "--json").document
    assert [row["name"] for row in rows if row["done"]] == done
    asked = [r["path"].split("/")[-2] for r in swept.requests if r["method"] == "POST"]
    assert asked == done
    assert [row["name"] for row in rows] == ["mine-1", "mine-2", "mine-3"]


def test_a_refusal_is_said_and_the_other_jobs_are_still_asked(swept, nemo, monkeypatch):
    monkeypatch.setitem(stand_in.REFUSALS, ("active", "cancel"), "job 'NAME' is busy")
    rows = nemo("sweeps", "cancel", "mine", "--yes", "--json").document
    assert [(row["name"], row["done"]) for row in rows][:2] == [("mine-1", False), ("mine-2", True)]
    assert "busy" in rows[0]["detail"]


def test_where_all_are_refused_the_command_fails(swept, nemo, monkeypatch):
    monkeypatch.setitem(stand_in.REFUSALS, ("active", "pause"), "job 'NAME' is busy")
    ran = nemo("sweeps", "pause", "mine")
    assert ran.status == 3
    assert "is busy" in ran.err


def test_to_cancel_without_a_terminal_takes_yes(swept, nemo):
    assert nemo("sweeps", "cancel", "mine").status == 2
    assert [r for r in swept.requests if r["method"] == "POST"] == []


def test_sweeps_are_listed_with_what_their_jobs_do(swept, nemo):
    (row,) = nemo("sweeps", "list", "--json").document
    assert (row["name"], row["jobs"], row["swept"]) == ("mine", 3, LR)
    assert row["statuses"] == "1 paused, 1 active, 1 completed"


def test_a_sweep_that_is_not_there_is_said(service, nemo):
    service.jobs = {}
    ran = nemo("sweeps", "get", "mine")
    assert ran.status == 2
    assert "There is no sweep 'mine' in workspace 'default'; `nemo sweeps list` names them." in ran.err


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
def test_to_show_code_acts_on_no_job(swept, nemo, verb):
    ran = nemo("sweeps", verb, "mine", *(["--yes"] if verb == "cancel" else []), "-f", "code")
    assert ran.status == 2
    assert "this makes one for each job of the sweep" in ran.err
    assert [r for r in swept.requests if r["method"] == "POST"] == []


@pytest.mark.parametrize("words", [("list",), ("get", "mine"), ("plot", "mine")])
def test_what_only_looks_shows_its_call_and_makes_none(swept, nemo, words):
    ran = nemo("sweeps", *words, "-f", "code")
    assert "jobs.list_jobs" in ran.out
    compile(ran.out, "shown", "exec")
    assert swept.requests == []


def test_a_failed_job_has_ended_and_is_not_cancelled(swept, nemo):
    swept.jobs["mine-1"]["status"] = "error"
    rows = nemo("sweeps", "cancel", "mine", "--yes", "--json").document
    assert (rows[0]["done"], rows[0]["detail"]) == (False, "ended before")


def test_jobs_with_the_same_values_are_told_apart_by_their_names(swept, nemo):
    swept.jobs["mine-2"]["custom_fields"]["swept"] = {LR: 1e-5}
    rows = nemo("sweeps", "plot", "mine", "--json").document
    assert {row["job"] for row in rows} == {"mine-1 learning_rate=1e-05", "mine-2 learning_rate=1e-05"}
