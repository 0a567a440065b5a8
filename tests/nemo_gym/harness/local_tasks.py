"""Tasks for lm-eval of many kinds, with data in local files: what its own tasks have, without a hub."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import yaml

PYTHON = """
import re


def shouted(docs):
    return docs.map(lambda doc: {"question": doc["question"].replace("How many", "HOW MANY")})


def question(doc):
    return f"Question: {doc['question']}\\nAnswer:"


def close(doc, results):
    right, found = int(doc["total"]), re.findall(r"\\d+", results[0])
    off = abs(right - int(found[-1])) if found else 99
    return {"near": float(off <= 3), "off": float(off)}


def pass_at_k(references, predictions, k=None):
    found = {}
    for most in k:
        first = predictions[0][:most]
        found[f"pass@{most}"] = float(any(f"#### {references[0]}" in text for text in first))
    return found
"""


def _file(kind: str) -> dict[str, Any]:
    return {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"train": "@train.jsonl", "test": f"@{kind}.jsonl"}},
        "training_split": "train",
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_target": "{{total}}",
        "generation_kwargs": {"until": ["\n\n"], "do_sample": False, "max_gen_toks": 64},
    }


_EXACT = {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}
_NUMBER = {"function": "regex", "regex_pattern": "#### (\\-?[0-9]+)"}
_FIRST = {"function": "take_first"}

TASKS: dict[str, dict[str, Any]] = {
    "filters": {
        **_file("test"),
        "fewshot_split": "train",
        "num_fewshot": 3,
        "description": "Solve the problem.\n\n",
        "filter_list": [
            {"name": "strict-match", "filter": [_NUMBER, _FIRST]},
            {
                "name": "flexible-extract",
                "filter": [{"function": "regex", "group_select": -1, "regex_pattern": "(-?[0-9]+)"}, _FIRST],
            },
        ],
        "metric_list": [{**_EXACT, "ignore_case": True, "regexes_to_ignore": [","]}],
    },
    "votes": {
        **_file("test"),
        "repeats": 3,
        "generation_kwargs": {"until": ["\n\n"], "do_sample": True, "temperature": 0.7},
        "filter_list": [
            {"name": "maj@3", "filter": [_NUMBER, {"function": "majority_vote"}, _FIRST]},
            {"name": "first", "filter": [_FIRST, _NUMBER, _FIRST]},
        ],
        "metric_list": [_EXACT],
    },
    "several_metrics": {
        **_file("test"),
        "doc_to_target": "{{first}} + {{second}} = {{total}}.\n#### {{total}}",
        "metric_list": [
            _EXACT,
            {"metric": "chrf", "aggregation": "chrf", "higher_is_better": True},
            {"metric": "bleu", "aggregation": "bleu", "higher_is_better": True},
        ],
    },
    "corpus_level": {
        **_file("test"),
        "doc_to_target": "{{first}} + {{second}} = {{total}}.",
        "metric_list": [{"metric": "bleu", "aggregation": "bleu", "higher_is_better": True}],
    },
    "python_functions": {
        **_file("test"),
        "process_docs": "!function own.shouted",
        "doc_to_text": "!function own.question",
        "process_results": "!function own.close",
        "metric_list": [
            {"metric": "near", "aggregation": "mean", "higher_is_better": True},
            {"metric": "off", "aggregation": "mean", "higher_is_better": False},
        ],
    },
    "pass_at_k": {
        **_file("test"),
        "repeats": 4,
        "filter_list": [{"name": "four", "filter": [{"function": "take_first_k", "k": 4}]}],
        "metric_list": [{**_EXACT, "metric": "!function own.pass_at_k", "k": [1, 2, 4]}],
    },
    "prefixed": {
        **_file("test"),
        "gen_prefix": "The sum is",
        "filter_list": [{"name": "number", "filter": [_NUMBER, _FIRST]}],
        "metric_list": [_EXACT],
    },
    "choices_by_text": {
        **_file("test"),
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "label",
        "filter_list": [{"name": "number", "filter": [_NUMBER, _FIRST]}],
        "metric_list": [_EXACT],
    },
    "several_targets": {
        **_file("test"),
        "doc_to_target": "targets",
        "filter_list": [{"name": "number", "filter": [_NUMBER, _FIRST]}],
        "metric_list": [_EXACT],
    },
    "set_on_the_line": {
        **_file("test"),
        "fewshot_split": "train",
        "num_fewshot": 1,
        "fewshot_config": {"sampler": "first_n"},
        "metric_list": [{**_EXACT, "regexes_to_ignore": ["(?s).*#### "]}],
    },
    "part_one": {
        **_file("test"),
        "filter_list": [{"name": "number", "filter": [_NUMBER, _FIRST]}],
        "metric_list": [_EXACT],
    },
    "part_two": {
        **_file("short"),
        "filter_list": [{"name": "number", "filter": [_NUMBER, _FIRST]}],
        "metric_list": [_EXACT],
    },
}
_SCORED = {key: value for key, value in _file("test").items() if key != "generation_kwargs"}
_CHOICES = {
    **_SCORED,
    "output_type": "multiple_choice",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "label",
    "fewshot_split": "train",
}
_MEAN = {"aggregation": "mean", "higher_is_better": True}
LIKELIHOOD_TASKS: dict[str, dict[str, Any]] = {
    "choices": {
        **_CHOICES,
        "num_fewshot": 2,
        "metric_list": [
            {"metric": "acc", **_MEAN},
            {"metric": "acc_norm", **_MEAN},
            {"metric": "acc_mutual_info", **_MEAN},
            {"metric": "brier_score", "aggregation": "brier_score", "higher_is_better": False},
        ],
    },
    "of_all_together": {
        **_CHOICES,
        "metric_list": [
            {"metric": "mcc", "aggregation": "matthews_corrcoef", "higher_is_better": True},
        ],
    },
    "several_contexts": {
        **_CHOICES,
        "doc_to_text": "label",
        "doc_to_choice": "{{contexts}}",
        "doc_to_target": "{{total}}.",
        "metric_list": [{"metric": "acc", **_MEAN}],
    },
    "cloze": {
        **_SCORED,
        "output_type": "loglikelihood",
        "doc_to_target": " {{total}}",
        "metric_list": [
            {"metric": "acc", **_MEAN},
            {"metric": "perplexity", "aggregation": "perplexity", "higher_is_better": False},
        ],
    },
    "whole_texts": {
        **_SCORED,
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{long}}",
        "metric_list": [
            {"metric": "word_perplexity"},
            {"metric": "byte_perplexity"},
            {"metric": "bits_per_byte"},
        ],
    },
    "subject_one": {**_CHOICES, "num_fewshot": 1, "metric_list": [{"metric": "acc", **_MEAN}]},
    "subject_two": {
        **_CHOICES,
        "dataset_kwargs": _file("short")["dataset_kwargs"],
        "num_fewshot": 1,
        "metric_list": [{"metric": "acc", **_MEAN}],
    },
}
SUBJECTS = {
    "group": "subjects",
    "task": ["subject_one", "subject_two"],
    "aggregate_metric_list": [{"metric": "acc", "weight_by_size": False}],
    "metadata": {"version": 2.0},
}
GROUP = {
    "group": "parts",
    "task": ["part_one", "part_two"],
    "aggregate_metric_list": [{"metric": "exact_match", "filter_list": "number", "weight_by_size": True}],
    "metadata": {"version": 1.0},
}


def write(folder: Path) -> Path:
    """Write all tasks with their data; the folder for ``--include-path``."""
    rng = random.Random(5)
    for name, count in (("train", 12), ("test", 16), ("short", 7)):
        rows = [_row(rng) for _ in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "own.py").write_text(PYTHON)
    for name, config in (TASKS | LIKELIHOOD_TASKS).items():
        write_task(folder, name, config)
    for group in (GROUP, SUBJECTS):
        (folder / f"{group['group']}.yaml").write_text(yaml.safe_dump(group))
    return folder


def write_task(folder: Path, name: str, config: dict[str, Any]) -> None:
    """Write one definition; ``@`` stands for the folder, ``!function`` for the tag of that name."""
    text = yaml.safe_dump({"task": name, **config, "metadata": {"version": 1.0}}, width=1000)
    text = text.replace("'@", f"'{folder}/").replace("'!function own.", "!function 'own.")
    (folder / f"{name}.yaml").write_text(text)


def _row(rng: random.Random) -> dict[str, Any]:
    first, second = rng.randint(2, 60), rng.randint(2, 60)
    total = first + second
    choices = [str(total), str(total + 1), str(total - 1)]
    rng.shuffle(choices)
    return {
        "question": f"Ann has {first} pears and gets {second} more. How many pears has she?",
        "first": first,
        "second": second,
        "total": total,
        "answer": f"{first} + {second} = {total}.\n#### {total}",
        "choices": choices,
        "label": choices.index(str(total)),
        "targets": [str(total), str(total + 3)],
        "contexts": [f"{first} and {second} are {number},  so it is" for number in choices],
        "long": " ".join(f"{first} and {second} are {total + number}." for number in range(70)),
    }
