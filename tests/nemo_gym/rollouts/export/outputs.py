"""A run with results, as exports take it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.result_rows import benchmark_config, result, run_config, write_manifest, write_output

from nemo_gym.rollouts.export.exported import ExportedOutput
from nemo_gym.rollouts.scores.aggregate import aggregate

ODD = 'comma, "quotes"\nline ☃ | <b>'
RESULTS: dict[tuple[int, int], dict[str, Any]] = {
    (0, 0): result("thought of 0", answer="0"),
    (0, 1): result("7", answer="7", reward=0.0),
    (1, 0): result(ODD, answer=None, reward=0.0, cut=True),
    (1, 1): result("1", answer="1"),
    (2, 0): result("2", answer="2", reward=0.5, verdict_note="half", _ng_verdict_fields=["verdict_note"]),
}
THOUGHTS = "Zero it is."


def exported(folder: Path, benchmark: str = "sums", model: str = "org/model-1") -> ExportedOutput:
    """Three tasks of two repeats: five rollouts have results, one failed."""
    results = {place: {**fields, "response": dict(fields["response"])} for place, fields in RESULTS.items()}
    thinking = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": THOUGHTS}]}
    first = results[0, 0]["response"]
    first["output"] = [thinking, *first["output"]]
    paths = write_output(folder, results, tasks=3, repeats=2, failures=[(2, 1, "model_call_failed")])
    config = run_config(
        benchmark_config(folder / "b"),
        f"policy_model_name={model}",
        "responses_create_params.temperature=0.5",
        "num_repeats=2",
    )
    write_manifest(paths, config, tasks=3, repeats=2)
    aggregate(paths, num_tasks=3, num_repeats=2, run={"benchmark": benchmark, "seconds": 2.5, "model": model})
    return ExportedOutput(benchmark, paths, "gym-job-20261129T000000Z-00000a", {"team": "a"})
