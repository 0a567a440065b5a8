"""Sums to learn from are none that the benchmark asks."""

import importlib.util
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "arithmetic"


def load(name):
    spec = importlib.util.spec_from_file_location(f"arithmetic_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked_questions(file):
    load("prepare").prepare(file, num_tasks=100, digits=2)
    return {json.loads(line)["question"] for line in file.read_text().splitlines()}


@pytest.mark.slow
def test_nothing_that_is_asked_is_learned_and_everything_else_can_be(tmp_path):
    asked = asked_questions(tmp_path / "asked.jsonl")
    rows = list(load("training").sums(asked, digits=2, seed=1))
    learned = [row["prompt"][0]["content"].partition("?")[0] + "?" for row in rows]
    assert len(set(learned)) == len(learned) == 90 * 90 - 100
    assert not asked & set(learned)


def test_a_row_is_the_benchmarks_prompt_with_the_right_sum(tmp_path):
    import yaml

    prompt = yaml.safe_load((FOLDER / "config.yaml").read_text())["benchmark"]["prompt"]["user"]
    for row in islice(load("training").sums(set(), digits=1, seed=3), 20):
        (said,), (answer,) = row["prompt"], row["completion"]
        question = said["content"].partition("?")[0] + "?"
        assert said == {"role": "user", "content": prompt.format(question=question)}
        left, right = question.removeprefix("What is ").removesuffix("?").split(" + ")
        assert answer == {"role": "assistant", "content": str(int(left) + int(right))}


def test_the_program_writes_the_same_rows_again(tmp_path):
    asked_questions(tmp_path / "asked.jsonl")
    for name in ("one.jsonl", "two.jsonl"):
        argv = [
            sys.executable,
            FOLDER / "training.py",
            tmp_path / name,
            "--without",
            tmp_path / "asked.jsonl",
        ]
        done = subprocess.run([*argv, "--rows", "50"], capture_output=True, text=True, check=True)
        assert done.stderr == "50 sums to learn from, none of the 100 that are asked\n"
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
