"""Contexts and credentials from the command line, and what is said when a service cannot be had."""

import io
import socket
import stat

import pytest
import yaml

TOKEN = "nhx-very-secret"


@pytest.fixture
def contexts(own_home):
    return own_home / ".config" / "nhx" / "config.yaml"


def test_the_first_context_becomes_the_current_one_and_later_ones_only_with_activate(nemo, contexts):
    assert nemo("config", "set", "--context", "lab", "--base-url", "http://lab.example:1").status == 0
    assert (
        nemo("config", "set", "--context", "home", "--base-url", "http://localhost:1", "-w", "mine").status
        == 0
    )
    assert nemo("config", "current-context").out == "lab\n"
    assert nemo("config", "use-context", "home").status == 0
    assert nemo("config", "current-context").out == "home\n"
    assert nemo("config", "set", "--context", "third", "--base-url", "http://x:1", "--activate").status == 0
    assert nemo("config", "current-context", "--json").document == {"current_context": "third"}
    assert stat.S_IMODE(contexts.stat().st_mode) == 0o600
    assert stat.S_IMODE(contexts.parent.stat().st_mode) == 0o700


def test_a_deleted_context_takes_its_orphans_along_if_asked(nemo, contexts):
    nemo("config", "set", "--context", "lab", "--base-url", "http://lab.example:1")
    ran = nemo("config", "delete-context", "lab", "--prune-orphans", "--yes")
    assert (ran.status, ran.err) == (0, "nemo: removed lab, lab-cluster, lab-user.\n")
    assert yaml.safe_load(contexts.read_text())["contexts"] == []


def test_a_token_is_kept_and_never_shown(nemo, contexts, monkeypatch):
    monkeypatch.setenv("LAB_TOKEN", TOKEN)
    ran = nemo("config", "set", "--base-url", "http://localhost:1", "--access-token", "host:LAB_TOKEN")
    assert TOKEN not in ran.out + ran.err
    assert TOKEN in contexts.read_text()
    shown = nemo("config", "view")
    assert TOKEN not in shown.out + shown.err
    assert yaml.safe_load(shown.out)["users"][0]["token"] == "REDACTED"


