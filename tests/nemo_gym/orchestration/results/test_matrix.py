"""Scores as a matrix: rows, columns, which best is marked, and its formats."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.result_rows import benchmark_config, result, run_config, write_manifest, write_output

from nemo_gym.job_paths import JobPaths
from nemo_gym.orchestration.results.matrix import ScoreMatrix, score_matrix
from nemo_gym.orchestration.results.scores import BenchmarkResult, with_metric
from nemo_gym.orchestration.results.table_formats import matrix_text, rows_text
from nemo_gym.rollouts.scores.measured_metric import MeasuredMetric

TASKS = 40


def cell(
    folder: Path, model: str, right: int, benchmark: str = "sums", **more: Any
) -> tuple[str, BenchmarkResult]:
    """A model that answers the first ``right`` of 40 tasks right."""
    job_dir = folder / f"run-{model}" / benchmark
    rewards = {(task, 0): result(reward=float(task < right)) for task in range(TASKS)}
    paths = write_output(JobPaths(job_dir).artifacts, rewards, tasks=TASKS, repeats=1)
    config = run_config(
        benchmark_config(folder / "b"), f"policy_model_name={model}", *more.pop("overrides", ())
    )
    write_manifest(paths, config, tasks=TASKS, repeats=1)
    score = right / TASKS
    values = {"status": "complete", "score": score, "low": score - 0.1, "high": score + 0.1, **more}
    return model, BenchmarkResult(
        gym_job_id=f"gym-job-{model}",
        benchmark=benchmark,
        model=model,
        job_dir=str(job_dir),
        output=str(paths.output),
        **values,
    )


def best(matrix: ScoreMatrix) -> list[tuple[str, str]]:
    return [key for key, found in matrix.cells.items() if found.best]


def test_the_best_is_marked_where_it_is_better_than_every_other_one(tmp_path: Path) -> None:
    matrix = score_matrix([cell(tmp_path, "a", 10), cell(tmp_path, "b", 30), cell(tmp_path, "c", 12)])
    assert (matrix.rows, matrix.columns) == (["a", "b", "c"], ["sums"])
    assert best(matrix) == [("b", "sums")]
    assert {(pair.a, pair.b) for pair in matrix.pairs} == {("a", "b"), ("a", "c"), ("b", "c")}
    assert all(pair.p_adjusted >= pair.p_value for pair in matrix.pairs)


def test_a_lead_over_one_alone_marks_nothing(tmp_path: Path) -> None:
    assert (
        best(score_matrix([cell(tmp_path, "a", 10), cell(tmp_path, "b", 30), cell(tmp_path, "c", 29)])) == []
    )
    assert best(score_matrix([cell(tmp_path, "a", 10)])) == []


def test_a_lead_that_alone_would_be_shown_is_not_among_many_pairs(tmp_path: Path) -> None:
    two = [cell(tmp_path, "a", 10), cell(tmp_path, "b", 15)]  # 5 of 40 differ, p = 0.02
    assert best(score_matrix(two)) == [("b", "sums")]
    more = [cell(tmp_path, name, 10, benchmark="other") for name in ("a", "b", "c")]
    assert best(score_matrix([*two, *more])) == []


def test_runs_on_other_questions_are_not_compared_and_that_is_said(tmp_path: Path) -> None:
    other = cell(tmp_path, "b", 40, overrides=["benchmark.verifier.mode=exact"])
    matrix = score_matrix([cell(tmp_path, "a", 0), other])
    assert best(matrix) == []
    assert matrix.notes[0].startswith("sums: a and b are not compared: ")


def test_two_runs_of_one_model_are_two_rows(tmp_path: Path) -> None:
    one = cell(tmp_path, "a", 10)
    again = ("a", cell(tmp_path, "b", 10)[1])
    assert score_matrix([one, again]).rows == ["a (gym-job-a)", "a (gym-job-b)"]


def test_a_campaign_has_a_row_for_each_model_and_a_column_for_each_benchmark(tmp_path: Path) -> None:
    found = []
    for model, right in (("plain", 30), ("hot", 10)):
        _, row = cell(tmp_path, model, right, f"{model}.sums", label=model, task="sums")
        found += [(model, row), (model, replace(row, benchmark=f"{model}.words", task="words"))]
    matrix = score_matrix(found, [["small", "0"], ["small", "0"], ["small", "1.5"], ["big", None]])
    assert (matrix.rows, matrix.columns) == (["plain", "hot"], ["sums", "words"])
    assert best(matrix) == [("plain", "sums"), ("plain", "words")]
    assert matrix.facts == {"plain": ["small", "0"], "hot": ["small, big", "1.5"]}
    text = matrix_text(matrix, "markdown", head="model", facts=["served", "temperature"])
    assert "| model | served | temperature | sums | words |\n| --- | --- | --- | ---: | ---: |\n" in text
    assert "| hot | small, big | 1.5 | 25.0 " in text
    assert matrix_text(matrix, "csv", head="model", facts=["served", "t"]).startswith("model,served,t,sums,")


@pytest.fixture
def matrix(tmp_path: Path) -> ScoreMatrix:
    odd = cell(tmp_path, "odd_50%|x", 10, status="incomplete", detail="3 missing")
    missing = ("b", BenchmarkResult(gym_job_id="x", benchmark="words", status="not fetched", detail="far"))
    return score_matrix([odd, cell(tmp_path, "b", 30), missing])


def test_a_person_sees_percent_with_intervals_and_marks(matrix: ScoreMatrix) -> None:
    lines = matrix_text(matrix, "text", head="model").splitlines()
    assert [line.split() for line in lines] == [
        ["MODEL", "sums", "words"],
        ["odd_50%|x", "25.0†", "[15.0,", "35.0]", "-"],
        ["b", "75.0*", "[65.0,", "85.0]", "-"],
    ]
    assert matrix.notes == ["odd_50%|x, sums: 3 missing", "b, words: far"]


def test_markdown_and_latex_can_be_pasted(matrix: ScoreMatrix) -> None:
    assert matrix_text(matrix, "markdown", head="model") == (
        "| model | sums | words |\n| --- | ---: | ---: |\n"
        "| odd_50%\\|x | 25.0† [15.0, 35.0] | - |\n| b | **75.0** [65.0, 85.0] | - |\n"
    )
    latex = matrix_text(matrix, "latex", head="model")
    assert r"odd\_50\%|x & 25.0$^\dagger$ {\scriptsize [15.0, 35.0]} & -- \\" in latex
    assert r"b & \textbf{75.0} {\scriptsize [65.0, 85.0]} & -- \\" in latex
    assert latex.startswith("\\begin{tabular}{lrr}\n")


def test_csv_and_json_have_numbers(matrix: ScoreMatrix) -> None:
    rows = list(csv.DictReader(io.StringIO(matrix_text(matrix, "csv", head="model"))))
    assert [(row["model"], row["sums"], row["sums best"], row["sums status"]) for row in rows] == [
        ("odd_50%|x", "0.25", "false", "incomplete"),
        ("b", "0.75", "true", "complete"),
    ]
    assert (rows[0]["words"], rows[1]["words"], rows[1]["words status"]) == ("", "", "not fetched")
    document = json.loads(json.dumps(matrix.to_json()))
    assert [(one["row"], one["column"], one["best"]) for one in document["cells"]] == [
        ("odd_50%|x", "sums", False),
        ("b", "sums", True),
        ("b", "words", False),
    ]


def test_a_spreadsheet_runs_no_name_as_a_formula() -> None:
    lines = rows_text(["name", "value"], [["=HYPERLINK(1)", "-0.5"], ["+1", "@x"]], "csv").splitlines()
    assert lines == ["name,value", "'=HYPERLINK(1),-0.5", "+1,'@x"]


def test_a_metric_in_place_of_the_score_is_shown_as_it_is_and_marks_no_best(tmp_path: Path) -> None:
    ppl = MeasuredMetric(value=1320.6, over="run", low=1000.0, count=TASKS)
    rows = [cell(tmp_path, name, right, metrics={"ppl": ppl}) for name, right in (("a", 4), ("b", 36))]
    rows.append(cell(tmp_path, "c", 20))
    matrix = score_matrix([(name, with_metric(row, "ppl")) for name, row in rows])
    assert best(matrix) == []
    assert not matrix.pairs
    assert "c, sums: no metric ppl; there are none" in matrix.notes
    lines = matrix_text(matrix, "text", head="model").splitlines()
    assert [line.split() for line in lines[1:]] == [["a", "1321"], ["b", "1321"], ["c", "-"]]
