"""The files of lm-evaluation-harness: ``results_<date>.json`` and ``samples_<task>_<date>.jsonl``.

A task is one document, its repeats are the responses to it; ``reward`` is its metric, the mean over repeats.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from nemo_gym.rollouts.export.exported import ExportedOutput
from nemo_gym.rollouts.reading.recorded import RecordedRollout

METRIC = "reward"
_FILTER = "none"


def write_lm_eval(outputs: Sequence[ExportedOutput], folder: Path) -> list[Path]:
    """Write the files of one model's run below ``folder``; what was written."""
    written = []
    for model, same in _by_model(outputs):
        into = folder / _sanitized(model)
        into.mkdir(parents=True, exist_ok=True)
        date = datetime.fromtimestamp(max(output.ended_at for output in same), UTC)
        stamp = date.isoformat(timespec="microseconds").replace("+00:00", "").replace(":", "-")
        results = into / f"results_{stamp}.json"
        results.write_text(json.dumps(_results(model, same, date), indent=2, ensure_ascii=False) + "\n")
        written.append(results)
        for output in same:
            if output.publishes_rows:
                samples = into / f"samples_{_task(output)}_{stamp}.jsonl"
                with samples.open("w", encoding="utf-8", errors="replace") as file:
                    file.writelines(f"{json.dumps(s, ensure_ascii=False)}\n" for s in _samples(output))
                written.append(samples)
    return written


def _by_model(outputs: Sequence[ExportedOutput]) -> Iterator[tuple[str, list[ExportedOutput]]]:
    models = list(dict.fromkeys(output.model for output in outputs))
    for model in models:
        yield model, [output for output in outputs if output.model == model]


def _results(model: str, outputs: Sequence[ExportedOutput], date: datetime) -> dict[str, Any]:
    names = [_task(output) for output in outputs]
    counts = {
        name: {"original": output.summary.coverage.tasks, "effective": output.summary.coverage.measured_tasks}
        for name, output in zip(names, outputs, strict=True)
    }
    return {
        "results": {name: _task_results(output) for name, output in zip(names, outputs, strict=True)},
        "group_subtasks": {name: [] for name in names},
        "configs": {name: _config(output) for name, output in zip(names, outputs, strict=True)},
        "versions": dict.fromkeys(names, 1),
        "n-shot": dict.fromkeys(names, 0),
        "higher_is_better": {name: {METRIC: True} for name in names},
        "n-samples": counts,
        "config": {
            "model": "gym",
            "model_args": f"model={model}",
            "gen_kwargs": dict(outputs[0].sampling),
            "limit": outputs[0].manifest.generation.get("limit"),
        },
        "git_hash": outputs[0].manifest.gym_commit,
        "date": date.timestamp(),
        "model_source": "gym",
        "model_name": model,
        "model_name_sanitized": _sanitized(model),
        "task_hashes": {},
        "total_evaluation_time_seconds": str(
            sum(float(output.summary.run.get("seconds") or 0) for output in outputs)
        ),
    }


def _task_results(output: ExportedOutput) -> dict[str, Any]:
    score = output.summary.score
    return {
        "alias": _task(output),
        f"{METRIC},{_FILTER}": None if score is None else score.mean,
        f"{METRIC}_stderr,{_FILTER}": "N/A" if score is None else score.std_error,
    }


def _config(output: ExportedOutput) -> dict[str, Any]:
    return {
        "task": _task(output),
        "output_type": "generate_until",
        "repeats": output.manifest.num_repeats,
        "generation_kwargs": dict(output.sampling),
        "metric_list": [{"metric": METRIC, "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"run": output.run, **output.settings()},
    }


def _samples(output: ExportedOutput) -> Iterator[dict[str, Any]]:
    answered = (
        rollout for rollout in output.rollouts() if rollout.outcome not in ("failed", "not graded yet")
    )
    for task, repeats in groupby(answered, key=lambda rollout: rollout.task):
        yield _sample(output, task, list(repeats))


def _sample(output: ExportedOutput, task: int, repeats: Sequence[RecordedRollout]) -> dict[str, Any]:
    first = repeats[0]
    doc = {key: value for key, value in first.row.items() if key != "responses_create_params"}
    prompt = json.dumps(first.prompt, ensure_ascii=False)
    rewards = [rollout.reward for rollout in repeats if rollout.reward is not None]
    target = first.expected or ""
    return {
        "doc_id": task,
        "doc": doc,
        "target": target,
        **(_of_texts(repeats) if first.likelihoods else _of_answers(output, prompt, repeats)),
        "filter": _FILTER,
        "metrics": [METRIC],
        "doc_hash": _hash(json.dumps(doc, indent=2, ensure_ascii=False, default=str)),
        "prompt_hash": _hash(prompt),
        "target_hash": _hash(target),
        METRIC: sum(rewards) / len(rewards) if rewards else None,
    }


def _of_answers(output: ExportedOutput, prompt: str, repeats: Sequence[RecordedRollout]) -> dict[str, Any]:
    return {
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": dict(output.sampling)}},
        "resps": [[rollout.answer for rollout in repeats]],
        "filtered_resps": [
            rollout.answer if rollout.extracted is None else rollout.extracted for rollout in repeats
        ],
    }


def _of_texts(repeats: Sequence[RecordedRollout]) -> dict[str, Any]:
    """As lm-eval writes requests for likelihoods: each text with its value and whether it is greedy."""
    asked = "\n".join(message["content"] for message in repeats[0].prompt)
    texts = [each.text for each in repeats[0].likelihoods]
    whole = [[(each.log_likelihood, each.greedy) for each in rollout.likelihoods] for rollout in repeats]
    return {
        "arguments": {
            f"gen_args_{number}": {"arg_0": asked} | ({} if text is None else {"arg_1": text})
            for number, text in enumerate(texts)
        },
        "resps": [list(of_one) for of_one in zip(*whole, strict=False)],
        "filtered_resps": whole[0],
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _task(output: ExportedOutput) -> str:
    """The name of a task in file names and tables."""
    return re.sub(r"\W", "-", output.benchmark)


def _sanitized(model: str) -> str:
    """A model's name as lm-eval makes folders of it."""
    return re.sub(r"[\"<>:/|\\?*\[\]]+", "__", model)
