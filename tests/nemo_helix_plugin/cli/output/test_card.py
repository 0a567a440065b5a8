"""A job's card, as it is printed."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from nemo_helix_plugin.cli.output import card, cells

DISPLAY = cells.DisplayOptions(datetime(2026, 11, 29, 18, 0, tzinfo=UTC))


def printed(job: dict[str, Any], tree: dict[str, Any] | None = None) -> str:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(card.card({"name": "job-1", "workspace": "default", **job}, tree, DISPLAY))
    return console.export_text()


def test_between_download_and_training_there_is_no_full_bar() -> None:
    details = {"phase": "starting", "progress_pct": 100, "step": 0}
    text = printed({"status": "active", "status_details": details})
    assert "step 0" in text
    assert "100%" not in text
    assert "━" not in text


def test_a_damaged_checkpoint_trackers_and_their_warnings_are_on_the_card() -> None:
    details = {
        "step": 3,
        "max_steps": 9,
        "passed_over": ["/x/20/model: is missing"],
        "mlflow_warning": "no answer",
        "mlflow_run": {"id": "r", "url": "http://mlflow.example/r", "step": 2},
    }
    text = printed({"status": "active", "status_details": details})
    assert "a damaged checkpoint was passed over: /x/20/model: is missing" in text
    assert "MLflow is not updated: no answer" in text
    assert "http://mlflow.example/r (up to step 2)" in text


def test_a_specification_that_can_only_be_replaced_has_no_next_command() -> None:
    failed = {"message": "it was refused", "advice": "correct it in a new job", "rerun": None}
    text = printed({"status": "error", "error_details": failed})
    assert "correct it in a new job" in text
    assert "rerun" not in text


def test_a_step_shows_the_progress_of_its_newest_process() -> None:
    task = {"name": "task-1", "status": "active", "status_details": {"step": 4, "max_steps": 8}}
    tree = {"steps": [{"name": "training", "status": "active", "status_details": {}, "tasks": [task]}]}
    assert "step 4 of 8 (50%)" in printed({"status": "active"}, tree)


def test_an_interval_that_was_chosen_says_of_what_and_one_that_was_given_says_nothing() -> None:
    chosen = {
        "seconds": 415.0,
        "chosen_by": "daly",
        "save_seconds": 1.0,
        "save_measured": True,
        "between_interruptions": 86400.0,
        "interruptions_measured": False,
    }
    text = printed({"status": "active", "status_details": {"checkpoint_interval": chosen}})
    assert "saves" in text
    assert "every 6 min" in text
    assert "which costs least (a save takes 1 s, measured; interrupted every 1 d, presumed)" in text
    given = {"seconds": 900.0, "chosen_by": "given"}
    assert "saves" not in printed({"status": "active", "status_details": {"checkpoint_interval": given}})


def test_a_step_between_two_allocations_says_what_it_waits_for() -> None:
    waits = "waits for a node after it was preempted, 3rd allocation, from step 4,200"
    step = {"name": "training", "status": "queued", "status_details": {"goes_on": waits}}
    text = printed({"status": "active", "status_details": {"goes_on": waits}}, {"steps": [step]})
    assert text.count(waits) == 2


def test_a_run_that_is_not_seen_says_so_beside_its_progress_and_its_reason() -> None:
    unseen = "not seen since 2026-11-30 16:40 UTC: lab cannot be asked"
    for status in ("active", "pausing", "cancelling"):
        details = {"step": 85, "max_steps": 600, "executor_problem": unseen}
        assert printed({"status": status, "status_details": details}).count(unseen) == 1
        text = printed({"status": status, "status_details": {**details, "message": "it goes on"}})
        assert "it goes on" in text
        assert text.count(unseen) == 1


def test_a_completed_job_names_its_model_and_every_next_command() -> None:
    spec = {"output": {"name": "sums", "fileset": "sums-1"}}
    text = printed({"status": "completed", "source": "customization", "spec": spec})
    assert "default/sums" in text
    verbs = ("models chat", "models serve", "models export", "models push")
    assert [f"nemo {verb} sums" in text for verb in verbs] == [True] * 4
    assert "gym eval run --benchmark BENCHMARK --model default/sums" in text
