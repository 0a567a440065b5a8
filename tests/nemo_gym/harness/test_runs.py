"""Runs of tasks of lm-eval that are killed, resumed, changed or refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.engines import harness_python, shared_cache
from tests.mock_server import MockServer
from tests.nemo_gym.harness import local_tasks
from tests.nemo_gym.harness.answering import AnsweringServer

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

GYM = Path(sys.executable).with_name("gym")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tasks"
    made.mkdir()
    return local_tasks.write(made)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    harness_python()
    return {
        **os.environ,
        "XDG_CACHE_HOME": shared_cache(tmp_path / "cache"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "1",
    }


def command(task: str, folder: Path, server: AnsweringServer, output: Path, *more: str) -> list[str]:
    return [
        *(str(GYM), "eval", "run", "--benchmark", f"lm_eval/{task}", "--include-path", str(folder)),
        *("--model", "m", "--model-url", server.base_url, "-o", str(output), "--json", *more),
        *("num_repeats_add_seed=true", "benchmark.lm_eval.bootstrap_iters=100"),
    ]


def run(argv: list[str], environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=300, check=False)


def metrics(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return {
        name: found for name, found in json.loads(done.stdout)["metrics"].items() if found["over"] == "run"
    }


@pytest.mark.parametrize(("task", "all_requests"), [("votes", 48), ("choices", 96)])
def test_a_run_that_was_killed_and_resumed_has_the_scores_of_one_that_was_not(
    task: str, all_requests: int, folder: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    more = (f"policy_tokenizer={tokenizer(tmp_path)}",)
    with AnsweringServer() as server:
        whole = metrics(run(command(task, folder, server, tmp_path / "whole.jsonl", *more), environ))
    cut = tmp_path / "cut.jsonl"
    with AnsweringServer(seconds=0.3, enough=40) as server:
        argv = command(task, folder, server, cut, "--concurrency", "2", *more)
        with subprocess.Popen(
            argv, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as killed:
            assert server.enough.wait(120)
            killed.send_signal(signal.SIGKILL)
    # the same tokens, from the server this time: not the address matters, but what is made with it
    again = more if task == "votes" else ()
    with AnsweringServer(letters="".join(LETTERS)) as server:
        resumed = run([*command(task, folder, server, cut, *again), "--resume"], environ)
        assert metrics(resumed) == whole
        assert server.requests < all_requests
    assert json.loads(resumed.stdout)["run"]["resumed"] >= 2


def test_a_task_that_changed_refuses_to_resume_and_is_graded_again_if_its_questions_are_the_same(
    folder: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    output = tmp_path / "rollouts.jsonl"
    with AnsweringServer() as server:
        argv = command("filters", folder, server, output)
        before = metrics(run(argv, environ))
        manifest = json.loads((tmp_path / "rollouts_manifest.json").read_text())
        known = manifest["identity"]["scoring"]["benchmark"]["lm_eval"]["definition"]
        assert known["lm_eval"].startswith("0.4.")
        assert known["tasks"] == {"filters": 1.0}

        config = local_tasks.TASKS["filters"]
        first = {"name": "strict-match", "filter": [{"function": "take_first"}]}
        local_tasks.write_task(folder, "filters", {**config, "filter_list": [first]})
        refused = run([*argv, "--resume"], environ)
        assert refused.returncode == 1
        assert "benchmark.lm_eval.definition.sha256" in refused.stderr
        assert "gym eval reverify" in refused.stderr

        again = run(
            [
                *(str(GYM), "eval", "reverify", "--rollouts", str(output), "--benchmark", "lm_eval/filters"),
                *("--include-path", str(folder), "--json", "benchmark.lm_eval.bootstrap_iters=100"),
            ],
            environ,
        )
        assert again.returncode == 0, again.stderr
        after = json.loads(again.stdout)["summary"]["metrics"]
        assert after["exact_match,strict-match"]["value"] != before["exact_match,strict-match"]["value"]

        local_tasks.write_task(folder, "filters", {**config, "description": "Another one.\n\n"})
        refused = run([*argv, "--resume"], environ)
        assert refused.returncode == 1
        assert "dataset_sha256" in refused.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unsafe_code": True}, "runs code that the model wrote"),
        ({"doc_to_image": ["question"]}, "shows images"),
        ({"dataset_path": "somebody/sums", "dataset_kwargs": None}, "the data set somebody/sums"),
        ({"doc_to_text": "{{question"}, "cannot be made: TemplateSyntaxError"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name_before_the_first_request(
    change: dict[str, Any], words: str, folder: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    local_tasks.write_task(folder, "filters", {**local_tasks.TASKS["filters"], **change})
    with AnsweringServer() as server:
        refused = run(command("filters", folder, server, tmp_path / "rollouts.jsonl"), environ)
        assert server.requests == 0
    assert refused.returncode == 1
    assert words in refused.stderr
    assert "filters" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert refused.stdout == ""


_SHOWN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_HIDDEN = [code for code in range(256) if code not in _SHOWN]
LETTERS = [chr(code) for code in _SHOWN + _HIDDEN]
"""One for each byte, in the order of their tokens; in the tokenizer's file hidden ones have other letters."""


