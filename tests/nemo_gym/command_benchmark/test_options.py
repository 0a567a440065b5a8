"""What a config may say of a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_gym.command_benchmark.options import CommandOptions, variables
from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.data.benchmark_list import list_benchmarks
from nemo_gym.rollouts.data.prepare import ensure_data
from nemo_gym.rollouts.run_config.identity import identity_of
from nemo_gym.rollouts.run_config.schema import RunConfig, load_run_config
from nemo_gym.schema import check_model

RESULTS = {"path": "out.json", "score": "accuracy"}
COMMAND: dict[str, Any] = {"argv": ["run", "--all"], "results": RESULTS}


def config(**command: Any) -> RunConfig:
    benchmark = {"name": "theirs", "command": {**COMMAND, **command}}
    return check_model(RunConfig, {"benchmark": benchmark}, where="it")


def test_a_command_needs_nothing_else_and_starts_beside_its_config(tmp_path: Path) -> None:
    path = tmp_path / "bench" / "config.yaml"
    path.parent.mkdir()
    path.write_text(
        "benchmark:\n  name: theirs\n  command:\n    argv: [run]\n    files: [task.py]\n"
        "    results: {path: out.json, score: accuracy}\n"
    )
    found = load_run_config([str(path)], None, [], search_dirs=[], cwd=tmp_path, user_env=False).config
    command = found.benchmark.command
    assert command is not None
    assert (command.working_folder, command.files) == (path.parent, [path.parent / "task.py"])
    assert (found.benchmark.agent, found.benchmark.verifier) == ({"type": "command"},) * 2
    again = check_model(RunConfig, found.to_plain(), where="again")
    assert again == found


def test_it_is_listed_and_has_no_rows_to_show(tmp_path: Path) -> None:
    folder = tmp_path / "benchmarks" / "theirs"
    folder.mkdir(parents=True)
    text = yaml.safe_dump({"benchmark": {"name": "theirs", "command": COMMAND}})
    (folder / "config.yaml").write_text(text)
    (entry,) = (one for one in list_benchmarks(cwd=tmp_path) if one.name == "theirs")
    assert (entry.prepared, entry.error) == (True, None)
    with pytest.raises(ConfigError, match="asks the model itself, so it has no rows to prepare or to show"):
        ensure_data(config())


def test_what_is_added_to_the_arguments() -> None:
    options = CommandOptions.model_validate(
        {**COMMAND, "resume_args": ["--go-on"], "limit_args": ["-n", "{limit}"]}
    )
    assert options.started(resumed=False, limit=None) == ["run", "--all"]
    assert options.started(resumed=True, limit=20) == ["run", "--all", "-n", "20", "--go-on"]
    shell = CommandOptions.model_validate({"shell": 'run "$@" | tee log', "results": RESULTS})
    assert shell.started(resumed=True, limit=None) == ["bash", "-c", 'run "$@" | tee log', "bash"]


def test_variables_are_texts_with_places_or_secrets_of_this_process() -> None:
    env = {"MODEL": "openai/{model}", "AT": "{outputs}/log {{x}}", "HF_TOKEN": "host:TOKEN"}
    places = {"model": "m", "base_url": "http://h/v1", "outputs": "/o"}
    found = variables(env, places, {"TOKEN": "s3cret"})
    assert found == {"MODEL": "openai/m", "AT": "/o/log {x}", "HF_TOKEN": "s3cret"}
    with pytest.raises(ConfigError, match=r"benchmark\.command\.env\.HF_TOKEN.*TOKEN is not set"):
        variables(env, places, {})


def test_answers_depend_on_the_command_and_grades_on_the_mapping() -> None:
    base = identity_of(config(), dataset_sha256="d", model=None)
    for same in (config(resume_args=["-r"]), config(stop_signal="INT"), config(working_folder="/x")):
        assert identity_of(same, dataset_sha256="d", model=None) == base
    other = identity_of(config(argv=["run"]), dataset_sha256="d", model=None)
    assert other.generation_digest != base.generation_digest
    read = identity_of(config(results={**RESULTS, "best": 100}), dataset_sha256="d", model=None)
    assert (read.generation_digest, read.scoring_digest != base.scoring_digest) == (
        base.generation_digest,
        True,
    )


@pytest.mark.parametrize(
    ("command", "phrase"),
    [
        ({"argv": None}, "needs argv .* or shell"),
        ({"shell": "run"}, "needs argv .* or shell"),
        ({"argv": []}, "argv"),
        ({"env": {"A": "{port}"}}, r"variable A: known places are \{model\}, \{base_url\}, \{outputs\}"),
        ({"env": {"A": "{model.name}"}}, r"variable A: known places are \{model\}"),
        ({"env": {"A": "{outputs[log]}"}}, r"variable A: known places are \{model\}"),
        (
            {"env": {"API_KEY": "sk-1"}},
            "variable API_KEY: a secret is not written into a config; write host:VARIABLE",
        ),
        ({"results": {"path": "out.json"}}, "needs samples or score"),
        ({"results": {**RESULTS, "path": "../out.json"}}, "must stay within the outputs folder"),
        ({"results": {**RESULTS, "values": {"C": 2}}}, "the reward of C is not from 0 to 1"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused(command: dict[str, Any], phrase: str) -> None:
    with pytest.raises(ConfigError, match=phrase):
        config(**command)


@pytest.mark.parametrize(
    "more",
    [
        {"prompt": {"user": "{q}"}},
        {"datasets": {"benchmark": {"jsonl_fpath": "rows.jsonl"}}},
        {"verifier": {"type": "match"}},
        {"agent": {"type": "single_turn"}},
    ],
)
def test_what_a_command_does_itself_is_said_nowhere_else(more: dict[str, Any]) -> None:
    benchmark = {"name": "theirs", "command": COMMAND, **more}
    with pytest.raises(ConfigError, match="has a command, which asks and grades itself"):
        check_model(RunConfig, {"benchmark": benchmark}, where="it")
    lonely = {"name": "x", "datasets": {}, "verifier": {"type": "command"}}
    with pytest.raises(ConfigError, match="belong to a benchmark with command"):
        check_model(RunConfig, {"benchmark": lonely}, where="it")
