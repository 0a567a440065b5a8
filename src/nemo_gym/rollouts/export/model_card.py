"""Scores for a model's page on the Hugging Face hub: ``model-index`` in a card, and ``.eval_results``.

The hub knows a benchmark by its data set. Where none is named for a benchmark, its scores are in the card
alone, under the benchmark's own name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from nemo_gym.errors import UsageError
from nemo_gym.rollouts.export.exported import ExportedOutput

_DATASET = re.compile(r"([\w.-]+/[\w.-]+)(?::([\w.-]+))?")


def parse_datasets(texts: Sequence[str]) -> dict[str, tuple[str, str]]:
    """``BENCHMARK=OWNER/NAME[:TASK]`` as benchmark -> (data set, task). Raises `UsageError`."""
    found = {}
    for text in texts:
        benchmark, _, dataset = text.partition("=")
        match = _DATASET.fullmatch(dataset)
        if match is None:
            raise UsageError(f"--dataset {text}: write BENCHMARK=OWNER/NAME or BENCHMARK=OWNER/NAME:TASK.")
        found[benchmark] = (match[1], match[2] or benchmark)
    return found


def write_model_card(
    outputs: Sequence[ExportedOutput], folder: Path, datasets: Mapping[str, tuple[str, str]]
) -> list[Path]:
    """Write ``README.md`` and a file in ``.eval_results`` for each benchmark with a data set; the files."""
    folder.mkdir(parents=True, exist_ok=True)
    card = folder / "README.md"
    card.write_text(
        f"---\n{_yaml(_card_head(outputs, datasets))}---\n\n{_card_text(outputs)}", encoding="utf-8"
    )
    written = [card]
    for output in outputs:
        if output.benchmark in datasets and output.summary.score is not None:
            into = folder / ".eval_results"
            into.mkdir(exist_ok=True)
            path = into / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', output.benchmark)}.yaml"
            path.write_text(_yaml([_entry(output, *datasets[output.benchmark])]), encoding="utf-8")
            written.append(path)
    return written


def _card_head(outputs: Sequence[ExportedOutput], datasets: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    by_model: dict[str, list[ExportedOutput]] = {}
    for output in outputs:
        by_model.setdefault(_model_name(output, outputs), []).append(output)
    return {
        "model-index": [
            {
                "name": model,
                "results": [
                    _index_result(output, same, datasets)
                    for output in same
                    if output.summary.score is not None
                ],
            }
            for model, same in by_model.items()
        ]
    }


def _model_name(output: ExportedOutput, outputs: Sequence[ExportedOutput]) -> str:
    """The name under which the model answered, with the campaign's where several have the same."""
    same = {other.campaign_model for other in outputs if other.model == output.model}
    return output.model if len(same) == 1 else f"{output.model} ({output.campaign_model})"


def _index_result(
    output: ExportedOutput, same: Sequence[ExportedOutput], datasets: Mapping[str, tuple[str, str]]
) -> dict[str, Any]:
    """A score; ``same`` are all benchmarks of the model, of which several may have one data set's name."""
    score = output.summary.score
    assert score is not None
    dataset = datasets.get(output.benchmark, (output.benchmark_name, ""))[0]
    alone = sum(other.benchmark_name == output.benchmark_name for other in same) == 1
    return {
        "task": {"type": "text-generation", "name": "Text Generation"},
        "dataset": {"type": dataset, "name": output.benchmark_name if alone else output.column},
        "metrics": [
            {
                "type": "accuracy",
                "name": "mean reward",
                "value": round(100 * score.mean, 4),
                "args": {
                    "low": round(100 * score.low, 4),
                    "high": round(100 * score.high, 4),
                    "num_repeats": output.manifest.num_repeats,
                    **{name: value for name, value in output.sampling.items() if value is not None},
                },
            }
        ],
    }


def _entry(output: ExportedOutput, dataset: str, task: str) -> dict[str, Any]:
    score = output.summary.score
    assert score is not None
    date = datetime.fromtimestamp(output.ended_at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "dataset": {"id": dataset, "task_id": task},
        "value": round(100 * score.mean, 4),
        "date": date,
        "notes": f"95% interval {score.low:.1%} to {score.high:.1%}; {output.summary.coverage.denominator}",
    }


def _card_text(outputs: Sequence[ExportedOutput]) -> str:
    lines = [
        "## Evaluation",
        "",
        "| Benchmark | Score | 95% interval | Rollouts |",
        "| --- | ---: | ---: | ---: |",
    ]
    for output in outputs:
        score, coverage = output.summary.score, output.summary.coverage
        name = output.benchmark.replace("|", "\\|")
        if score is None:
            lines.append(f"| {name} | - | - | {coverage.measured:,}/{coverage.expected:,} |")
        else:
            interval = f"{score.low:.1%} to {score.high:.1%}"
            lines.append(
                f"| {name} | {score.mean:.1%} | {interval} | {coverage.measured:,}/{coverage.expected:,} |"
            )
    return "\n".join([*lines, ""])


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