def tokenizer(folder: Path) -> str:
    """A folder with a tokenizer of single bytes."""
    letters = [chr(code) for code in _SHOWN] + [chr(256 + number) for number in range(len(_HIDDEN))]
    vocabulary = {"<s>": 0, **{letter: number for number, letter in enumerate(letters, 1)}}
    made = folder / "tokenizer"
    made.mkdir()
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    whole = {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level, "model": model}
    (made / "tokenizer.json").write_text(json.dumps(whole))
    (made / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"})
    )
    return str(made)


def test_a_server_without_likelihoods_of_prompts_is_refused_before_anything_is_recorded(
    folder: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    output = tmp_path / "rollouts.jsonl"
    with MockServer(models=["m"]) as server:
        argv = command("choices", folder, server, output, f"policy_tokenizer={tokenizer(tmp_path)}")
        refused = run(argv, environ)
        assert server.requests == 1
    assert refused.returncode == 1
    assert "gives no log-probability for each token of a prompt" in refused.stderr
    assert "it gave 0 log-probabilities" in refused.stderr
    assert not output.exists()


def test_likelihoods_without_a_tokenizer_are_refused_with_the_key_to_set(
    folder: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    with AnsweringServer() as server:
        refused = run(command("choices", folder, server, tmp_path / "rollouts.jsonl"), environ)
        assert server.requests == 0
    assert refused.returncode == 1
    assert "the server has no /tokenize that gives token ids; set policy_tokenizer to" in refused.stderr
    argv = [str(GYM), "eval", "prepare", "--benchmark", "lm_eval/choices", "--include-path", str(folder)]
    assert "the model's tokenizer is needed; set policy_tokenizer to" in run(argv, environ).stderr


def test_the_preview_shows_token_ids_as_they_will_be_sent(
    folder: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    argv = [
        *(str(GYM), "eval", "preview", "--benchmark", "lm_eval/choices", "--json", "-n", "1"),
        *("--include-path", str(folder), f"policy_tokenizer={tokenizer(tmp_path)}"),
    ]
    shown = run(argv, environ)
    assert shown.returncode == 0, shown.stderr
    assert '"echo": true' in shown.stdout


NLTK = """
import nltk

try:
    nltk.data.find("tokenizers/punkt_tab")
except LookupError:
    nltk.download("punkt_tab")


def close(doc, results):
    return {"near": 1.0}
"""


def test_data_of_nltk_that_a_definition_would_download_is_refused_offline_by_name(
    folder: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    (folder / "own.py").write_text(NLTK)
    metric = {"metric": "near", "aggregation": "mean", "higher_is_better": True}
    task = {key: value for key, value in local_tasks.TASKS["filters"].items() if key != "filter_list"}
    local_tasks.write_task(
        folder, "filters", {**task, "process_results": "!function own.close", "metric_list": [metric]}
    )
    environ = {**environ, "NLTK_DATA": str(tmp_path / "nltk"), "HOME": str(tmp_path)}
    argv = [str(GYM), "eval", "prepare", "--benchmark", "lm_eval/filters", "--include-path", str(folder)]
    refused = run(argv, environ)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "it needs NLTK's data punkt_tab, which is not on this machine" in refused.stderr
    assert "Traceback" not in refused.stderr
    (tmp_path / "nltk/tokenizers/punkt_tab").mkdir(parents=True)
    assert run(argv, environ).returncode == 0
    (tmp_path / "nltk/tokenizers/punkt_tab").rmdir()
    assert "it needs NLTK's data punkt_tab" in run(argv, environ).stderr
