"""GSM8K, IFEval and MATH, from local data sets of the shape of those at the hub: prepared, asked, graded."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.real_programs import needed_module

from nemo_gym.composition import parse_overrides
from nemo_gym.errors import DataError
from nemo_gym.rollouts.data.dataset import check_rows, materialize, read_rows
from nemo_gym.rollouts.data.prepare import ensure_data
from nemo_gym.rollouts.run_config.catalog import shipped_root
from nemo_gym.rollouts.run_config.schema import RunConfig, load_run_config
from nemo_gym.types import Episode, Task
from nemo_gym.verifiers.registry import load_verifier

KEYS = ("num_words", "relation", "capital_frequency", "keywords", "prompt_to_repeat")
PROBLEM = {"problem": r"What is $\frac{1}{2}+\frac14$?", "level": "Level 2", "type": "Algebra"}
SOLUTION = {"solution": r"It is $\frac{2}{4}+\frac{1}{4}$, so \boxed{\frac{3}{4}}."}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "math_prepare", shipped_root() / "benchmarks/math/prepare.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def config_of(benchmark: str, folder: Path, *overrides: str) -> RunConfig:
    """The benchmark with its data below a folder."""
    tokens = parse_overrides(overrides)
    return load_run_config([], benchmark, tokens, search_dirs=[], cwd=folder, user_env=False).config


def from_folder(benchmark: str, data: Path, folder: Path) -> RunConfig:
    """The same with a local data set in place of the hub's."""
    made = f"+benchmark.datasets.benchmark.jsonl_fpath={folder}/made/rows.jsonl"
    return config_of(benchmark, folder, f"benchmark.datasets.benchmark.huggingface.path={data}", made)


def asked(config: RunConfig) -> list[dict[str, Any]]:
    """The requests of all rows, which are checked as a run checks them."""
    path = ensure_data(config)
    check_rows(config, path, load_verifier(config.benchmark.verifier, {}))
    return [json.loads(line) for line in materialize(config, read_rows(path))]


def reward(config: RunConfig, row: dict[str, Any], text: str) -> float | None:
    """The grade of an answer."""
    content = [{"type": "output_text", "text": text}]
    response = {"status": "completed", "output": [{"type": "message", "content": content}]}
    verifier = load_verifier(config.benchmark.verifier, {})
    return asyncio.run(verifier.verify(Task(0, 0, row), Episode(response))).reward


@pytest.mark.slow
def test_gsm8k_shows_eight_examples_and_takes_the_last_number(tmp_path: Path) -> None:
    datasets = needed_module("datasets")
    answer = "She has 3*4=<<3*4=12>>12 apples and 1,000 pears.\n#### 1,012"
    rows = datasets.Dataset.from_list([{"question": "How many?", "answer": answer}])
    datasets.DatasetDict(train=rows, test=rows).save_to_disk(str(tmp_path / "gsm8k/main"))
    config = from_folder("gsm8k", tmp_path / "gsm8k", tmp_path)
    (row,) = asked(config)
    messages = row["responses_create_params"]["input"]
    assert [message["role"] for message in messages] == [*["user", "assistant"] * 8, "user"]
    assert messages[-1]["content"] == "Q: How many?\nA:"
    assert messages[1]["content"].endswith("So there must have been 21 - 15 = 6. The answer is 6.")
    assert reward(config, row, "12 and 1000 make 1012. The answer is 1,012.") == 1
    assert reward(config, row, "The answer is 12.") == 0


@pytest.mark.slow
def test_ifeval_asks_the_prompt_and_checks_its_instructions(tmp_path: Path) -> None:
    datasets = needed_module("datasets")
    needed_module("if_verifiable")
    names = ["punctuation:no_comma", "length_constraints:number_words"]
    kwargs = [dict.fromkeys(KEYS), {**dict.fromkeys(KEYS), "num_words": 3, "relation": "at least"}]
    prompt = "Say {something} with at least 3 words and no commas."
    row = {"key": 1000, "prompt": prompt, "instruction_id_list": names, "kwargs": kwargs}
    (tmp_path / "ifeval").mkdir()
    datasets.Dataset.from_list([row]).to_parquet(str(tmp_path / "ifeval/train-00000-of-00001.parquet"))
    config = from_folder("ifeval", tmp_path / "ifeval", tmp_path)
    (row,) = asked(config)
    assert row["responses_create_params"]["input"] == [{"role": "user", "content": prompt}]
    assert reward(config, row, "Three words here") == 1
    assert reward(config, row, "Three, words here") == 0


