"""What is asked of the service, and what is said when it refuses."""

import json

import pytest

PAUSED, ACTIVE, FAILED, DONE = "automodel-a1b2c3d4e5f6", "unsloth-0000000000aa", "rl-ffffffffffff", "done-1"
STEP = {"name": "training", "executor": {"provider": "subprocess", "command": ["true"]}}
BODY = {"source": "tests", "spec": {"a": 1}, "platform_spec": {"steps": [STEP]}}


@pytest.mark.parametrize(
    ("words", "request_line", "body"),
    [
        (("pause", ACTIVE), f"POST {ACTIVE}/pause", None),
        (("resume", PAUSED), f"POST {PAUSED}/resume", None),
        (("rerun", FAILED), f"POST {FAILED}/rerun", None),
        (("cancel", ACTIVE), f"POST {ACTIVE}/cancel", None),
        (
            ("control", PAUSED, "--pause-ttl-seconds", "1209600"),
            f"PATCH {PAUSED}/control",
            {"pause_ttl_seconds": 1209600},
        ),
        (("update", DONE, "--description", "x"), f"PATCH {DONE}", {"description": "x"}),
        (
            ("update", DONE, "--tag", "a", "--tag", "b", "--remove-tag", "c"),
            f"PATCH {DONE}",
            {"tags": {"add": ["a", "b"], "remove": ["c"]}},
        ),
        (("update-status-details", DONE, "--body", '{"a": 1}'), f"PATCH {DONE}/status-details", {"a": 1}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_an_action_asks_once_and_prints_the_job(service, nemo, words, request_line, body):
    ran = nemo("jobs", *words, "--workspace", "default")
    (asked,) = service.requests
    assert f"{asked['method']} {asked['path'].rpartition('/default/jobs/')[2]}" == request_line
    assert (ran.status, ran.document["name"], ran.err) == (0, words[1], "")
    assert asked["body"] == body


def test_a_rerun_can_name_its_checkpoint(service, nemo):
    assert nemo("jobs", "rerun", FAILED, "--checkpoint", "ckpt-40-0a1b2c3d4e").status == 0
    assert service.requests[0]["query"] == {"checkpoint": "ckpt-40-0a1b2c3d4e"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("resume", ACTIVE), f"nemo: job '{ACTIVE}' is active; there is nothing to resume [409, URL]."),
        (
            ("rerun", PAUSED),
            f"nemo: job '{PAUSED}' is paused; `nemo jobs resume {PAUSED}` goes on with it [409, URL].",
        ),
        (("pause", DONE), f"nemo: job '{DONE}' is completed and cannot be paused [409, URL]."),
        (
            ("delete", ACTIVE, "--yes"),
            f"nemo: job '{ACTIVE}' is active; `nemo jobs cancel {ACTIVE}` ends it [409, URL].",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_refusal_is_the_services_own_sentence_and_is_asked_for_once(service, nemo, words, sentence):
    ran = nemo("jobs", *words)
    where = f"{service.url} (from NHX_BASE_URL)"
    assert ran == (3, "", sentence.replace("URL", where) + "\n")
    assert len(service.requests) == 1


def test_what_is_not_there_is_named_with_the_request(service, nemo):
    ran = nemo("jobs", "get", "nope")
    assert ran.status == 3
    said, asked = ran.err.splitlines()
    assert said.startswith("nemo: there is no job 'nope' in workspace 'default' [404, ")
    assert asked.startswith(f"nemo: asked: GET {service.url}/apis/jobs/v2/workspaces/default/jobs/nope")


def test_delete_says_in_one_line_that_it_is_done(service, nemo):
    assert nemo("jobs", "delete", DONE, "--yes") == (0, f"job '{DONE}' is being deleted.\n", "")
    assert nemo("jobs", "delete", FAILED, "--json", "--yes").document == {"name": FAILED, "deleted": True}


def test_pausing_everything_names_what_could_not_be_paused(service, nemo):
    ran = nemo("jobs", "pause", "--all", "--yes")
    assert (ran.status, ran.document["pausing"], ran.document["refused"][0]["name"]) == (0, [ACTIVE], DONE)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("control", PAUSED), "Missing option '--pause-ttl-seconds'; 1209600 would be 14 days."),
        (
            ("control", PAUSED, "--pause-ttl-seconds", "-1"),
            "Invalid value for '--pause-ttl-seconds': -1 is not",
        ),
        (
            ("control", PAUSED, "--pause-ttl-seconds", "14d"),
            "Invalid value for '--pause-ttl-seconds': '14d' is not",
        ),
        (("pause",), "Give the name of one job, or --all."),
        (("pause", ACTIVE, "--all"), "Give the name of one job, or --all."),
        (("update", DONE), "There is nothing to change"),
        (("update", DONE, "--spec", "{}"), "spec and platform_spec are updated together"),
        (("update", DONE, "--spec", "[1]"), "this is a JSON list; an object in braces is needed"),
        (("get-logs", DONE, "--tail", "3", "--limit", "4"), "--tail goes with none of --limit"),
        (("tail", DONE, "-n", "10001"), "10001 is not in the range 1<=x<=10000"),
        (("get", ".."), "name is '..', which names nothing"),
        (("list", "--filter.status", "eror"), "There is no status 'eror' (did you mean 'error'?)"),
        (("list", "--all-page"), "'--all-pages'"),
        (("resme", PAUSED), "No such command 'resme' (did you mean 'resume'?)"),
        (("create",), "A job needs --source, --spec and --platform-spec, as options or in --input-file."),
        (("create", "--wait", "--watch"), "Give --wait or --watch, not both."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_usage_error_is_one_sentence_and_asks_nothing(service, nemo, words, sentence):
    ran = nemo("jobs", *words)
    assert (ran.status, ran.out) == (2, "")
    assert sentence in ran.err
    assert ran.err.count("\n") == 1
    assert service.requests == []


def test_a_file_that_is_given_as_the_name_is_answered_with_its_option(nemo, tmp_path):
    (tmp_path / "job.yaml").write_text("name: x\n")
    ran = nemo("jobs", "create", str(tmp_path / "job.yaml"))
    assert (ran.status, ran.out) == (2, "")
    assert f"to give the file {tmp_path}/job.yaml, type --input-file {tmp_path}/job.yaml." in ran.err


def test_create_takes_the_body_from_a_file_and_flags_win(service, nemo, tmp_path):
    (tmp_path / "job.yaml").write_text(json.dumps({**BODY, "description": "old", "project": "p"}))
    ran = nemo("jobs", "create", "new-1", "--input-file", tmp_path / "job.yaml", "--description", "new")
    assert ran.document["name"] == "new-1"
    (sent,) = service.bodies("POST", "/jobs")
    assert (sent["name"], sent["description"], sent["project"]) == ("new-1", "new", "p")


def test_create_takes_the_body_from_standard_input(service, nemo, monkeypatch):
    import io

    monkeypatch.setattr(
        "sys.stdin",
        io.StringIO("source: tests\nspec: {}\nplatform_spec:\n  steps: [" + json.dumps(STEP) + "]\n"),
    )
    assert nemo("jobs", "create", "--input-file", "-").status == 0
    assert service.bodies("POST", "/jobs")[0]["source"] == "tests"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sauce": "x"}, "sauce: there is no such field (did you mean 'source'?)"),
        ({"platform_spec": {"steps": []}}, "platform_spec.steps: list should have at least 1 item"),
        (
            {"platform_spec": {"steps": [STEP], "secrets": [{"name": "hf", "value": "hf_verysecret"}]}},
            "store it with 'nemo secrets create' and name it in ref_id",
        ),
    ],
)
def test_a_body_that_cannot_be_is_refused_here_naming_the_field(service, nemo, change, sentence):
    ran = nemo("jobs", "create", "--input-data", json.dumps({**BODY, **change}))
    assert (ran.status, ran.out) == (2, "")
    assert sentence in ran.err
    assert "verysecret" not in ran.err
    assert service.requests == []


def test_a_file_that_is_no_yaml_is_refused_with_its_line(service, nemo, tmp_path):
    (tmp_path / "job.yaml").write_text("source: x\nspec: {a: [}\n")
    ran = nemo("jobs", "create", "--input-file", tmp_path / "job.yaml")
    assert ran.status == 2
    assert "job.yaml, line 2 is neither JSON nor YAML" in ran.err


def test_logs_are_lines_for_people_and_records_for_programs(service, nemo):
    service.lines = ["\x1b[31mred\x1b[0m and a tab\there", "10 %\r20 %\r30 %"]
    ran = nemo("jobs", "get-logs", DONE, "-f", "table")
    assert ran.out == (
        "2026-11-01T10:00:00Z  training  red and a tab    here\n2026-11-01T10:00:01Z  training  30 %\n"
    )
    assert nemo("jobs", "tail", DONE, "-n", "1").document[0]["message"] == "10 %\r20 %\r30 %"


def test_a_log_of_which_there_is_more_says_how_to_go_on(service, nemo):
    ran = nemo("jobs", "get-logs", DONE, "--limit", "2", "-f", "table")
    assert ran.out.count("\n") == 2
    assert "--page-cursor 2 goes on from here" in ran.err
    rest = nemo("jobs", "get-logs", DONE, "--page-cursor", "2", "--all-pages", "--json")
    assert [line["message"][:6] for line in rest.document] == ["step 3", "step 4", "step 5"]


@pytest.mark.parametrize(
    "words",
    [
        ("attempts", "list", DONE),
        ("attempts", "get", "current", "--job", DONE),
        ("checkpoints", "list", DONE),
        ("checkpoints", "get", "ckpt-40-0a1b2c3d4e", "--job", DONE),
        ("checkpoints", "pin", "ckpt-40-0a1b2c3d4e", "--job", DONE),
        ("checkpoints", "unpin", "ckpt-40-0a1b2c3d4e", "--job", DONE, "--yes"),
        ("results", "list", DONE),
        ("results", "get", "model", "--job", DONE),
        ("results", "create", "model", "--job", DONE, "--artifact-url", "default/out"),
        ("steps", "list", DONE),
        ("steps", "get", "training", "--job", DONE),
        ("steps", "update-status", "training", "--job", DONE, "--status", "completed"),
        ("tasks", "list", "--job", DONE, "--step", "training"),
        ("tasks", "get", "task-1", "--job", DONE, "--step", "training"),
        ("tasks", "create-or-update", "task-1", "--job", DONE, "--step", "training", "--status", "active"),
        ("transitions", DONE),
        ("bill", DONE),
        ("list-execution-profiles",),
        ("get-status", DONE),
    ],
    ids=" ".join,
)
def test_every_other_command_prints_one_document(service, nemo, words):
    ran = nemo("jobs", *words, "--json")
    assert (ran.status, ran.err) == (0, "")
    assert ran.document


def test_a_result_is_downloaded_whole_into_a_file(service, nemo, tmp_path):
    target = tmp_path / "model.bin"
    ran = nemo("jobs", "results", "download", "model", "--job", DONE, "-o", target)
    assert (ran.status, target.read_bytes()) == (0, b"the artifact")
    assert ran.out == f"{target}: 12 bytes\n"


def test_a_cancel_that_changes_nothing_says_so(service, nemo):
    ran = nemo("jobs", "cancel", DONE)
    said = f"nemo: job '{DONE}' is completed: there was nothing to cancel, and nothing was changed.\n"
    assert (ran.status, ran.document["status"], ran.err) == (0, "completed", said)


def test_a_number_that_is_none_is_refused_in_plain_words(nemo):
    ran = nemo("jobs", "control", PAUSED, "--pause-ttl-seconds", "14d")
    assert (ran.status, "'14d' is not a whole number." in ran.err) == (2, True)


def test_a_choice_that_is_missing_is_one_line(nemo):
    ran = nemo("auth", "token", "create", "x2")
    said = "nemo: Missing option '--role'. Choose from: read, operate, admin. See"
    assert (ran.status, ran.err) == (2, f"{said} 'nemo auth token create --help'.\n")


def test_a_job_that_was_there_already_is_not_said_to_be_made(service, nemo):
    body = {**BODY, "name": "twice"}
    first, second = (nemo("jobs", "create", "--input-data", json.dumps(body)) for _ in range(2))
    assert (first.status, first.err) == (0, "")
    assert (second.status, second.document) == (0, first.document)
    assert second.err == "nemo: job 'twice' was there already, with the same contents; none was made.\n"
