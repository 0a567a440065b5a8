"""The name of a task of lm-eval, wherever a benchmark is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.composition import Override, parse_overrides
from nemo_gym.errors import ConfigError
from nemo_gym.harness import environment, names
from nemo_gym.rollouts.run_config.schema import RunConfig, load_run_config


def loaded(tmp_path: Path, *tokens: str, benchmark: str | None = None, base: Any = None) -> RunConfig:
    overrides: list[Override] = parse_overrides(tokens)
    return load_run_config(
        [], benchmark, overrides, search_dirs=[], base=base, cwd=tmp_path, user_env=False
    ).config


@pytest.mark.parametrize("name", ["lm_eval/gsm8k", "lm_eval/mmlu_(general)", "lm_eval/a.b-c"])
def test_a_name_with_the_prefix_is_a_benchmark_without_a_file(name: str, tmp_path: Path) -> None:
    config = loaded(tmp_path, benchmark=name)
    assert config.benchmark.name == name
    assert config.benchmark.lm_eval is not None
    assert config.benchmark.lm_eval.task == name.removeprefix("lm_eval/")
    assert config.benchmark.verifier == {"type": "lm_eval"}


@pytest.mark.parametrize(
    "name", ["lm-eval/gsm8k", "lmeval/gsm8k", "LM_EVAL/gsm8k", "lm_eval:gsm8k", "lm-evaluation-harness/gsm8k"]
)
def test_another_way_to_write_the_prefix_is_answered_with_the_name(name: str, tmp_path: Path) -> None:
    meant = r" \(did you mean 'lm_eval/gsm8k'\?\)"
    with pytest.raises(ConfigError, match=f"there is no benchmark {name}{meant}"):
        loaded(tmp_path, benchmark=name)
    with pytest.raises(ConfigError, match=f"there is no {name}{meant} in"):
        loaded(tmp_path, base={"config_paths": [name]})


def test_a_submit_file_includes_it_by_the_same_name(tmp_path: Path) -> None:
    base = {"config_paths": ["lm_eval/gsm8k"], "benchmark": {"lm_eval": {"num_fewshot": 3}}}
    config = loaded(tmp_path, base=base)
    assert config.benchmark.lm_eval is not None
    assert (config.benchmark.lm_eval.task, config.benchmark.lm_eval.num_fewshot) == ("gsm8k", 3)


def test_what_was_loaded_can_be_written_down_and_loaded_again(tmp_path: Path) -> None:
    config = loaded(tmp_path, "benchmark.lm_eval.include_path=tasks", benchmark="lm_eval/gsm8k")
    assert config.benchmark.lm_eval is not None
    assert config.benchmark.lm_eval.include_path == [tmp_path / "tasks"]
    assert loaded(tmp_path, base=config.to_plain()) == config


def test_folders_of_a_submit_file_are_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside" / "tasks").mkdir(parents=True)
    base = {"config_paths": ["lm_eval/x"], "benchmark": {"lm_eval": {"include_path": ["tasks"]}}}
    config = load_run_config(
        [], None, [], search_dirs=[], base=base, cwd=tmp_path, base_folder=tmp_path / "beside", user_env=False
    ).config
    assert config.benchmark.lm_eval is not None
    assert config.benchmark.lm_eval.include_path == [tmp_path / "beside" / "tasks"]


@pytest.mark.parametrize("name", ["lm_eval/", "lm_eval", "lm_eval/a/b", "lm_eval/.x"])
def test_other_names_with_the_prefix_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        loaded(tmp_path, benchmark=name)


def test_another_verifier_for_such_a_benchmark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a benchmark with lm_eval has the verifier type lm_eval"):
        loaded(tmp_path, "benchmark.verifier.type=match", benchmark="lm_eval/gsm8k")


def test_the_verifier_without_a_task_is_refused(tmp_path: Path) -> None:
    base = {"benchmark": {"name": "x", "datasets": {}, "verifier": {"type": "lm_eval"}}}
    with pytest.raises(ConfigError, match="a benchmark with lm_eval has the verifier type lm_eval"):
        loaded(tmp_path, base=base)


def test_an_option_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="num_fewshot"):
        loaded(tmp_path, "benchmark.lm_eval.num_fewshots=3", benchmark="lm_eval/gsm8k")


def test_a_submission_refuses_a_name_that_lm_eval_does_not_have_where_its_names_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names.check("gsm9k", [])  # not known here yet
    index = environment.index_file()
    index.parent.mkdir(parents=True)
    index.write_text('[{"name": "gsm8k"}, {"name": "mmlu"}]')
    names.check("gsm8k", [])
    names.check("mine", [tmp_path])
    with pytest.raises(ConfigError, match=r"there is no lm_eval/gsm9k \(did you mean 'gsm8k'\?\)"):
        names.check("gsm9k", [])


def test_a_configuration_names_the_benchmark_as_it_was_asked_for() -> None:
    assert names.configuration("lm_eval/x")["benchmark"]["name"] == "lm_eval/x"
