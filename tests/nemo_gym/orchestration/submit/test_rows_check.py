"""What `gym eval check` says of rows before a job waits in a queue."""

from pathlib import Path

import pytest
from tests.result_rows import benchmark_config, run_config

from nemo_gym.orchestration.plan.benchmark_runs import BenchmarkRun
from nemo_gym.orchestration.submit import rows_check
from nemo_runs.findings import Finding, FindingLevel

TOOLS = '+benchmark.agent={type: tools, tools: [{type: file, source: "def price(item):\\n    return 1\\n"}]}'


def run_of(folder: Path, *overrides: str, rows: str | None = None, **more: str) -> BenchmarkRun:
    path = benchmark_config(folder, **more)
    if rows is not None:
        (folder / "data.jsonl").write_text(rows)
    config = run_config(path, "policy_model_name=m", *overrides)
    return BenchmarkRun(run=config.model_dump(mode="json"), prepare=None)


def found(runs: dict[str, BenchmarkRun], elsewhere: str | None = None) -> list[Finding]:
    return list(rows_check.look(runs, elsewhere=elsewhere))


def test_rows_that_can_be_asked_are_counted_and_the_same_is_said_once(tmp_path: Path) -> None:
    run = run_of(tmp_path / "b")
    (one,) = found({"small.sums": run, "large.sums": run})
    assert one.verdict is FindingLevel.OK
    assert one.text == "small.sums, large.sums: 1 task can be asked and graded"


ROW = '{"question": "What is 0 + 0?", "expected_answer": "0"}\n'


@pytest.mark.parametrize(
    ("rows", "more", "overrides", "sentence"),
    [
        (ROW + '{"question": "x"}\n', {}, [], "data.jsonl:2: no 'expected_answer'"),
        (ROW + ROW + '{"text": "x", "expected_answer": "0"}\n', {}, [], "data.jsonl:3: "),
        (ROW + "{oops\n", {}, [], "data.jsonl:2: "),
        ("", {}, [], "holds no rows"),
        (ROW, {"verifier": "{type: python, source: 'raise OSError(1)'}"}, [], "verifier"),
        (ROW, {}, [TOOLS], "price has no docstring"),
    ],
)
def test_what_a_run_would_refuse_is_said_with_file_and_line(
    tmp_path: Path, rows: str, more: dict[str, str], overrides: list[str], sentence: str
) -> None:
    (one,) = found({"sums": run_of(tmp_path / "b", *overrides, rows=rows, **more)})
    assert one.verdict is FindingLevel.PROBLEM
    assert one.text.startswith("sums: ")
    assert sentence in one.text


def test_rows_that_are_not_here_are_unknown(tmp_path: Path) -> None:
    run = run_of(tmp_path / "b")
    (tmp_path / "b" / "data.jsonl").unlink()
    (one,) = found({"sums": run}, "alps")
    assert (one.verdict, "they are on alps" in one.text) == (FindingLevel.UNKNOWN, True)


def test_rows_that_a_job_makes_are_unknown_until_they_are_made(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "prepare.py").write_text("def prepare(output):\n    raise AssertionError\n")
    script = "+benchmark.datasets.benchmark.prepare_script=prepare.py"
    (one,) = found({"sums": run_of(tmp_path / "b", script)})
    assert (one.verdict, "`gym eval prepare` makes them now" in one.text) == (FindingLevel.UNKNOWN, True)


def test_a_command_has_no_rows() -> None:
    assert found({"plain": BenchmarkRun(run=None, prepare=None)}) == []