@pytest.mark.slow
def test_math_has_all_subjects_and_the_answer_out_of_the_box(tmp_path: Path, script: ModuleType) -> None:
    datasets = needed_module("datasets")
    needed_module("math_verify")
    for subject in script.SUBJECTS:
        (tmp_path / "math" / subject).mkdir(parents=True)
        path = tmp_path / "math" / subject / "test-00000-of-00001.parquet"
        datasets.Dataset.from_list([{**PROBLEM, **SOLUTION}]).to_parquet(str(path))
    made = f"+benchmark.datasets.benchmark.jsonl_fpath={tmp_path}/made/rows.jsonl"
    config = config_of("math", tmp_path, f"+prepare_script_args.source={tmp_path}/math", made)
    rows = asked(config)
    assert [row["subject"] for row in rows] == list(script.SUBJECTS)
    assert rows[0]["level"] == 2
    text = rows[0]["responses_create_params"]["input"][0]["content"]
    assert (
        text == rf"{PROBLEM['problem']}"
        "\n\n"
        r"Please reason step by step, and put your final answer within \boxed{}."
    )
    assert reward(config, rows[0], r"So it is $\boxed{0.75}$.") == 1
    assert reward(config, rows[0], r"So it is $\boxed{\frac{3}{5}}$.") == 0


@pytest.mark.slow
def test_math_500_is_asked_as_math_is(tmp_path: Path) -> None:
    needed_module("math_verify")
    needed_module("datasets")
    row = {
        **PROBLEM,
        **SOLUTION,
        "answer": r"\frac{3}{4}",
        "subject": "Algebra",
        "level": 2,
        "unique_id": "a/1",
    }
    (tmp_path / "m").mkdir()
    (tmp_path / "m/test.jsonl").write_text(json.dumps(row) + "\n")
    config, whole = from_folder("math_500", tmp_path / "m", tmp_path), config_of("math", tmp_path)
    (row,) = asked(config)
    assert config.benchmark.prompt == whole.benchmark.prompt
    assert config.responses_create_params == whole.responses_create_params
    assert reward(config, row, r"It is \boxed{3/4}.") == 1


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"first \boxed{1}, then \boxed{\frac{a}{b_{2}}}.", r"\frac{a}{b_{2}}"),
        (r"so $\boxed 5$.", "5"),
        (r"\fbox{ 7 }", "7"),
        ("it is 5", None),
        (r"\boxed{5", None),
        (r"\boxed{}", None),
    ],
)
def test_the_answer_is_what_the_last_box_holds(script: ModuleType, text: str, answer: str | None) -> None:
    assert script.boxed(text) == answer


def test_a_problem_without_an_answer_is_named(script: ModuleType) -> None:
    with pytest.raises(DataError, match=r"record 3 of algebra: its solution ends in no \\boxed answer"):
        script.make_row({"problem": "?", "solution": "It is 5."}, "algebra", 3)
    with pytest.raises(DataError, match="record 4 of algebra has no problem or no solution"):
        script.make_row({"question": "?"}, "algebra", 4)


@pytest.mark.parametrize("benchmark", ["gsm8k", "ifeval", "math", "math_500"])
def test_what_is_read_at_the_hub_is_pinned_and_said(
    tmp_path: Path, benchmark: str, script: ModuleType
) -> None:
    config = config_of(benchmark, tmp_path)
    hub = config.benchmark.datasets["benchmark"].huggingface
    revision = script.REVISION if hub is None else hub.revision
    source = config.benchmark.source
    assert source is not None
    assert source.version == revision
    assert len(str(revision)) == 40
    assert source.address.endswith(script.DATA_SET if hub is None else hub.path)
