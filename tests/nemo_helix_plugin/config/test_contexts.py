"""Which service, as whom, in which workspace: flags over environment over file over defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_helix_plugin.client.client import NemoClient
from nemo_helix_plugin.config import contexts, file
from nemo_helix_plugin.config.contexts import Changes, resolve
from nemo_helix_plugin.errors import ContextFileError

TWO = {
    "current_context": "lab",
    "clusters": [
        {
            "name": "lab-cluster",
            "base_url": "https://lab.example",
            "certificate_authority": "/ca.pem",
            "x": 1,
        },
        {"name": "home-cluster", "base_url": "http://localhost:9000"},
    ],
    "users": [
        {"name": "lab-user", "type": "oauth", "token": "lab-token", "refresh_token": "again"},
        {"name": "home-user", "type": "no-auth"},
    ],
    "contexts": [
        {
            "name": "lab",
            "cluster": "lab-cluster",
            "user": "lab-user",
            "workspace": "team",
            "preferences": {"output_format": "yaml", "truncate": False, "future": [1]},
        },
        {"name": "home", "cluster": "home-cluster", "user": "home-user"},
    ],
    "telemetry_enabled": False,
    "local_services": {"data_dir": "/data"},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = tmp_path / "config.yaml"
    where.write_text(yaml.safe_dump(TWO))
    return where


def test_without_a_file_everything_is_the_default() -> None:
    found = resolve(environ={})
    assert (found.base_url, found.workspace, found.context) == ("http://localhost:8080", "default", None)
    assert (found.output_format, found.timestamp_format, found.truncate) == ("table", "iso8601", True)
    assert (found.color_output, found.access_token(), found.origin) == (None, None, None)


def test_the_current_context_is_used(path: Path) -> None:
    found = resolve(path=path, environ={})
    assert (found.context, found.base_url, found.workspace) == ("lab", "https://lab.example", "team")
    assert (found.certificate_authority, found.access_token()) == ("/ca.pem", "lab-token")
    assert (found.output_format, found.truncate) == ("yaml", False)
    assert "lab-token" not in repr(found)


ENVIRONMENT = {
    "NHX_CURRENT_CONTEXT": "home",
    "NHX_BASE_URL": "https://other.example",
    "NHX_WORKSPACE": "mine",
    "NHX_ACCESS_TOKEN": "env-token",
    "NHX_OUTPUT_FORMAT": "csv",
    "NHX_TIMESTAMP_FORMAT": "relative",
    "NHX_TRUNCATE": "no",
    "NHX_COLOR_OUTPUT": "1",
}


def test_the_environment_wins_over_the_file(path: Path) -> None:
    found = resolve(path=path, environ=ENVIRONMENT)
    assert (found.context, found.base_url, found.workspace) == ("home", "https://other.example", "mine")
    assert (found.access_token(), found.origin) == ("env-token", "NHX_BASE_URL")
    assert (found.output_format, found.timestamp_format) == ("csv", "relative")
    assert (found.truncate, found.color_output) == (False, True)


def test_flags_win_over_the_environment(path: Path) -> None:
    found = resolve(
        context="lab", base_url="http://flag.example", workspace="w", path=path, environ=ENVIRONMENT
    )
    assert (found.context, found.base_url, found.workspace) == ("lab", "http://flag.example", "w")
    assert found.origin == "--base-url"


def test_the_token_of_the_environment_is_written_nowhere(path: Path) -> None:
    before = path.read_text()
    assert resolve(path=path, environ={"NHX_ACCESS_TOKEN": "once"}).access_token() == "once"
    assert path.read_text() == before


def test_a_workloads_token_is_read_each_time(path: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    found = resolve(path=path, environ={"NHX_WORKLOAD_IDENTITY_TOKEN_FILE": str(token)})
    with pytest.raises(ContextFileError, match=f"names {token}, which cannot be read"):
        found.access_token()
    for text in ("one", "two"):
        token.write_text(text + "\n")
        assert found.access_token() == text


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"NHX_CURRENT_CONTEXT": "nope"}, r"no context 'nope' in .*config.yaml; there are: lab, home"),
        ({"NHX_TRUNCATE": "perhaps"}, "NHX_TRUNCATE is 'perhaps'; it may be true or false"),
        ({"NHX_OUTPUT_FORMAT": "html"}, "output_format is 'html'; it may be table, json"),
        ({"NHX_TIMESTAMP_FORMAT": "unix"}, "timestamp_format is 'unix'"),
        ({"NHX_BASE_URL": "lab.example"}, "the base URL 'lab.example' must be like"),
    ],
)
def test_what_is_wrong_in_the_environment_is_one_sentence(
    path: Path, environ: dict[str, str], words: str
) -> None:
    with pytest.raises(ContextFileError, match=words):
        resolve(path=path, environ=environ)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"current_context": "gone"}, "no context 'gone'"),
        ({"current_context": 7}, "current_context must be text, not int"),
        ({"contexts": {"lab": {}}}, "contexts must be a list of entries with names"),
        ({"contexts": [{"cluster": "x"}]}, r"contexts\[0\] must be a mapping with a name"),
        ({"clusters": []}, "'lab' in .* refers to the cluster 'lab-cluster', which is not there"),
        ({"users": None}, "refers to the user 'lab-user', which is not there"),
        ({"clusters": [{"name": "lab-cluster", "base_url": 8080}]}, "base_url of lab-cluster must be text"),
        ({"contexts": [{"name": "lab", "preferences": "dark"}]}, "preferences of lab must be a mapping"),
        ({"contexts": [{"name": "lab", "preferences": {"truncate": "x"}}]}, "truncate must be true or false"),
    ],
)
def test_what_is_wrong_in_the_file_is_one_sentence(path: Path, change: dict[str, Any], words: str) -> None:
    path.write_text(yaml.safe_dump({**TWO, **change}))
    with pytest.raises(ContextFileError, match=words):
        resolve(path=path, environ={})


def test_a_named_file_must_be_there_and_a_context_without_any_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(ContextFileError, match="there is no configuration file"):
        resolve(path=tmp_path / "none.yaml", environ={})
    with pytest.raises(ContextFileError, match="none yet; 'nemo config set' makes one"):
        resolve(context="lab", environ={"NHX_CONFIG_FILE": str(tmp_path / "none.yaml")})


def test_the_first_context_becomes_current_and_later_ones_when_asked(tmp_path: Path) -> None:
    where = tmp_path / "config.yaml"
    assert contexts.set_context(Changes(base_url="http://localhost:1"), path=where, environ={}) == "default"
    contexts.set_context(Changes(base_url="https://two"), context="two", path=where, environ={})
    assert file.read(where)["current_context"] == "default"
    contexts.set_context(Changes(access_token="t"), context="two", activate=True, path=where, environ={})
    assert file.read(where) == {
        "contexts": [
            {"name": "default", "cluster": "default-cluster", "user": "default-user"},
            {"name": "two", "cluster": "two-cluster", "user": "two-user"},
        ],
        "clusters": [
            {"name": "default-cluster", "base_url": "http://localhost:1"},
            {"name": "two-cluster", "base_url": "https://two"},
        ],
        "users": [
            {"name": "default-user", "type": "no-auth"},
            {"name": "two-user", "type": "oauth", "token": "t"},
        ],
        "current_context": "two",
    }


def test_a_change_keeps_everything_else_that_the_file_says(path: Path) -> None:
    contexts.set_context(Changes(workspace="new", output_format="json"), path=path, environ={})
    expected = yaml.safe_load(yaml.safe_dump(TWO))
    expected["contexts"][0]["workspace"] = "new"
    expected["contexts"][0]["preferences"]["output_format"] = "json"
    assert file.read(path) == expected


def test_contexts_are_used_and_deleted(path: Path) -> None:
    contexts.use_context("home", path=path, environ={})
    assert resolve(path=path, environ={}).base_url == "http://localhost:9000"
    with pytest.raises(ContextFileError, match="no context 'nope'"):
        contexts.use_context("nope", path=path, environ={})
    assert contexts.delete_context("lab", path=path, environ={}) == ["lab"]
    assert len(file.read(path)["clusters"]) == 2
    gone = contexts.delete_context("home", prune_orphans=True, path=path, environ={})
    assert gone == ["home", "lab-cluster", "home-cluster", "lab-user", "home-user"]
    assert file.read(path) == {
        "clusters": [],
        "contexts": [],
        "current_context": None,
        "local_services": {"data_dir": "/data"},
        "telemetry_enabled": False,
        "users": [],
    }
    assert resolve(path=path, environ={}).context is None


def test_what_is_shown_holds_no_secret(path: Path) -> None:
    content = file.read(path)
    content["users"][0]["Client_Secret"] = "hush"
    content["clusters"][0]["base_url"] = "https://me:hush@lab.example/x"
    file.write(path, content)
    shown = yaml.safe_dump(contexts.view(all_contexts=True, path=path, environ={}))
    for secret in ("lab-token", "again", "hush"):
        assert secret not in shown
    assert "https://lab.example/x" in shown
    assert "REDACTED" in shown


def test_one_context_is_shown_with_its_own_parts(path: Path) -> None:
    shown = contexts.view(context="home", path=path, environ={})
    assert [entry["name"] for entry in shown["contexts"] + shown["clusters"] + shown["users"]] == [
        "home",
        "home-cluster",
        "home-user",
    ]


def test_a_client_is_made_from_the_context(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ENVIRONMENT:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("NHX_CONFIG_FILE", str(path))
    with NemoClient.from_config("home", timeout=3) as client:
        assert (client.base_url, client.workspace, client.context) == (
            "http://localhost:9000",
            "default",
            "home",
        )
        assert client.client_options.retry.retries == 2
        assert client.client_options.timeout == 3
    monkeypatch.setenv("NHX_BASE_URL", "http://localhost:7")
    with NemoClient.from_config("home") as client:
        assert repr(client) == "<NemoClient http://localhost:7 (context home, from NHX_BASE_URL)>"
