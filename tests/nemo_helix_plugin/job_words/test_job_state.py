"""The state of a job, in words."""

from datetime import UTC, datetime, timedelta

import pytest

from nemo_helix_plugin.job_words import job_state

NOW = datetime(2026, 11, 29, 16, 0, tzinfo=UTC)
LATER = (NOW + timedelta(days=6, hours=3)).isoformat()


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({}, ""),
        ({"step": 40, "max_steps": 100}, "step 40 of 100 (40%)"),
        ({"step": 40}, "step 40"),
        ({"percentage_done": 12.6}, "13%"),
        ({"step": 3, "max_steps": 9, "epoch": 2, "num_epochs": 3}, "step 3 of 9 (33%), epoch 2 of 3"),
        ({"step": 3, "max_steps": 9, "stops_at": 4}, "step 3 of 9 (33%), stops at step 4"),
        ({"step": 4, "stops_at": 4}, "step 4"),
        (
            {"step": 92, "max_steps": 200, "epoch": 3.68, "num_epochs": 8},
            "step 92 of 200 (46%), epoch 3.68 of 8",
        ),
        ({"progress_pct": 250}, "100%"),
    ],
)
def test_progress_says_what_is_known_and_no_more(details, words):
    assert job_state.progress(details) == words


def test_storage_that_is_kept_says_until_when_and_how_long_that_is():
    job = {"storage_expires_at": LATER}
    assert job_state.kept(job, NOW) == "kept until 2026-12-05 19:00 UTC, 6 d 3 h left"
    assert job_state.kept(job, NOW, brief=True) == "kept 6 d more"
    assert job_state.kept(job, NOW + timedelta(days=7)) == "kept until 2026-12-05 19:00 UTC; is being deleted"


def test_storage_that_is_gone_says_since_when():
    job = {"status_details": {"storage_reclaimed_at": "2026-11-29T12:00:00Z"}}
    assert job_state.kept(job, NOW) == "was deleted 2026-11-29 12:00 UTC"


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"status": "error", "error_details": {"message": "out\nof memory"}}, "out of memory"),
        (
            {"status": "error", "error_details": {"message": "boom"}, "storage_expires_at": LATER},
            "boom; kept 6 d more",
        ),
        ({"status": "paused", "storage_expires_at": LATER}, "kept 6 d more"),
        ({"status": "queued", "reason": "GPU 0 is held by x"}, "GPU 0 is held by x"),
        ({"status": "cancelled", "reason": "pause_window_ended"}, "pause window ended"),
        ({"status": "active", "status_details": {"step": 1, "max_steps": 2}}, "step 1 of 2 (50%)"),
        ({"status": "completed", "status_details": {"step": 2}}, ""),
        (
            {"status": "active", "status_details": {"step": 1, "goes_on": "waits for a node after\na nap"}},
            "waits for a node after a nap",
        ),
        (
            {"status": "active", "status_details": {"leaves_because": "it is preempted"}},
            "saves and leaves: it is preempted",
        ),
    ],
)
def test_the_note_of_a_list_is_what_matters_in_that_status(job, words):
    assert job_state.note(job, NOW) == words


@pytest.mark.parametrize(
    ("job", "command"),
    [
        ({"status": "paused"}, "nemo jobs resume j --workspace w"),
        ({"status": "error"}, "nemo jobs rerun j --workspace w"),
        ({"status": "error", "error_details": {"rerun": "runs it again"}}, "nemo jobs rerun j --workspace w"),
        ({"status": "error", "error_details": {"rerun": None}}, ""),
        ({"status": "error", "error_details": {"rerun": "runs it again", "rerun_after_change": True}}, ""),
        (
            {"status": "error", "error_details": {"rerun": "runs it again", "rerun_after_change": False}},
            "nemo jobs rerun j --workspace w",
        ),
        ({"status": "active"}, "nemo jobs watch j --workspace w"),
        ({"status": "completed"}, ""),
        ({"status": "paused", "status_details": {"storage_reclaimed_at": "2026-11-29T12:00:00Z"}}, ""),
    ],
)
def test_the_next_command_is_one_that_would_work(job, command):
    assert job_state.next_command({"name": "j", "workspace": "w", **job}) == command


def test_warnings_name_checkpoints_that_were_passed_over():
    details = {"rerun_warning": "it will fail\nagain", "passed_over": [{"step": 20, "problem": "torn"}]}
    found = list(job_state.warnings({"status_details": details}))
    assert found == ["it will fail again", "a damaged checkpoint was passed over: step 20: torn"]


def test_what_a_training_warns_of_is_among_the_warnings():
    details = {"warnings": ["training rows: the model's chat template leaves out\n'user: name'"]}
    assert list(job_state.warnings({"status_details": details})) == [
        "training rows: the model's chat template leaves out 'user: name'"
    ]
    assert list(job_state.warnings({"status_details": {"warnings": {"no": "list"}}})) == []


def test_damaged_checkpoints_are_named_as_the_trainer_names_them():
    details = {"passed_over": ["/x/checkpoints/20/model: has 3 bytes,\nand 7 were written", "/x/10: is torn"]}
    assert list(job_state.warnings({"status_details": details, "status": "completed"})) == [
        "a damaged checkpoint was passed over: /x/checkpoints/20/model: has 3 bytes, and 7 were written",
        "a damaged checkpoint was passed over: /x/10: is torn",
    ]


