"""`nemo jobs plot`: charts for people, values for programs."""

from __future__ import annotations

import pytest
from tests.nemo_helix_plugin import stand_in

JOB, OTHER = "unsloth-0000000000aa", "done-1"


def points(*values):
    return [{"step": number, "epoch": 0.0, "value": value} for number, value in enumerate(values, start=1)]


@pytest.fixture
def trained(service):
    service.jobs[JOB]["status_details"] |= {
        "metrics": {
            "train_loss": points(2.0, 1.0, 0.5),
            "val_loss": [],
            "learning_rate": points(3e-4, 2e-4, 1e-4),
        }
    }
    return service


def test_a_person_gets_charts_and_sentences(trained, nemo):
    ran = nemo("jobs", "plot", JOB, "-f", "table")
    assert (ran.status, ran.err) == (0, "")
    assert "(loss)" in ran.out
    assert "train_loss fell from 2 at step 1 to 0.5 at step 3" in ran.out
    assert "learning_rate fell from 0.0003 at step 1 to 0.0001 at step 3" in ran.out


def test_a_pattern_leaves_the_others_out(trained, nemo):
    ran = nemo("jobs", "plot", JOB, "-f", "table", "--metric", "*rate")
    assert "learning_rate" in ran.out
    assert "train_loss" not in ran.out


def test_where_training_went_on_is_said(trained, nemo, monkeypatch):
    first, second = stand_in.BILL["allocations"]
    again = {**second, "attempt": 0, "first_step": 2}
    monkeypatch.setitem(stand_in.BILL, "allocations", [first, again])
    ran = nemo("jobs", "plot", JOB, "-f", "table")
    assert ran.out.endswith("at step 2: went on after an interruption: it was preempted\n")


def test_several_jobs_are_drawn_together(trained, nemo):
    trained.jobs[OTHER]["status_details"] |= {"metrics": {"train_loss": points(3.0, 2.5)}}
    ran = nemo("jobs", "plot", JOB, OTHER, JOB, "-f", "table")
    assert f"{OTHER}: train_loss fell from 3 at step 1 to 2.5 at step 2" in ran.out
    assert ran.out.count(f"{JOB}: train_loss") == 1


def test_a_program_gets_the_values(trained, nemo):
    rows = nemo("jobs", "plot", JOB, "--json").document
    assert rows[0] == {"job": JOB, "step": 1, "train_loss": 2.0, "learning_rate": 0.0003}
    ran = nemo("jobs", "plot", JOB, "-f", "csv")
    assert ran.out.splitlines()[:2] == ["job,step,train_loss,learning_rate", f"{JOB},1,2.0,0.0003"]


def test_a_job_without_metrics_says_so(service, nemo):
    ran = nemo("jobs", "plot", OTHER, "-f", "table")
    assert (ran.status, ran.out) == (0, "")
    assert ran.err == f"nemo: job '{OTHER}' is completed and has no metrics yet.\n"
    assert nemo("jobs", "plot", OTHER, "--json").document == []


def test_a_pattern_that_nothing_fits_names_what_there_is(trained, nemo):
    ran = nemo("jobs", "plot", JOB, "-f", "table", "--metric", "reward*")
    assert ran.err == f"nemo: job '{JOB}' has no metric like reward*; it has train_loss, learning_rate.\n"


def test_a_name_of_a_metric_cannot_steer_the_terminal(service, nemo):
    service.jobs[JOB]["status_details"] |= {"metrics": {"\x1b]0;owned\x07_loss": points(1.0, 2.0)}}
    ran = nemo("jobs", "plot", JOB, "-f", "table")
    assert ran.status == 0
    assert "\x1b" not in ran.out
    assert "\x07" not in ran.out


def test_the_code_that_is_shown_asks_for_every_job(service, nemo):
    ran = nemo("jobs", "plot", JOB, OTHER, "-f", "code")
    assert (ran.out.count(JOB), ran.out.count(OTHER)) == (1, 1)
    assert service.requests == []
