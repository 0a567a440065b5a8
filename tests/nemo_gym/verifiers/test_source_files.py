"""A Python file that grades travels with the config that names it."""

from pathlib import Path

import pytest
from tests.result_rows import benchmark_config, run_config

from nemo_gym.composition import check_model
from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.run_config.identity import differences, identity_of
from nemo_gym.rollouts.run_config.schema import RunConfig
from nemo_gym.verifiers.registry import load_verifier

SOURCE = "def grade(answer, row):\n    return '${answer}' == answer\n"


def config(folder: Path, *overrides: str, verifier: str = "{type: python, path: grade.py}", source=SOURCE):
    path = benchmark_config(folder, verifier=verifier)
    (folder / "grade.py").write_text(source)
    return run_config(path, *overrides)


def scoring(config: RunConfig):
    return identity_of(config, dataset_sha256="d", model=None).scoring


def test_the_text_of_a_file_beside_the_config_is_part_of_it_and_needs_no_file_any_more(tmp_path):
    found = config(tmp_path / "b")
    (tmp_path / "b" / "grade.py").unlink()
    assert found.benchmark.verifier == {"type": "python", "path": "grade.py", "source": SOURCE}
    again = check_model(RunConfig, found.to_plain(), where="again")
    load_verifier(again.benchmark.verifier)
    assert scoring(again) == scoring(found)


def test_the_same_file_elsewhere_grades_the_same_and_a_changed_one_does_not(tmp_path):
    here, there = scoring(config(tmp_path / "a")), scoring(config(tmp_path / "b"))
    assert here == there
    (change,) = differences(here, scoring(config(tmp_path / "c", source=SOURCE + "# more\n")))
    assert change.startswith('benchmark.verifier.source: "sha256:')


def test_a_file_within_several_verifiers_is_found_too(tmp_path):
    inner = "{type: several, score: a, verifiers: {a: {type: match}, b: {type: python, path: grade.py}}}"
    found = config(tmp_path / "b", verifier=inner)
    assert found.benchmark.verifier["verifiers"]["b"]["source"] == SOURCE
    assert "sha256:" in str(scoring(found))


def test_a_file_of_the_command_line_replaces_the_configs(tmp_path):
    (tmp_path / "other.py").write_text("def grade(answer): return 1\n")
    found = config(tmp_path / "b", f"benchmark.verifier.path={tmp_path / 'other.py'}")
    assert found.benchmark.verifier["path"] == "other.py"
    assert found.benchmark.verifier["source"].startswith("def grade(answer): return 1")


def test_a_file_that_is_missing_is_named_with_its_key(tmp_path):
    path = benchmark_config(tmp_path, verifier="{type: python, path: grades.py}")
    with pytest.raises(
        ConfigError, match=rf"benchmark.verifier.path: there is no file {tmp_path}/grades.py\."
    ):
        run_config(path)
