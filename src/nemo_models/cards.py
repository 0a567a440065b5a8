"""The page of a model at a hub: what it was trained from and how, and how it was evaluated."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nemo_models.errors import ModelsError

_HUB = "hf://"


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What the page says."""

    title: str
    adapter: bool
    base: str | None
    """The base model; ``hf://owner/name`` of one at the hub."""
    training: Mapping[str, Any]
    """See `training_facts.of_job`."""
    results: Sequence[Mapping[str, Any]] = ()
    """Of evaluations, as `gym job results --json` lists them."""
    description: str | None = None


def read_results(path: Path) -> list[Mapping[str, Any]]:
    """The results in a file that `gym job results --json` has written; raises `ModelsError`."""
    try:
        found = json.loads(path.read_bytes())["results"]
        rows = [one for one in found if one.get("score") is not None]
        _ = [(str(one["benchmark"]), float(one["score"])) for one in rows]
    except OSError as error:
        raise ModelsError(f"--results {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelsError(f"--results {path}: is not what `gym job results ID --json` writes") from error
    if not rows:
        raise ModelsError(f"--results {path}: has no score yet; `gym job results` says why")
    return rows


def card(facts: CardFacts) -> str:
    """The text of ``README.md``, with its metadata."""
    head = yaml.safe_dump(_metadata(facts), sort_keys=False, allow_unicode=True)
    return f"---\n{head}---\n\n" + "\n".join(_body(facts)) + "\n"


def _metadata(facts: CardFacts) -> dict[str, Any]:
    found: dict[str, Any] = {"library_name": "peft" if facts.adapter else "transformers"}
    if facts.base and facts.base.startswith(_HUB):
        found["base_model"] = facts.base.removeprefix(_HUB)
        found["base_model_relation"] = "adapter" if facts.adapter else "finetune"
    found["tags"] = ["nemo", "fine-tuned"]
    data = [name.removeprefix(_HUB) for name in facts.training.get("dataset", ()) if name.startswith(_HUB)]
    if data:
        found["datasets"] = data
    if facts.results:
        found["model-index"] = [{"name": facts.title, "results": [_indexed(row) for row in facts.results]}]
    return found


def _indexed(row: Mapping[str, Any]) -> dict[str, Any]:
    name = str(row["benchmark"])
    return {
        "task": {"type": "text-generation"},
        "dataset": {"name": name, "type": name},
        "metrics": [{"type": "reward", "name": "mean reward", "value": float(row["score"])}],
    }


def _body(facts: CardFacts) -> Iterator[str]:
    yield f"# {_plain(facts.title)}"
    yield ""
    kind = "An adapter (LoRA)" if facts.adapter else "A whole model"
    base = f" of `{_plain(facts.base.removeprefix(_HUB))}`" if facts.base else ""
    yield f"{kind}, fine-tuned{' from' + base.removeprefix(' of') if base else ''}."
    if facts.description:
        yield ""
        yield _plain(facts.description)
    if facts.training:
        yield from ("", "## Training", "")
        yield from _table(("what", "value"), _training_rows(facts.training))
    if facts.results:
        yield from (
            "",
            "## Evaluation",
            "",
            "Mean reward with a 95 % confidence interval, by `gym eval`.",
            "",
        )
        yield from _table(("benchmark", "score", "interval", "answers"), map(_result_row, facts.results))


def _training_rows(training: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name in ("backend", "engine", "steps", "completed_at"):
        if training.get(name) is not None:
            yield name.replace("_", " "), str(training[name])
    if training.get("dataset"):
        yield "data", ", ".join(training["dataset"])
    for name, value in (training.get("settings") or {}).items():
        yield name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    for name, value in (training.get("losses") or {}).items():
        yield name, f"{value:.4g}"


def _result_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    low, high = row.get("low"), row.get("high")
    interval = f"{low:.1%} to {high:.1%}" if low is not None and high is not None else "-"
    counted = f"{row.get('measured', '-')} of {row.get('expected', '-')}"
    return str(row["benchmark"]), f"{float(row['score']):.1%}", interval, counted


def _table(head: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(_plain(cell) for cell in row)} |"


def _plain(text: str) -> str:
    """Text of others on one line, without what Markdown or HTML would read as markup."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("`", "'")
