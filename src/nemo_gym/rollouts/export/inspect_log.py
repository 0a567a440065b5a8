"""A log in the format of Inspect (``.eval``), which its viewer and its Python functions open.

The format is a ZIP of JSON documents, so samples are written one by one, whatever their number.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nemo_gym.rollouts.export.exported import ExportedOutput
from nemo_gym.rollouts.export.inspect_turns import sample_events, turn_messages
from nemo_gym.rollouts.reading.recorded import RecordedRollout
from nemo_gym.types import token_count

SCORER = "reward"
_VERSION = 2
_STOPS = {"max_output_tokens": "max_tokens", "content_filter": "content_filter", "tool_calls": "tool_calls"}


def write_inspect(output: ExportedOutput, folder: Path) -> Path:
    """Write the log of one benchmark; where rows stay unpublished, the log has no samples."""
    date = datetime.fromtimestamp(output.ended_at, UTC)
    name = re.sub(r"[^A-Za-z0-9]+", "-", output.benchmark)
    path = folder / f"{date.strftime('%Y-%m-%dT%H-%M-%S')}+00-00_{name}_{_id(output.manifest.run_id)}.eval"
    folder.mkdir(parents=True, exist_ok=True)
    spec = _spec(output)
    plan = {"name": "plan", "steps": [], "config": {}}
    summaries: list[dict[str, Any]] = []
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        _put(archive, "_journal/start.json", {"version": _VERSION, "eval": spec, "plan": plan})
        for rollout in output.rollouts():
            sample = _sample(output, rollout)
            _put(archive, f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample)
            summaries.append(_summary(sample))
        _put(archive, "summaries.json", summaries)
        _put(archive, "header.json", _header(output, spec, plan))
    return path


def _header(output: ExportedOutput, spec: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    summary = output.summary
    whole = summary.whole
    metrics = {}
    if summary.score is not None:
        metrics = {
            "accuracy": {"name": "accuracy", "value": summary.score.mean, "params": {}},
            "stderr": {"name": "stderr", "value": summary.score.std_error, "params": {}},
        }
    coverage = summary.coverage
    ended = datetime.fromtimestamp(output.ended_at, UTC).isoformat()
    usage = {
        "input_tokens": int(summary.tokens.get("input", 0)),
        "output_tokens": int(summary.tokens.get("output", 0)),
        "total_tokens": int(summary.tokens.get("input", 0) + summary.tokens.get("output", 0)),
    }
    return {
        "version": _VERSION,
        "status": "success" if whole else "cancelled",
        "eval": spec,
        "plan": plan,
        "results": {
            "total_samples": coverage.expected,
            "completed_samples": coverage.measured,
            "scores": [{"name": SCORER, "scorer": SCORER, "params": {}, "metrics": metrics}],
        },
        "stats": {
            "started_at": output.manifest.created_at,
            "completed_at": ended,
            "model_usage": {output.model: usage},
        },
    }


def _spec(output: ExportedOutput) -> dict[str, Any]:
    manifest = output.manifest
    ids = sorted({place[0] for place in output.located.known()}) if output.publishes_rows else []
    return {
        "eval_id": _id(f"{manifest.run_id} eval"),
        "run_id": _id(f"{output.run} run"),
        "created": manifest.created_at,
        "task": output.benchmark,
        "task_id": _id(f"{manifest.run_id} task"),
        "task_version": 0,
        "task_attribs": {},
        "task_args": {},
        "tags": [f"{key}={value}" for key, value in output.labels.items()],
        "dataset": {
            "name": output.benchmark_name,
            "samples": manifest.num_tasks,
            "sample_ids": [task + 1 for task in ids],
            "shuffled": False,
        },
        "model": output.model,
        "model_args": {},
        "model_generate_config": {},
        "config": {"epochs": manifest.num_repeats},
        "packages": {"nemo-baton": manifest.gym_version},
        "metadata": {"run": output.run, **output.settings()},
    }


def _sample(output: ExportedOutput, rollout: RecordedRollout) -> dict[str, Any]:
    sample = f"{output.manifest.run_id} {rollout.task} {rollout.repeat}"
    answer = _answer_message(output, rollout, _id(f"{sample} answer"))
    messages = [
        {"id": _id(f"{sample} {number}"), "role": _role(message["role"]), "content": message["content"]}
        for number, message in enumerate(rollout.prompt)
    ]
    turns = [
        {"id": _id(f"{sample} turn {number}"), **message}
        for number, message in enumerate(turn_messages(rollout.turns))
    ]
    found: dict[str, Any] = {
        "id": rollout.task + 1,
        "epoch": rollout.repeat + 1,
        "input": messages or "",
        "target": rollout.expected or "",
        "messages": [*messages, *turns, *([answer] if answer else [])],
        "output": _output(output, rollout, answer),
        "scores": {},
        "metadata": {"outcome": rollout.outcome, "verdict": dict(rollout.verdict)},
        "store": {},
        "model_usage": {},
        "uuid": _id(sample),
        "attachments": {},
    }
    if usage := found["output"].get("usage"):
        found["model_usage"] = {output.model: usage}
    if rollout.reward is not None:
        found["scores"] = {
            SCORER: {"value": rollout.reward, "answer": rollout.extracted, "explanation": rollout.reason}
        }
    if isinstance(latency := rollout.perf.get("total_latency_ms"), int | float):
        found["total_time"] = latency / 1000
    if rollout.outcome == "failed":
        found["error"] = {"message": rollout.reason, "traceback": "", "traceback_ansi": ""}
    found["events"] = sample_events(found, model=output.model, at=output.manifest.created_at, scorer=SCORER)
    return found


def _role(role: str) -> str:
    return {"developer": "system"}.get(role, role if role in ("system", "user", "assistant") else "user")


def _answer_message(output: ExportedOutput, rollout: RecordedRollout, name: str) -> dict[str, Any] | None:
    if rollout.outcome == "failed":
        return None
    content: Any = rollout.answer
    if rollout.thoughts:
        thoughts = {"type": "reasoning", "reasoning": rollout.thoughts}
        content = [thoughts, {"type": "text", "text": rollout.answer}]
    return {"id": name, "role": "assistant", "content": content, "source": "generate", "model": output.model}


def _output(
    output: ExportedOutput, rollout: RecordedRollout, answer: Mapping[str, Any] | None
) -> dict[str, Any]:
    if answer is None:
        return {"model": output.model, "choices": [], "completion": ""}
    read, wrote = (token_count(rollout.perf.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    return {
        "model": output.model,
        "choices": [{"message": answer, "stop_reason": _STOPS.get(rollout.end or "", "stop")}],
        "completion": rollout.answer,
        "usage": {"input_tokens": read, "output_tokens": wrote, "total_tokens": read + wrote},
    }


def _summary(sample: Mapping[str, Any]) -> dict[str, Any]:
    names = ("id", "epoch", "uuid", "input", "target", "scores", "model_usage", "total_time")
    short = {key: sample[key] for key in names if key in sample}
    short["message_count"] = len(sample["messages"])
    error = sample.get("error")
    return {**short, "metadata": {}, "completed": True, **({"error": error["message"]} if error else {})}


def _id(text: str) -> str:
    """Twenty-two letters and digits, the same for the same text, as Inspect's identifiers are."""
    return hashlib.sha256(text.encode()).hexdigest()[:22]


def _put(archive: zipfile.ZipFile, name: str, value: Any) -> None:
    archive.writestr(
        name, json.dumps(_plain(value), ensure_ascii=False, default=str).encode("utf-8", "replace")
    )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, Iterator) else value
