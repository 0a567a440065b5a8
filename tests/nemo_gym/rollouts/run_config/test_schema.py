from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_gym.composition import parse_overrides
from nemo_gym.errors import ConfigError
from nemo_gym.rollouts.run_config.catalog import find_benchmark, find_config, shipped_root
from nemo_gym.rollouts.run_config.schema import LoadedConfig, load_run_config, require_policy

BENCHMARK = """
benchmark:
  name: toy
  datasets:
    benchmark: {jsonl_fpath: data/toy.jsonl, prepare_script: prepare.py}
  prompt: {user: "What is {a}?"}
  verifier: {type: match}
responses_create_params: {max_output_tokens: 8, temperature: 0}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with the benchmark `toy` and nothing from outside."""
    for variable in ("NEMO_GYM_EXTRA_ROOTS", "NEMO_GYM_MAX_ROLLOUT_ATTEMPTS"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "benchmarks/toy").mkdir(parents=True)
    (tmp_path / "benchmarks/toy/config.yaml").write_text(BENCHMARK)
    return tmp_path


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def load(
    cwd: Path, *tokens: str, configs: tuple[str, ...] = (), name: str | None = "toy", **more: Any
) -> LoadedConfig:
    more.setdefault("search_dirs", [])
    return load_run_config(configs, name, parse_overrides(tokens), cwd=cwd, **more)


def test_a_benchmark_by_name_gives_absolute_paths_and_the_documented_defaults(folder: Path) -> None:
    loaded = load(folder)
    config = loaded.config
    home = folder / "benchmarks/toy"
    assert loaded.files == [home / "config.yaml"]
    assert config.benchmark.datasets["benchmark"].jsonl_fpath == home / "data/toy.jsonl"
    assert config.benchmark.datasets["benchmark"].prepare_script == home / "prepare.py"
    assert config.responses_create_params.given() == {"max_output_tokens": 8, "temperature": 0}
    assert (config.split, config.repeats, config.limit, config.max_rollout_attempts) == (
        "benchmark",
        1,
        None,
        3,
    )
    assert (config.policy_api_key, config.policy_api, config.num_samples_in_parallel) == ("dummy", "chat", 32)
    assert config.benchmark.agent == {"type": "single_turn"}


def test_a_shipped_config_is_found_by_its_name_from_any_folder(tmp_path: Path) -> None:
    loaded = load(tmp_path, name=None, base={"config_paths": ["benchmarks/gpqa/config.yaml"]})
    assert loaded.config.benchmark.name == "gpqa"
    assert loaded.files == [shipped_root() / "benchmarks/gpqa/config.yaml"]
    assert loaded.config.repeats == 8


def test_included_files_lose_to_their_includers_then_siblings_then_env_yaml_then_the_command_line(
    folder: Path,
) -> None:
    keys = ("policy_model_name", "limit", "num_repeats", "max_request_attempts", "drain_margin_s")
    write(folder / "low.yaml", dict.fromkeys(keys, 1) | {"policy_model_name": "low"})
    write(folder / "first.yaml", {"config_paths": ["low.yaml"], **dict.fromkeys(keys[1:], 2)})
    write(folder / "second.yaml", dict.fromkeys(keys[2:], 3))
    write(folder / "env.yaml", dict.fromkeys(keys[3:], 4))
    loaded = load(folder, "drain_margin_s=5", configs=("first.yaml", "second.yaml"))
    assert [loaded.config.model_dump()[key] for key in keys] == ["low", 2, 3, 4, 5]
    names = [path.name for path in loaded.files]
    assert names == ["config.yaml", "low.yaml", "first.yaml", "second.yaml", "env.yaml"]


def test_a_config_file_may_change_the_benchmark_that_is_named_beside_it(folder: Path) -> None:
    write(
        folder / "mine.yaml",
        {"benchmark": {"num_repeats": 4, "verifier": {"type": "match", "mode": "exact"}}},
    )
    benchmark = load(folder, configs=("mine.yaml",)).config.benchmark
    assert (benchmark.num_repeats, benchmark.verifier["mode"]) == (4, "exact")


def test_the_run_block_of_a_submission_wins_over_env_yaml_and_over_what_it_includes(folder: Path) -> None:
    write(folder / "env.yaml", {"limit": 4, "num_repeats": 4})
    base = {"config_paths": ["benchmarks/toy/config.yaml"], "limit": 2}
    config = load(folder, base=base, name=None).config
    assert (config.limit, config.num_repeats, config.config_paths) == (2, 4, [])
    assert load(folder, base=base, name=None, user_env=False).config.num_repeats is None


