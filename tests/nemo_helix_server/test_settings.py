"""Settings: file, variables and overrides, and a sentence for everything that is wrong."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tests.source_tree import nodes, parsed

from nemo_helix_server import settings
from nemo_helix_server.errors import ServerError
from nemo_helix_server.settings import SettingsError


def load(tmp_path, text=None, environ=None, **overrides):
    file = None
    if text is not None:
        file = tmp_path / "settings.yaml"
        file.write_text(text)
    return settings.load(file, {"HOME": str(tmp_path), **(environ or {})}, overrides)


def test_the_defaults_are_those_of_the_interface(tmp_path):
    given = load(tmp_path)
    assert given.jobs.storage.paused_storage_ttl_seconds == 604_800
    assert given.jobs.storage.maximum_pause_ttl_seconds == 2_592_000
    assert given.jobs.storage.failed_storage_ttl_seconds == 14_400
    deadlines = [given.automodel, given.unsloth, given.rl]
    assert [backend.training_pause_deadline_seconds for backend in deadlines] == [1800, 1800, 3600]
    assert given.automodel.training_staleness_timeout_seconds == 3600
    assert (given.jobs.reconcile_interval_seconds, given.jobs.schedule_interval_seconds) == (2, 5)
    assert given.jobs.executor_defaults.subprocess.ttl_seconds_active is None
    assert given.data_dir == tmp_path / ".local" / "share" / "nhx"
    assert given.store_url() == f"sqlite:///{tmp_path}/.local/share/nhx/jobs.db"


def test_the_command_line_wins_over_variables_and_they_over_the_file(tmp_path):
    storage = "{failed_storage_ttl_seconds: 5, paused_storage_ttl_seconds: 6}"
    text = f"port: 1\nhost: 127.0.0.3\njobs: {{storage: {storage}}}\n"
    environ = {"NHX_PORT": "2", "NHX_JOBS_STORAGE_FAILED_STORAGE_TTL_SECONDS": "7"}
    given = load(tmp_path, text, environ, port=3)
    assert (given.port, given.host) == (3, "127.0.0.3")
    assert given.jobs.storage.failed_storage_ttl_seconds == 7
    assert given.jobs.storage.paused_storage_ttl_seconds == 6


def test_every_setting_has_a_variable_and_no_two_share_one(tmp_path):
    names = [name for name, _ in settings.variables()]
    assert len(names) == len(set(names))
    assert "NHX_UNSLOTH_TRAINING_PAUSE_DEADLINE_SECONDS" in names
    used_by_clients = {"NHX_BASE_URL", "NHX_ACCESS_TOKEN", "NHX_WORKSPACE", "NHX_CONFIG_FILE", "NHX_JOBS_URL"}
    assert not used_by_clients & set(names)


def test_a_variable_holds_yaml(tmp_path):
    given = load(tmp_path, environ={"NHX_JOBS_LEASES_DEVICES": '["0", "GPU-1"]'})
    assert given.jobs.leases.devices == ("0", "GPU-1")


def test_the_client_s_variables_are_left_alone(tmp_path):
    assert load(tmp_path, environ={"NHX_BASE_URL": "http://x", "NHX_PORTS": "y"}).port == 8080


@pytest.mark.parametrize(
    ("text", "environ", "words"),
    [
        ("prot: 1", {}, ["no setting 'prot'", "settings.yaml"]),
        ("jobs: {storage: {failed: 1}}", {}, ["no setting 'jobs.storage.failed'"]),
        ("- 1", {}, ["settings.yaml", "list"]),
        ("a: [", {}, ["settings.yaml", "not YAML"]),
        ("port: 1\nport: 2", {}, ["settings.yaml", "the key port is here a second time", "line 2"]),
        (None, {"NHX_PORT": "99999"}, ["'port'", "NHX_PORT", "65535"]),
        (
            None,
            {"NHX_JOBS_STORAGE_FAILED_STORAGE_TTL_SECONDS": "-1"},
            ["jobs.storage.failed_storage_ttl_seconds"],
        ),
        (
            None,
            {"NHX_JOBS_STORAGE_FAILED_STORAGE_TTL_SECONDS": "1e30"},
            ["jobs.storage.failed_storage_ttl_seconds"],
        ),
        # where the value came from, and not where it could have
        ("port: x", {}, ["'port' (from /", "settings.yaml) is wrong: "]),
        (
            "jobs: {executors: [{provider: gpu, backend: nise}]}",
            {},
            ["'jobs.executors.0.backend' (from /", "settings.yaml) is wrong: there is no executor 'nise'"],
        ),
        (
            "port: 1",
            {"NHX_JOBS_EXECUTORS": "[{provider: gpu, config: {ttl_seconds_actve: 1}}]"},
            ["config.ttl_seconds_actve' (from NHX_JOBS_EXECUTORS) (did you mean 'ttl_seconds_active'?)"],
        ),
        (
            "jobs: {executors: [{provider: gpu, backend: slurm, config: {rooot: /x}}]}",
            {},
            ["no setting 'jobs.executors.0.config.rooot'", "(did you mean 'root'?)"],
        ),
        ("jobs: {storag: {}}", {}, ["no setting 'jobs.storag'", "(did you mean 'storage'?)"]),
        (None, {"NHX_JOBS_RECONCILE_INTERVAL_SECONDS": ".nan"}, ["jobs.reconcile_interval_seconds"]),
    ],
)
def test_what_is_wrong_is_one_sentence_that_names_the_setting(tmp_path, text, environ, words):
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text, environ)
    assert "\n" not in caught.value.detail
    for word in words:
        assert word in caught.value.detail


def test_a_wrong_option_is_said_to_be_of_the_command_line():
    with pytest.raises(SettingsError, match=r"'port' \(from the command line\) is wrong: input should be"):
        settings.load(None, {"HOME": "/tmp"}, {"port": 99999})


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"none\.yaml cannot be read"):
        settings.load(tmp_path / "none.yaml", {})


def test_the_page_of_settings_is_what_the_settings_are():
    script = Path(__file__).resolve().parents[2] / "scripts" / "write_settings_reference.py"
    done = subprocess.run([sys.executable, script, "--check"], check=False)
    assert done.returncode == 0, "run `make reference`"


def fields(section):
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, settings.SettingsSection):
            yield from fields(kind)
        else:
            yield name, field.description


def test_every_setting_is_explained():
    assert [name for name, description in fields(settings.Settings) if not description] == []


def test_every_setting_is_read_or_says_that_it_is_not():
    sources = Path(settings.__file__).parent.rglob("*.py")
    read = {node.attr for path in sources for node in nodes(parsed(path), ast.Attribute)}
    unread = [key for key, text in fields(settings.Settings) if key not in read and "compatib" not in text]
    assert unread == []


def test_a_variable_that_looks_like_a_number_is_text_where_text_is_wanted():
    found = settings.load(environ={"NHX_DATA_DIR": "2024", "NHX_PUBLIC_URL": "1e3", "NHX_PORT": "9000"})
    assert (str(found.data_dir), found.public_url, found.port) == ("2024", "1e3", 9000)


def test_a_backend_whose_name_is_another_section_s_is_refused_where_it_is_used():
    given = settings.Settings()
    assert given.of_backend("rl").training_pause_deadline_seconds == 3600
    assert given.of_backend("automodel").training_staleness_timeout_seconds == 3600
    for name in ("files", "store_url", "nobody"):
        with pytest.raises(ServerError, match=f"the backend '{name}' cannot be used"):
            given.of_backend(name)
