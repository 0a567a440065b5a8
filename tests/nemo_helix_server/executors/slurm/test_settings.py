"""What a service with profiles of clusters refuses when it starts."""

import json

import pytest

from nemo_helix_server import settings
from nemo_helix_server.executors import dispatch
from nemo_helix_server.settings import Settings, SettingsError


def opened(data_dir, root):
    config = {"root": str(root)}
    executors = [{"provider": "gpu", "profile": "big", "backend": "slurm", "config": config}]
    executor = dispatch.of_service(Settings(data_dir=data_dir, jobs={"executors": executors}))
    executor.close()


@pytest.mark.parametrize(("data_dir", "root"), [("shared/nhx", "shared"), ("nhx", "nhx/runs"), ("x", "x")])
def test_the_services_keys_never_lie_where_jobs_can_read_them(tmp_path, data_dir, root):
    with pytest.raises(SettingsError, match=r"root .* of the profile gpu/big .* lie in each other"):
        opened(tmp_path / data_dir, tmp_path / root)


def test_a_link_hides_nothing(tmp_path):
    (tmp_path / "shared" / "mine").mkdir(parents=True)
    (tmp_path / "nhx").symlink_to(tmp_path / "shared" / "mine", target_is_directory=True)
    with pytest.raises(SettingsError):
        opened(tmp_path / "nhx", tmp_path / "shared")


def test_folders_side_by_side_are_fine(tmp_path):
    opened(tmp_path / "nhx", tmp_path / "nhx-shared")


@pytest.mark.parametrize(
    ("config", "key", "says"),
    [
        ({"options": {"partition": "x"}}, "options.partition", "it is set by partition"),
        ({"setup": "module load cuda"}, "setup", "must be a list"),
        ({"env": ["A=1"]}, "env", "must be a mapping of keys to values"),
        ({"container": "img.sqsh"}, "container", "must be a mapping of keys to values"),
        ({"qos": 3}, "qos", "must be text"),
    ],
)
def test_a_wrong_key_is_named_whole_and_in_words_of_yaml(tmp_path, config, key, says):
    file = tmp_path / "settings.yaml"
    profile = {"provider": "gpu", "profile": "big", "backend": "slurm", "config": {"root": "/x", **config}}
    file.write_text(json.dumps({"jobs": {"executors": [profile]}}))
    with pytest.raises(SettingsError) as caught:
        settings.load(file, {"HOME": str(tmp_path)})
    assert f"the setting 'jobs.executors.0.config.{key}' (from {file}" in caught.value.detail
    assert caught.value.detail.endswith(f" is wrong: {says}")