def test_includes_are_looked_up_beside_the_file_then_here_then_in_search_folders(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, place in enumerate(("sub", ".", "flag", "variable")):
        write(folder / place / "part.yaml", {"limit": number + 1})
    write(folder / "sub/top.yaml", {"config_paths": ["part.yaml"]})
    monkeypatch.setenv("NEMO_GYM_EXTRA_ROOTS", str(folder / "variable"))
    found = []
    for place in ("sub", ".", "flag", "variable"):
        loaded = load(folder, configs=("sub/top.yaml",), search_dirs=[Path("flag")])
        found.append(loaded.config.limit)
        (folder / place / "part.yaml").unlink()
    assert found == [1, 2, 3, 4]
    with pytest.raises(ConfigError, match=r"sub/top.yaml: config_paths: there is no part.yaml .*in "):
        load(folder, configs=("sub/top.yaml",))


def test_data_files_are_beside_their_config_or_else_in_the_current_folder(folder: Path) -> None:
    write(folder / "sub/a.yaml", {"input_jsonl_fpath": "rows.jsonl"})
    assert load(folder, configs=("sub/a.yaml",)).config.input_jsonl_fpath == folder / "sub/rows.jsonl"
    write(folder / "rows.jsonl", "{}")
    assert load(folder, configs=("sub/a.yaml",)).config.input_jsonl_fpath == folder / "rows.jsonl"
    config = load(folder, "input_jsonl_fpath=x.jsonl", "output_jsonl_fpath=out/r.jsonl").config
    assert (config.input_jsonl_fpath, config.output_jsonl_fpath) == (
        folder / "x.jsonl",
        folder / "out/r.jsonl",
    )


def test_interpolation_reaches_across_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_PORT", "8123")
    write(folder / "a.yaml", {"_port": "${oc.env:BATON_PORT}", "policy_base_url": "http://h:${_port}/v1"})
    write(
        folder / "b.yaml", {"policy_model_name": "${benchmark.name}-model", "limit": "${oc.env:BATON_PORT}"}
    )
    config = load(folder, configs=("a.yaml", "b.yaml")).config
    assert require_policy(config) == ("http://h:8123/v1", "toy-model")
    assert config.limit == 8123


def test_a_file_that_includes_itself_is_refused_and_one_included_twice_is_fine(folder: Path) -> None:
    write(folder / "a.yaml", {"config_paths": ["b.yaml"]})
    write(folder / "b.yaml", {"config_paths": ["a.yaml"]})
    with pytest.raises(ConfigError, match=r"a file includes itself: .*a.yaml → .*b.yaml → .*a.yaml"):
        load(folder, configs=("a.yaml",))
    write(folder / "b.yaml", {"limit": 7})
    loaded = load(folder, configs=("a.yaml", "b.yaml"))
    assert [path.name for path in loaded.files] == ["config.yaml", "b.yaml", "a.yaml"]


def test_two_benchmarks_in_one_run_are_refused_and_none_is_too(folder: Path) -> None:
    write(folder / "benchmarks/other/config.yaml", BENCHMARK.replace("toy", "other"))
    with pytest.raises(ConfigError, match=r"a run measures one benchmark; .* names toy and .* names other"):
        load(folder, configs=("benchmarks/other/config.yaml",))
    with pytest.raises(ConfigError, match="benchmark: none is given; name one with --benchmark"):
        load(folder, name=None)
    with pytest.raises(
        ConfigError, match=r"missing benchmark; unknown key benchmarks \(did you mean 'benchmark'\?\)"
    ):
        load(folder, "+benchmarks={name: toy}", name=None)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("limt=3", "unknown key on the command line for the run configuration (did you mean 'limit'?)."),
        *(
            (f"{key}=99999999999999999999", f"{key} (must be 9223372036854775807 or less)")
            for key in ("limit", "num_samples_in_parallel")
        ),
        ("+limt=3", "unknown key limt (did you mean 'limit'?)"),
        ("temperature=1", "(did you mean 'responses_create_params.temperature'?)"),
        (
            "+responses_create_params.top_k=3",
            "key responses_create_params.top_k (did you mean 'responses_create_params.extra_body.top_k'?).",
        ),
        *(
            (f"+responses_create_params.{given}=1", f"(did you mean '{meant}'?).")
            for given, meant in {
                "min_p": "responses_create_params.extra_body.min_p",
                "repetition_penalty": "responses_create_params.extra_body.repetition_penalty",
                "response_format": "responses_create_params.extra_body.response_format",
                "logprobs": "responses_create_params.extra_body.logprobs",
                "tools": "responses_create_params.extra_body.tools",
                "enable_thinking": "responses_create_params.extra_body.chat_template_kwargs",
                "max_tokens": "responses_create_params.max_output_tokens",
                "reasoning_effort": "responses_create_params.reasoning.effort",
                "stop_sequences": "responses_create_params.stop",
                "do_sample": "responses_create_params.temperature",
                "n": "num_repeats",
            }.items()
        ),
        ("+max_tokens=1", "(did you mean 'responses_create_params.max_output_tokens'?)."),
        ("+top_k=1", "(did you mean 'responses_create_params.extra_body.top_k'?)."),
        ("+n=4", "(did you mean 'num_repeats'?)."),
        (
            "concurency=3",
            "concurency: unknown key on the command line for the run configuration (did you mean 'num",
        ),
        ("model=x", "(did you mean 'policy_model_name'?)."),
        ("+model=x", "unknown key model (did you mean 'policy_model_name'?)."),
        ("benchmark.agent.typ=x", "(did you mean 'benchmark.agent.type'?);"),
        ("+benchmark.prompt.usr=x", "key benchmark.prompt.usr (did you mean 'benchmark.prompt.user'?)"),
        ("limit=-1", "limit (must be 0 or more)"),
        ("limit=true", "limit (must be a number, not a truth value)"),
        ("num_samples_in_parallel=0", "num_samples_in_parallel (must be 1 or more)"),
        ("num_repeats=0", "num_repeats (must be"),
        ("responses_create_params.temperature=.nan", "temperature (must be a finite number"),
        ("responses_create_params.top_p=0", "top_p (must be greater than 0)"),
        (
            "policy_base_url=localhost:8000",
            "policy_base_url (must look like http://HOST:PORT/v1; write http://localhost:8000/v1)",
        ),
        ("policy_base_url=http://127.0.0.1:99999/v1", "policy_base_url (must look like http://HOST:PORT/v1"),
        ("policy_base_url=http://h:80:80/v1", "policy_base_url (must look like http://HOST:PORT/v1"),
        ("policy_base_url=http://[::1/v1", "policy_base_url (must look like http://HOST:PORT/v1"),
        ("responses_create_params.seed=99999999999999999999", "responses_create_params (holds what no requ"),
        ("+responses_create_params.extra_body={a: !!binary aGk=}", "holds what no request can"),
        ('+responses_create_params.stop="\\ud800"', "responses_create_params"),
        ("policy_base_url=http://me:pw@h/v1", "policy_base_url (must not hold a password"),
        ("policy_api=grpc", "policy_api (must be 'chat', 'completions' or 'responses')"),
        ("split=test", "split (must be 'benchmark', 'validation' or 'train')"),
        ("benchmark.prompt.user='{a.b}'", "benchmark.prompt.user ('{a.b}' is not a field name"),
        ("benchmark.prompt.user='{a!r}'", "benchmark.prompt.user ('{a!r}' is not a field name"),
        ("benchmark.prompt.user='{a:>9}'", "benchmark.prompt.user ('{a:>9}' is not a field name"),
        ("benchmark.prompt.user='{'", "benchmark.prompt.user ("),
        ("benchmark.name=a/b", "benchmark.name (string must match pattern"),
        ("benchmark.verifier={type: 3}", "benchmark.verifier (needs a type"),
        ("benchmark.verifier=null", "benchmark.verifier (must be a mapping of keys to values)"),
        ("config_paths=3", "config_paths: must be a list of file names"),
        ("config_paths=nowhere.yaml", "config_paths: there is no nowhere.yaml in "),
    ],
)
def test_what_is_wrong_is_said_with_its_dotted_path(folder: Path, token: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(folder, token)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_submit_file_is_no_config_of_a_run_and_that_is_said(folder: Path) -> None:
    (folder / "submit.yaml").write_text("compute: {}\ndriver: {}\njob: {}\n")
    with pytest.raises(ConfigError) as caught:
        load(folder, "+config_paths=[submit.yaml]")
    message = str(caught.value)
    assert "submit.yaml is a submit file (it has driver and compute)" in message
    assert "`gym eval submit -c " in message


def test_what_is_known_is_listed_once_for_all_unknown_keys(folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(folder, "+qqq=1", "+zzz=2")
    assert "unknown keys qqq, zzz; known there: config_paths, " in str(caught.value)
    assert str(caught.value).count("known there") == 1


def test_of_words_the_nearest_is_suggested(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy_api \(must be .* \(did you mean 'completions'\?\)\)"):
        load(folder, "policy_api=completion")


def test_a_typed_secret_is_refused_and_not_repeated(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy_api_key \(write host:VAR") as caught:
        load(folder, "policy_api_key=sk-canary")
    assert "canary" not in str(caught.value)
    assert load(folder, "policy_api_key=host:MY_KEY").config.policy_api_key == "host:MY_KEY"
    with pytest.raises(ConfigError, match="policy_api_key"):
        load(folder, "policy_api_key=host:MY-KEY")
    with pytest.raises(ConfigError, match="write host:MY_KEY"):
        load(folder, "policy_api_key=${oc.env:MY_KEY}")


def test_an_input_that_is_the_output_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="are the same file"):
        load(folder, "input_jsonl_fpath=a.jsonl", "output_jsonl_fpath=./x/../a.jsonl")


def test_limit_zero_means_all_and_repeats_replace_the_benchmarks_own(folder: Path) -> None:
    config = load(folder, "limit=0", "num_repeats=5", "benchmark.num_repeats=2").config
    assert (config.limit, config.repeats) == (None, 5)
    assert load(folder, "benchmark.num_repeats=2").config.repeats == 2


def test_the_attempt_cap_comes_from_the_environment_unless_it_is_configured(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS", "7")
    assert load(folder).config.max_rollout_attempts == 7
    assert load(folder, "max_rollout_attempts=2").config.max_rollout_attempts == 2
    monkeypatch.setenv("NEMO_GYM_MAX_ROLLOUT_ATTEMPTS", "many")
    with pytest.raises(ConfigError, match="NEMO_GYM_MAX_ROLLOUT_ATTEMPTS: must be a whole number from 1"):
        load(folder)


def test_a_loaded_configuration_written_out_and_loaded_elsewhere_is_the_same(
    folder: Path, tmp_path: Path
) -> None:
    tokens = (
        "+prepare_script_args.n=3",
        "policy_base_url=http://h/v1/",
        "output_jsonl_fpath=r.jsonl",
        "limit=2",
    )
    config = load(folder, *tokens).config
    run_yaml = write(tmp_path / "elsewhere/run.yaml", config.to_plain())
    assert load(run_yaml.parent, configs=(str(run_yaml),), name=None).config == config


def test_a_policy_that_is_not_named_is_an_error_listing_all_that_is_missing(folder: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"missing policy_base_url \(--model-url\), policy_model_name \(--model\)"
    ):
        require_policy(load(folder).config)


def test_an_unknown_benchmark_or_config_names_the_nearest(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"no benchmark tyo \(did you mean 'toy'\?\)"):
        find_benchmark("tyo", cwd=folder)
    shipped = "arithmetic, arithmetic_mcq, bfcl, gpqa, gsm8k, humaneval, ifeval, math, math_500"
    with pytest.raises(ConfigError, match=f"no benchmark zzz; known: {shipped}, toy"):
        find_benchmark("zzz", cwd=folder)
    (folder / "toy.yaml").write_text(BENCHMARK)
    with pytest.raises(ConfigError, match=r"there is no toy\.yml \(did you mean 'toy\.yaml'\?\) in .*\."):
        load(folder, name=None, configs=("toy.yml",))
    with pytest.raises(ConfigError, match=r"toy\.yaml is a file; include it with --config toy\.yaml"):
        load(folder, name="toy.yaml")
    with pytest.raises(ConfigError, match=r"\(did you mean 'benchmarks/gpqa/config\.yaml'\?\)"):
        find_config("benchmarks/gqpa/config.yaml", cwd=folder)
    with pytest.raises(ConfigError, match="benchmarks/toy is a folder; give the YAML file in it"):
        find_config("benchmarks/toy", cwd=folder)
    with pytest.raises(ConfigError, match=r"is a folder; include it with --config \.\./toy/config\.yaml"):
        find_benchmark("../toy", cwd=folder / "benchmarks/toy")


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("benchmark.verifier", "abs_tolerance", 0.01),
        ("benchmark.verifier", "mode", "numeric"),
        ("prepare_script_args", "num_tasks", 5),
    ],
)
def test_a_key_that_its_reader_checks_needs_no_plus(
    folder: Path, section: str, key: str, value: object
) -> None:
    node: Any = load(folder, f"{section}.{key}={value}").config.to_plain()
    for name in section.split("."):
        node = node[name]
    assert node[key] == value


@pytest.mark.parametrize("name", ["q.jsonl", "q.csv", "q.jsonl.gz"])
def test_a_file_of_rows_in_the_place_of_a_benchmark_or_a_config_is_sent_to_input(
    folder: Path, name: str
) -> None:
    (folder / name).write_text('{"a": 1}\n')
    with pytest.raises(ConfigError, match=rf"{name} is a file of rows; give them with --input {name}"):
        load(folder, name=name)
    with pytest.raises(ConfigError, match=rf"{name}: this is a file of rows.* given with --input"):
        load(folder, name=None, configs=(name,))


def test_the_folder_of_a_benchmark_in_the_place_of_its_name_is_sent_to_config(folder: Path) -> None:
    home = folder / "benchmarks/toy"
    with pytest.raises(ConfigError, match=rf"is a folder; include it with --config {home}/config\.yaml"):
        load(folder, name=str(home))