def test_a_login_keeps_a_token_from_standard_input_and_requests_carry_it(service, nemo, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{TOKEN}\n"))
    assert nemo("auth", "login", "--token", "-").status == 0
    assert nemo("auth", "token").out == f"{TOKEN}\n"
    nemo("jobs", "list")
    assert service.requests[-1]["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    "words",
    [
        ("config", "set", "--access-token", TOKEN),
        ("config", "set", "--api-key", TOKEN),
        ("auth", "login", "--token", TOKEN),
        ("secrets", "create", "hf", "--value", TOKEN),
    ],
    ids=lambda words: " ".join(words[:-1]),
)
def test_a_literal_secret_is_refused_with_the_remedy_and_not_repeated(service, nemo, contexts, words):
    ran = nemo(*words)
    assert ran.status == 2
    assert "host:VARIABLE" in ran.err
    assert TOKEN not in ran.out + ran.err
    assert service.requests == []
    assert not contexts.exists()


def test_a_secret_from_the_environment_reaches_the_service_and_nothing_else(service, nemo, monkeypatch):
    monkeypatch.setenv("HF", TOKEN)
    ran = nemo("secrets", "create", "hf", "--value", "host:HF")
    assert ran.status == 0
    assert service.bodies("POST", "/secrets") == [{"name": "hf", "value": TOKEN}]
    assert TOKEN not in ran.out + ran.err
    assert TOKEN not in nemo("secrets", "create", "hf", "--value", "host:HF", "-f", "code").out


def test_an_unset_variable_is_named(nemo):
    ran = nemo("secrets", "create", "hf", "--value", "host:NO_SUCH_VARIABLE")
    assert ran.status == 2
    assert "the environment variable NO_SUCH_VARIABLE is not set, or empty" in ran.err


def test_a_new_token_is_printed_once(service, nemo):
    made = nemo("auth", "token", "create", "ci", "--role", "operate", "--workspace", "default").document
    assert made["token"] == "nhx-the-token-itself"
    assert service.bodies("POST", "/tokens") == [{"name": "ci", "role": "operate", "workspace": "default"}]
    assert "token" not in nemo("auth", "token", "list", "--json").document[0]
    assert nemo("auth", "token", "revoke", "token-1", "--yes").status == 0


def test_flags_win_over_environment_and_this_over_the_file(service, nemo, monkeypatch):
    nemo("config", "set", "--base-url", service.url, "--workspace", "from-file")
    for words, workspace in ((("-w", "from-flag"), "from-flag"), ((), "from-environment")):
        monkeypatch.setenv("NHX_WORKSPACE", "from-environment")
        nemo("jobs", "list", *words)
        assert f"/workspaces/{workspace}/jobs" in service.requests[-1]["path"]
    monkeypatch.delenv("NHX_WORKSPACE")
    nemo("jobs", "list")
    assert "/workspaces/from-file/jobs" in service.requests[-1]["path"]


def test_the_format_may_come_from_the_environment(service, nemo, monkeypatch):
    monkeypatch.setenv("NHX_OUTPUT_FORMAT", "csv")
    assert nemo("jobs", "list").out.startswith("name,description,status,created_at\n")


def test_verbose_says_whom_it_asks_and_never_the_token(service, nemo, monkeypatch):
    monkeypatch.setenv("NHX_ACCESS_TOKEN", TOKEN)
    ran = nemo("jobs", "list", "-v")
    where = "(context none, address from NHX_BASE_URL)"
    assert ran.err == f"nemo: asks {service.url} {where} with a token, workspace 'default'.\n"


# What is said when a service cannot be had: one sentence each, exit status 3 (or 1 where the fault is here)


def sentence(ran, status):
    assert (ran.status, ran.out) == (status, "")
    assert ran.err.count("\n") == 1
    return ran.err


def test_an_unknown_context_names_those_there_are(nemo):
    nemo("config", "set", "--context", "lab", "--base-url", "http://localhost:1")
    said = sentence(nemo("jobs", "list", "--context", "lba"), 1)
    assert "there is no context 'lba'" in said
    assert "(did you mean 'lab'?)" in said
    assert "there are: lab" in said


@pytest.mark.slow
def test_a_service_that_is_down_is_named_with_its_context(nemo):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        nemo("config", "set", "--context", "lab", "--base-url", f"http://127.0.0.1:{port}")
        said = sentence(nemo("jobs", "list"), 3)
    assert f"no service answers at http://127.0.0.1:{port} (context lab)" in said
    assert "nemo services run" in said


def test_an_address_with_the_wrong_protocol_is_said_to_be_that(service, nemo):
    said = sentence(nemo("jobs", "list", "--base-url", service.url.replace("http:", "https:")), 3)
    assert "does not speak TLS as it should" in said
    assert "http://" in said


def test_an_expired_token_says_what_to_do(service, nemo):
    service.failing = (401, {"detail": "the access token has expired"})
    said = sentence(nemo("jobs", "list"), 3)
    assert "the access token has expired" in said
    assert "nemo config set --access-token" in said


def test_a_token_for_another_workspace_is_refused_with_the_services_sentence(service, nemo):
    service.failing = (403, {"detail": "this token is for the workspace 'a', not 'b'"})
    assert "this token is for the workspace 'a', not 'b'" in sentence(nemo("jobs", "list", "-w", "b"), 3)


def test_something_else_that_answers_is_not_taken_for_the_service(service, nemo):
    service.failing = (200, b"<html>")
    assert "instead of JSON" in sentence(nemo("jobs", "list"), 3)


def test_a_damaged_contexts_file_is_named_with_its_line(nemo, contexts):
    contexts.parent.mkdir(parents=True)
    contexts.write_text("current_context: x\nclusters: [}\n")
    said = sentence(nemo("jobs", "list"), 1)
    assert f"{contexts}, line 2" in said
