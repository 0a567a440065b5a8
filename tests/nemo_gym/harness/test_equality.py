"""The same answers give what lm-eval's own loop gives: prompts, grades, aggregates, standard errors."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.engines import harness_python, shared_cache
from tests.nemo_gym.harness import local_tasks
from tests.nemo_gym.harness.answering import AnsweringServer

from nemo_gym.cli.program import gym

pytestmark = [pytest.mark.slow, pytest.mark.services]

HERE = Path(__file__).parent
LINE = {"num_fewshot": 2, "gen_kwargs": {"max_gen_toks": 99}, "system_instruction": "Be brief."}
JOBS: list[dict[str, Any]] = [
    {"task": "filters", "chat": True},
    {"task": "votes", "chat": False},
    {"task": "several_metrics", "chat": True},
    {"task": "corpus_level", "chat": False},
    {"task": "python_functions", "chat": True},
    {"task": "pass_at_k", "chat": False},
    {"task": "prefixed", "chat": True},
    {"task": "choices_by_text", "chat": False},
    {"task": "several_targets", "chat": True},
    {"task": "set_on_the_line", "chat": True, **LINE},
    {"task": "parts", "chat": False},
]
SCORED = ["choices", "of_all_together", "several_contexts", "cloze", "whole_texts", "subjects"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return local_tasks.write(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="module")
def theirs(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("home")
    output = home / "theirs.json"
    python = harness_python()
    jobs = [*JOBS, *({"task": name, "chat": False} for name in SCORED)]
    argv = [str(python), str(HERE / "theirs.py"), str(folder), json.dumps(jobs), str(output)]
    environ = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home / "hf"), "PATH": "/usr/bin:/bin", "HOME": str(home)}
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(output.read_text())


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", shared_cache(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="module")
def server() -> Iterator[AnsweringServer]:
    with AnsweringServer() as running:
        yield running


def run(
    job: dict[str, Any], folder: Path, server: AnsweringServer, output: Path, *more: str
) -> dict[str, Any]:
    """Our summary of a task."""
    settings = {key: value for key, value in job.items() if key not in {"task", "chat"}}
    done = CliRunner().invoke(
        gym,
        [
            *("eval", "run", "--benchmark", f"lm_eval/{job['task']}", "--include-path", str(folder)),
            *("--model", "m", "--model-url", server.base_url, "-o", str(output), "--json"),
            *("num_repeats_add_seed=true", "benchmark.lm_eval.bootstrap_iters=100"),
            f"policy_api={'chat' if job['chat'] else 'completions'}",
            *more,
            *(f"benchmark.lm_eval.{key}={json.dumps(value)}" for key, value in settings.items()),
        ],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def plain_prompt(value: Any) -> Any:
    return json.loads(value) if value.startswith("[") else value


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job["task"])
def test_prompts_grades_aggregates_and_standard_errors_are_those_of_lm_eval(
    job: dict[str, Any], folder: Path, server: AnsweringServer, theirs: Any, tmp_path: Path
) -> None:
    output = tmp_path / "rollouts.jsonl"
    ours = run(job, folder, server, output)["metrics"]
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    wanted = theirs[job["task"]]

    samples = {(name, s["doc_id"]): s for name, all_ in wanted["samples"].items() for s in all_}
    prompts = {
        (row["lm_eval"]["task"], row["lm_eval"]["doc_id"]): row["responses_create_params"]["input"]
        for row in rows
    }
    assert prompts == {key: plain_prompt(sample["arguments"][0][0]) for key, sample in samples.items()}

    if all(row["_ng_rollout_index"] == 0 for row in rows):
        same_grades(rows, wanted)
    same_scores(ours, wanted)


@pytest.mark.parametrize("task", SCORED)
def test_likelihoods_grades_aggregates_and_standard_errors_are_those_of_lm_eval(
    task: str, folder: Path, server: AnsweringServer, theirs: Any, tmp_path: Path
) -> None:
    output = tmp_path / "rollouts.jsonl"
    more = (f"policy_tokenizer={folder / 'tokenizer'}", "benchmark.lm_eval.max_length=128")
    ours = run({"task": task, "chat": False}, folder, server, output, *more)["metrics"]
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    wanted = theirs[task]
    for name, all_ in wanted["samples"].items():
        for sample in all_:
            found = row_of(rows, name, sample)["lm_eval_likelihoods"]
            said = [answers[0] for answers in sample["resps"]]
            assert (found[0][0] if task == "whole_texts" else found) == (
                said[0] if task == "whole_texts" else said
            )
    same_grades(rows, wanted)
    same_scores(ours, wanted)


def row_of(rows: list[Any], name: str, sample: Any) -> Any:
    (found,) = (
        row for row in rows if (row["lm_eval"]["task"], row["lm_eval"]["doc_id"]) == (name, sample["doc_id"])
    )
    return found


def same_grades(rows: list[Any], wanted: Any) -> None:
    for name, all_ in wanted["samples"].items():
        for sample in all_:
            row = row_of(rows, name, sample)
            found = {**row["lm_eval_values"], **row.get("_ng_metrics", {})}
            for metric in sample["metrics"]:
                assert found[f"{metric},{sample['filter']}"] == sample[metric]


def same_scores(ours: Any, wanted: Any) -> None:
    several = len(wanted["results"]) > 1
    expected = {}
    for name, values in wanted["results"].items():
        for key, value in values.items():
            metric, comma, of_filter = key.partition(",")
            if comma and not metric.endswith("_stderr"):
                error = values[f"{metric}_stderr,{of_filter}"]
                shown = f"{name}/{key}" if several else key
                expected[shown] = (value, None if error == "N/A" else error)
    found = {key: (m["value"], m["std_error"]) for key, m in ours.items() if m["over"] == "run"}
    assert found == expected
    assert found