@pytest.mark.parametrize("odd", ["a text", 7, {"step": 1}, None])
def test_what_is_no_list_of_checkpoints_is_none(odd):
    assert list(job_state.warnings({"status_details": {"passed_over": odd}})) == []


@pytest.mark.parametrize("status", ["active", "completed", "error"])
def test_a_tracker_that_is_not_told_is_a_warning(status):
    details = {"wandb_warning": "there is no\nAPI key", "mlflow_warning": "the server did not answer"}
    assert list(job_state.warnings({"status": status, "status_details": details})) == [
        "W&B is not updated: there is no API key",
        "MLflow is not updated: the server did not answer",
    ]


def test_runs_of_trackers_say_where_they_are_and_how_far_they_were_told():
    details = {
        "wandb_run": {"id": "r1", "url": "https://wandb.example/r1", "step": 40, "status": "running"},
        "mlflow_run": {"id": "r2"},
    }
    assert list(job_state.runs({"status_details": details})) == [
        ("W&B", "https://wandb.example/r1 (up to step 40, running)"),
        ("MLflow", "r2"),
    ]
    assert list(job_state.runs({"status_details": {"wandb_run": {}, "mlflow_run": "odd"}})) == []


@pytest.mark.parametrize(
    ("details", "words", "part"),
    [
        ({"phase": "downloading", "progress_pct": 40}, "downloading (40%)", 0.4),
        ({"phase": "downloading", "progress_pct": 100, "step": 0}, "downloading (100%)", 1.0),
        ({"phase": "starting", "progress_pct": 100, "step": 0}, "step 0", None),
        ({"phase": "training", "progress_pct": 100, "step": 1, "max_steps": 4}, "step 1 of 4 (25%)", 0.25),
        (
            {"phase": "uploading", "progress_pct": 10, "percentage_done": 100, "step": 4, "max_steps": 4},
            "uploading (10%)",
            0.1,
        ),
        ({"phase": "completed", "progress_pct": 100, "step": 4, "max_steps": 4}, "step 4 of 4 (100%)", 1.0),
    ],
)
def test_the_progress_of_files_is_not_that_of_training(details, words, part):
    assert (job_state.progress(details), job_state.fraction(details)) == (words, part)


def test_a_step_shows_what_its_newest_process_says():
    tasks = [
        {"status_details": {"step": 9, "max_steps": 10}},
        {"status_details": {"step": 4, "max_steps": 10}},
    ]
    assert job_state.step_note({"status": "active", "tasks": tasks}) == "step 4 of 10 (40%)"


@pytest.mark.parametrize(("status", "said"), [("error", ["boom"]), ("active", ["boom"]), ("completed", [])])
def test_a_rerun_is_warned_of_until_the_job_got_through(status, said):
    job = {"status": status, "status_details": {"rerun_warning": "boom"}}
    assert list(job_state.warnings(job)) == said


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("active", "14 d from a pause, 1 d from a failure"),
        ("paused", "1 d from a failure"),
        ("error", "14 d from a pause"),
        ("completed", ""),
    ],
)
def test_windows_that_were_set_and_have_not_begun_are_said(status, words):
    job = {
        "status": status,
        "control": {"pause_ttl_seconds": 1209600, "failed_ttl_seconds": 86400},
        "storage_expires_at": LATER if status in {"paused", "error"} else None,
    }
    assert job_state.windows(job) == words
    assert job_state.windows({**job, "control": None}) == ""


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"status": "paused"}, "resumes it"),
        ({"status": "error"}, "runs it again"),
        ({"status": "error", "error_details": {"message": "boom"}}, "runs it again"),
        (
            {"status": "error", "error_details": {"rerun": "goes on from its checkpoint of step 4"}},
            "goes on from its checkpoint of step 4",
        ),
    ],
)
def test_a_command_promises_no_checkpoint_that_nobody_has_seen(job, words):
    assert job_state.what_next(job) == words


@pytest.mark.parametrize(
    ("status", "shown"), [("active", "step 3 of 9 (33%), job 4711 on n3"), ("completed", "step 3 of 9 (33%)")]
)
def test_a_step_that_runs_elsewhere_says_where(status, shown):
    step = {
        "status": status,
        "status_details": {"place": "job 4711 on n3"},
        "tasks": [{"status_details": {"step": 3, "max_steps": 9, "percentage_done": 33.3}}],
    }
    assert job_state.step_note(step) == shown


def test_where_the_storage_is_gone_no_advice_says_rerun():
    error = {"advice": "free space and use `nemo jobs rerun j --workspace w`"}
    job = {"status": "error", "error_details": error}
    assert job_state.advice(job) == error["advice"]
    gone = {**job, "status_details": {"storage_reclaimed_at": "2026-11-02T00:00:00Z"}}
    assert job_state.advice(gone) == "its storage is deleted, so create a new job"
    other = {**gone, "error_details": {"advice": "halve the batch in a new job"}}
    assert job_state.advice(other) == "halve the batch in a new job"
