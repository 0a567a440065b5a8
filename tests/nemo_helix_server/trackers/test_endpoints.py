"""Which keys and addresses a publisher gets, and which it never gets."""

from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from nemo_helix_server.settings import Settings
from nemo_helix_server.trackers.descriptions import TrackerEndpoint
from nemo_helix_server.trackers.endpoints import TrackerEndpoints, check_address
from nemo_helix_server.trackers.errors import OffError

OURS = {
    "WANDB_API_KEY": "our-key",
    "MLFLOW_TRACKING_URI": "http://ours.example",
    "MLFLOW_TRACKING_TOKEN": "our-token",
    "PATH": "/bin",
    "AWS_SECRET_ACCESS_KEY": "another",
}
WANDB = TrackerEndpoint(tracker="wandb", address=None, workspace="default", secret=None)
MLFLOW = TrackerEndpoint(tracker="mlflow", address=None, workspace="default", secret=None)


@pytest.fixture
def doors(tmp_path):
    folder = tmp_path / "secrets" / "default"
    folder.mkdir(parents=True)
    (folder / "key").write_text("their-key\n")
    return TrackerEndpoints(Settings(data_dir=tmp_path), {**OURS, "XDG_CACHE_HOME": str(tmp_path / "cache")})


def test_the_services_own_key_goes_to_its_own_address_only(doors):
    assert doors.environment(MLFLOW)["MLFLOW_TRACKING_TOKEN"] == "our-token"
    theirs = doors.environment(replace(MLFLOW, address="http://theirs.example"))
    assert theirs["MLFLOW_TRACKING_URI"] == "http://theirs.example"
    assert not {"our-token", "our-key", "another"} & set(theirs.values())
    assert doors.environment(WANDB)["WANDB_API_KEY"] == "our-key"
    with pytest.raises(OffError, match=r"no API key for W&B.*integrations\.wandb\.api_key_secret$"):
        doors.environment(replace(WANDB, address="http://theirs.example"))


def test_a_key_is_the_workspaces_secret(doors):
    there = doors.environment(replace(WANDB, address="https://theirs.example", secret="key"))
    assert (there["WANDB_API_KEY"], there["WANDB_BASE_URL"]) == ("their-key", "https://theirs.example")
    with pytest.raises(OffError, match="there is no secret 'other' in the workspace 'default'"):
        doors.environment(replace(WANDB, secret="other"))


def test_no_publisher_of_one_tracker_gets_the_others_variables_or_the_users_home(doors, tmp_path):
    given = doors.environment(MLFLOW)
    assert not [name for name in given if name.startswith(("WANDB", "AWS"))]
    assert given["HOME"].startswith(str(tmp_path))


@pytest.mark.parametrize(
    "address", ["sqlite:////etc/x.db", "file:///etc", "databricks", "http://", "https://user:word@host"]
)
def test_a_job_names_a_server_and_no_file(doors, address):
    with pytest.raises(
        OffError, match=r"integrations\.mlflow\.tracking_uri must be the http or https address"
    ):
        doors.environment(replace(MLFLOW, address=address))


def test_without_an_address_or_a_key_it_says_what_to_set(tmp_path):
    doors = TrackerEndpoints(Settings(data_dir=tmp_path), {"XDG_CACHE_HOME": str(tmp_path)})
    with pytest.raises(OffError, match="MLFLOW_TRACKING_URI"):
        doors.environment(MLFLOW)
    with pytest.raises(OffError, match="WANDB_API_KEY"):
        doors.environment(WANDB)


def test_offline_needs_no_key_and_disabled_is_off(tmp_path):
    doors = TrackerEndpoints(
        Settings(data_dir=tmp_path), {"WANDB_MODE": "offline", "XDG_CACHE_HOME": str(tmp_path)}
    )
    assert doors.environment(WANDB)["WANDB_MODE"] == "offline"
    off = Settings.model_validate({"data_dir": tmp_path, "trackers": {"wandb_mode": "disabled"}})
    with pytest.raises(OffError, match="switched off"):
        replace(doors, settings=off).environment(WANDB)


def test_variables_of_one_run_are_not_for_the_runs_of_jobs(doors):
    mine = {**doors.environ, "WANDB_RUN_ID": "x", "WANDB_ENTITY": "us"}
    given = replace(doors, environ=mine).environment(WANDB)
    assert "WANDB_RUN_ID" not in given
    assert given["WANDB_ENTITY"] == "us"


INTERNAL = [
    "http://127.0.0.1:5000", "http://localhost", "http://127.1", "http://2130706433", "http://0177.0.0.1",
    "http://0x7f.0.0.1", "http://0x7f000001/", "http://0", "http://[::1]:5000", "http://[::ffff:127.0.0.1]",
    "http://[::ffff:a9fe:a9fe]", "http://169.254.169.254/latest/meta-data", "http://[fe80::1]",
    "http://[fd00:ec2::254]", "http://100.100.100.200", "http://[64:ff9b::a9fe:a9fe]", "http://LOCALHOST",
    "http://[2002:7f00:1::]",
]  # fmt: skip


@pytest.mark.parametrize("address", INTERNAL)
def test_where_tokens_keep_people_apart_no_address_leads_to_this_machine(doors, address):
    with pytest.raises(OffError, match=r"leads to .*trackers\.allowed_hosts"):
        check_address(address, "integrations.mlflow.tracking_uri", ())
    assert check_address(address, "x", None) == address
    assert check_address(address, "x", [urlsplit(address).hostname]) == address
    given = Settings(data_dir=doors.settings.data_dir, trackers={"allowed_hosts": ()})
    with pytest.raises(OffError):
        TrackerEndpoints(given, OURS).environment(replace(MLFLOW, address=address))


@pytest.mark.parametrize("address", ["http://10.1.2.3:5000", "https://192.168.0.9", "http://no-such.invalid"])
def test_trackers_of_the_network_may_be_named(address):
    assert check_address(address, "x", ()) == address


@pytest.mark.parametrize(
    "address",
    ["http://good.example\\@127.0.0.1", "http://a@127.0.0.1", "http://[::1", "http://a b", "http://a\tb"],
)
def test_an_address_that_readers_disagree_about_is_refused(address):
    with pytest.raises(OffError, match="must be the http or https address"):
        check_address(address, "x", None)


def test_a_publisher_follows_nobody_to_this_machine(doors):
    given = Settings(data_dir=doors.settings.data_dir, trackers={"allowed_hosts": ("good.example",)})
    environment = TrackerEndpoints(given, OURS).environment(replace(MLFLOW, address="http://10.1.2.3"))
    assert environment["NEMO_TRACKER_HOSTS"] == "good.example"
    assert "NEMO_TRACKER_HOSTS" not in doors.environment(MLFLOW)
