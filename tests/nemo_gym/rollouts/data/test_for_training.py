"""A benchmark as a training evaluates it: rows and what it needs of the configuration, or one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.rollouts.data import for_training


def test_rows_and_configuration_are_put_into_the_folder_alone(tmp_path: Path) -> None:
    into = tmp_path / "evaluation"
    assert for_training.main(["--benchmark", "arithmetic", "--limit", "3", "--into", str(into)]) == 0
    rows = [json.loads(line) for line in (into / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 3
    assert {"question", "expected_answer"} <= set(rows[0])
    found = json.loads((into / "benchmark.json").read_text())
    assert found["benchmark"]["verifier"]["type"] == "match"
    assert found["benchmark"]["graded_ends"] == ["max_output_tokens"]
    assert found["responses_create_params"] == {"temperature": 0.0, "max_output_tokens": 8}
    again = tmp_path / "again"
    assert for_training.main(["--benchmark", "arithmetic", "--limit", "3", "--into", str(again)]) == 0
    assert (again / "rows.jsonl").read_bytes() == (into / "rows.jsonl").read_bytes()


def test_a_configuration_of_ones_own_is_taken_with_the_rows_beside_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "rows.jsonl").write_text('{"question": "1?", "expected_answer": "1"}\n\n')
    (own / "config.yaml").write_text(
        "benchmark:\n  name: own\n  datasets: {benchmark: {jsonl_fpath: rows.jsonl}}\n"
        '  prompt: {user: "{question}"}\n  verifier: {type: match, mode: numeric}\n'
    )
    into = tmp_path / "evaluation"
    assert for_training.main(["--config", str(own / "config.yaml"), "--into", str(into)]) == 0
    assert (into / "rows.jsonl").read_text() == '{"question": "1?", "expected_answer": "1"}\n'


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bfcl", "the agent bfcl of the benchmark bfcl needs a server, and a training has none.\n"),
        ("arithmetik", "--benchmark: there is no benchmark arithmetik (did you mean 'arithmetic'?).\n"),
    ],
)
def test_a_benchmark_that_a_training_cannot_ask_is_refused_in_one_sentence(
    name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert for_training.main(["--benchmark", name, "--into", str(tmp_path / "e")]) == 2
    assert capsys.readouterr().err == said
