"""From a submit file and the command line to the config exactly as submitted."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.nemo_gym.orchestration.submit_files import write

from nemo_gym.composition import compose, load_yaml, parse_overrides
from nemo_gym.errors import ConfigError, UsageError
from nemo_gym.orchestration.config.resolve import Narrowing, ResolvedConfig, escaped, resolve, to_yaml


def resolved(
    folder: Path, changes: dict[str, Any] | None = None, *tokens: str, **narrowing: Any
) -> ResolvedConfig:
    path = write(folder, changes)
    return resolve(path, parse_overrides(tokens), Narrowing(**narrowing), cwd=folder)


def again(first: ResolvedConfig, folder: Path) -> ResolvedConfig:
    """Submit the resolved config from another folder."""
    folder.mkdir()
    path = folder / "resolved-config.yaml"
    path.write_text(first.to_yaml())
    return resolve(path, cwd=folder)


NASTY = {
    "services/policy/command": 'serve --port {port} "${HOME}" $X\n\\${B} \\\\${C} # é\n',
    "services/policy/env": {
        "A": "48:00:00", "B": "1e-3", "C": "yes", "D": "null", "E": "a: b", "F": "host:CANARY",
        "G": "2024-01-01", "H": "010", "I": "lit:runtime:X", "J": " blank ", "K": "~", "L": "${x}",
        "M": "a\tb\r\n", "N": "???x",
    },
    "compute/here/walltime": "48:00:00",
    "driver/benchmarks/sums/resumable": {"max_walltime": "0-05"},
    "driver/benchmarks/sums/run/responses_create_params": {"temperature": 1e-05, "stop": ["a", "\\n"]},
}  # fmt: skip


def test_a_resolved_config_can_be_submitted_again_and_means_the_same(tmp_path: Path):
    first = resolved(tmp_path / "a", escaped(NASTY))
    command = first.config.services["policy"].command  # type: ignore[union-attr]
    assert command == NASTY["services/policy/command"]
    second = again(first, tmp_path / "b")
    assert second.config == first.config
    assert second.plain == first.plain
    assert second.digest == first.digest
    assert second.to_yaml() == first.to_yaml()


def test_the_config_of_a_benchmark_is_no_submit_file_and_that_is_said(tmp_path: Path):
    (tmp_path / "config.yaml").write_text("benchmark: {name: sums}\nnum_repeats: 2\n")
    with pytest.raises(ConfigError) as caught:
        resolve(Path("config.yaml"), cwd=tmp_path)
    message = str(caught.value)
    assert message.startswith("config.yaml: this is the config of a benchmark")
    assert "driver.benchmarks.NAME.run.config_paths; `gym eval run -c config.yaml`" in message


def test_any_text_with_dollar_braces_is_escaped_so_that_reading_it_again_takes_it_as_text():
    pieces = ["$", "{", "}", "\\", "a", " ", "\n", "${", ":", "${oc.env:HOME}"]
    chosen = random.Random(5)
    for _ in range(400):
        text = "".join(chosen.choice(pieces) for _ in range(chosen.randint(1, 8)))
        found = compose({"t": escaped(text)}, [], known=None, where="x")
        assert found["t"] == text


def test_every_kind_of_text_is_read_back_as_the_same_text(tmp_path: Path):
    texts = [
        *NASTY["services/policy/env"].values(),
        "1_000",
        "0x1F",
        "1.",
        ".5",
        "12:30",
        "=",
        "<<",
        "on",
        "- a",
        "#",
    ]
    path = tmp_path / "texts.yaml"
    path.write_text(to_yaml({"texts": texts, "48:00:00": "key"}))
    assert load_yaml(path) == {"texts": texts, "48:00:00": "key"}


def test_host_references_are_written_as_written_and_nothing_is_looked_up(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CANARY", "canary-3")
    first = resolved(tmp_path, {"driver/env": {"HF_TOKEN": "host:CANARY", "UNSET": "host:NOT_SET_ANYWHERE"}})
    assert first.plain["driver"]["env"] == {"HF_TOKEN": "host:CANARY", "UNSET": "host:NOT_SET_ANYWHERE"}
    assert "canary-3" not in first.to_yaml() + first.to_json() + repr(first)


def test_interpolations_are_resolved_and_scratch_keys_are_dropped(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("WHO", "ada")
    changes = {
        "_names": {"model": "tiny-2"},
        "services/policy/model_name": "${_names.model}",
        "job/output_path": "/data/${oc.env:WHO}/${oc.env:NOT_SET_ANYWHERE,none}",
    }
    first = resolved(tmp_path, changes)
    assert first.config.services["policy"].model_name == "tiny-2"  # type: ignore[union-attr]
    assert first.config.job.output_path == "/data/ada/none"
    assert "_names" not in first.plain


def test_a_scratch_key_can_be_changed_on_the_command_line_but_not_added(tmp_path: Path):
    changes = {"_names": {"model": "a"}, "services/policy/model_name": "${_names.model}"}
    assert resolved(tmp_path, changes, "_names.model=b").plain["services"]["policy"]["model_name"] == "b"
    for token in ("+_typo.model=b", "++_typo=b"):
        with pytest.raises(ConfigError, match="scratch key"):
            resolved(tmp_path, changes, token)


def test_a_secret_by_interpolation_is_refused_in_favour_of_a_host_reference(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("CANARY", "canary-4")
    with pytest.raises(ConfigError, match="write host:CANARY") as caught:
        resolved(tmp_path, {"driver/env": {"HF_TOKEN": "${oc.env:CANARY}"}})
    assert "canary-4" not in str(caught.value)


def test_overrides_are_applied_and_a_mistyped_one_names_the_nearest(tmp_path: Path):
    found = resolved(tmp_path, None, "compute.here.max_parallel=3", "+driver.env.A=x:y", "job.output_path=/d")
    assert found.config.machine.max_parallel == 3
    assert found.config.driver.env == {"A": "x:y"}
    with pytest.raises(ConfigError, match=r"compute\.here\.max_paralel: .*compute\.here\.max_parallel"):
        resolved(tmp_path, None, "compute.here.max_paralel=3")


def test_a_key_of_a_run_can_be_set_though_the_file_does_not_have_it(tmp_path: Path):
    run = "driver.benchmarks.sums.run"
    tokens = [
        f"{run}.limit=3",
        f"{run}.responses_create_params.temperature=0.5",
        f"{run}.benchmark.agent.type=x",
    ]
    mapping = resolved(tmp_path, None, *tokens).config.driver.benchmarks["sums"].run
    assert mapping["limit"] == 3
    assert mapping["responses_create_params"] == {"temperature": 0.5}
    assert mapping["benchmark"] == {"agent": {"type": "x"}}


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("driver.benchmarks.sums.run.limt", "driver.benchmarks.sums.run.limit"),
        ("driver.benchmarks.sum.run.limit", "driver.benchmarks.sums.run.limit"),
        ("driver.benchmarks.sums.prepare.splt", "driver.benchmarks.sums.prepare.split"),
        (
            "driver.benchmarks.sums.run.temperature",
            "driver.benchmarks.sums.run.responses_create_params.temperature",
        ),
        ("driver.benchmarks.sums.run.concurrency", "driver.benchmarks.sums.run.num_samples_in_parallel"),
    ],
)
def test_a_mistyped_key_of_a_run_names_the_nearest_one_that_is_valid(tmp_path: Path, key: str, nearest: str):
    with pytest.raises(ConfigError) as caught:
        resolved(tmp_path, None, f"{key}=3")
    assert str(caught.value).endswith(f"submit.yaml (did you mean '{nearest}'?).")


def test_relative_paths_become_absolute_beside_the_submit_file_first(tmp_path: Path):
    write(tmp_path / "files")
    write(tmp_path / "cwd")
    (tmp_path / "cwd" / "only_here.yaml").write_text("{}")
    path = write(
        tmp_path / "files",
        {
            "driver/benchmarks/sums/run/config_paths": [
                "sums.yaml",
                "only_here.yaml",
                "benchmarks/gpqa/x.yaml",
            ]
        },
    )
    found = resolve(path, cwd=tmp_path / "cwd")
    assert found.plain["driver"]["benchmarks"]["sums"]["run"]["config_paths"] == [
        str(tmp_path / "files" / "sums.yaml"),
        str(tmp_path / "cwd" / "only_here.yaml"),
        "benchmarks/gpqa/x.yaml",
    ]
    assert found.config.job.output_path == str(tmp_path / "cwd" / "runs")


def test_only_keeps_the_named_benchmarks_and_an_unknown_name_is_a_usage_error(tmp_path: Path):
    two = {"driver/benchmarks/times": {"command": "true"}}
    assert list(resolved(tmp_path, two, only=("times",)).config.driver.benchmarks) == ["times"]
    with pytest.raises(UsageError, match=r"--only tims: no such benchmark .* \(did you mean 'times'\?\)"):
        resolved(tmp_path, two, only=("tims",))


def test_limit_and_walltime_are_part_of_the_resolved_config(tmp_path: Path):
    plain = resolved(tmp_path, None, limit=7, walltime="1-00").plain
    assert plain["driver"]["benchmarks"]["sums"]["run"]["limit"] == 7
    assert plain["compute"]["here"]["walltime"] == "1-00"


def test_limit_is_refused_for_a_command(tmp_path: Path):
    with pytest.raises(
        UsageError, match=r"--limit cannot limit driver\.benchmarks\.times, which runs a command"
    ):
        resolved(tmp_path, {"driver/benchmarks/times": {"command": "true"}}, limit=7)


def test_a_bad_walltime_on_the_command_line_is_an_error_with_the_path(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"compute\.here\.walltime"):
        resolved(tmp_path, None, walltime="soon")


def test_an_unquoted_time_in_the_file_is_refused_with_its_line(tmp_path: Path):
    path = write(tmp_path)
    path.write_text(path.read_text().replace("type: local", "type: local\n    walltime: 48:00:00"))
    with pytest.raises(ConfigError, match=r"submit\.yaml:\d+: .*quote it"):
        resolve(path, cwd=tmp_path)


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_missing_file_and_a_folder_are_clean_errors(tmp_path: Path, name: str):
    with pytest.raises(ConfigError, match=str(tmp_path)):
        resolve(Path(name), cwd=tmp_path)


@pytest.mark.parametrize(
    "change", [{"driver/benchmarks/sums/run/limit": 3}, {"driver/env": {"A": "b"}}, {"job/output_path": "/x"}]
)
def test_another_config_has_another_digest(tmp_path: Path, change: dict[str, Any]):
    assert resolved(tmp_path, change).digest != resolved(tmp_path).digest


def test_the_order_of_keys_in_the_file_does_not_change_the_digest(tmp_path: Path):
    first = resolved(tmp_path)
    path = tmp_path / "submit.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()), sort_keys=True))
    assert resolve(path, cwd=tmp_path).digest == first.digest


def test_json_and_yaml_of_the_resolved_config_say_the_same(tmp_path: Path):
    found = resolved(tmp_path, {"driver/env": {"A": "48:00:00"}})
    assert json.loads(found.to_json()) == yaml.safe_load(found.to_yaml()) == found.plain


@pytest.mark.parametrize(
    "broken",
    [
        {"driver": None},
        {"driver/benchmarks": []},
        {"compute": "x"},
        {"driver/benchmarks/sums": 3},
        {"job": []},
    ],
)
def test_sections_of_the_wrong_shape_are_config_errors_whatever_the_flags(
    tmp_path: Path, broken: dict[str, Any]
):
    with pytest.raises(ConfigError) as caught:
        resolved(tmp_path, broken, limit=3, walltime="10")
    assert "dictionary" not in str(caught.value)


def test_what_a_chain_goes_on_with_stands_in_the_config_as_submitted(tmp_path: Path):
    on = {"driver/benchmarks/sums/resumable": True}
    first = resolved(tmp_path / "a", on)
    assert first.plain["driver"]["benchmarks"]["sums"]["run"]["resume_from_cache"] is True
    assert "resume_from_cache: true" in first.to_yaml()
    assert json.loads(first.to_json())["driver"]["benchmarks"]["sums"]["run"]["resume_from_cache"] is True
    assert again(first, tmp_path / "b").digest == first.digest
    off = resolved(tmp_path / "c", {**on, "driver/benchmarks/sums/run/resume_from_cache": False})
    assert off.plain["driver"]["benchmarks"]["sums"]["run"]["resume_from_cache"] is False
    token = resolved(tmp_path / "d", on, "driver.benchmarks.sums.run.resume_from_cache=false")
    assert token.plain["driver"]["benchmarks"]["sums"]["run"]["resume_from_cache"] is False
    single = resolved(tmp_path / "e")
    assert "resume_from_cache" not in single.plain["driver"]["benchmarks"]["sums"]["run"]


def test_settings_of_all_benchmarks_are_said_once_and_each_may_say_otherwise(tmp_path: Path):
    common = {"responses_create_params": {"max_output_tokens": 32768, "temperature": 0.6}}
    own = {"responses_create_params": {"temperature": 0.0}}
    changes = {
        "driver/run": common,
        "driver/benchmarks/sums/run/responses_create_params": own["responses_create_params"],
        "driver/benchmarks/other": {"command": "true"},
    }
    first = resolved(tmp_path / "a", changes, "driver.run.responses_create_params.max_output_tokens=9")
    jobs = first.config.driver.benchmarks
    assert jobs["sums"].run["responses_create_params"] == {"max_output_tokens": 9, "temperature": 0.0}
    assert jobs["other"].run == {}
    assert first.config.driver.run == {}
    assert again(first, tmp_path / "b").plain == first.plain
    with pytest.raises(ConfigError, match="max_output_token"):
        resolved(tmp_path / "c", {}, "driver.run.responses_create_params.max_output_token=9")
