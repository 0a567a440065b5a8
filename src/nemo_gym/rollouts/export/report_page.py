"""A page about a run that needs nothing beside it: scores, coverage, settings, and rollouts to read.

One HTML file without scripts of others, fonts or addresses: it opens offline and asks no server for anything.
Texts of a model are escaped; a strict policy in the page allows its own script alone, by digest.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterator, Sequence

from nemo_gym.rollouts.export.exported import ExportedOutput
from nemo_gym.rollouts.reading.recorded import RecordedRollout
from nemo_runs.clock import utc_second

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --quiet: #888; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; vertical-align: top; }
th, td { border-bottom: 1px solid var(--line); } td.number, th.number { text-align: right; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0; font-size: .9rem; }
details.rollout { border-bottom: 1px solid var(--line); padding: .3rem 0; } summary { cursor: pointer; }
h4 { margin: .6rem 0 0; font-size: .85rem; color: var(--quiet); } .quiet { color: var(--quiet); }
label { margin-right: 1rem; }
"""
_SCRIPT = """
const boxes = document.querySelectorAll("input[data-outcome]");
const show = () => {
  const wanted = new Set([...boxes].filter((box) => box.checked).map((box) => box.dataset.outcome));
  for (const one of document.querySelectorAll("details.rollout"))
    one.hidden = !wanted.has(one.dataset.outcome);
};
for (const box of boxes) box.addEventListener("change", show);
"""
MOST_ROLLOUTS = 1000
"""Rollouts of a benchmark that are on the page; a browser does not open many more."""


def report_page(outputs: Sequence[ExportedOutput]) -> Iterator[str]:
    """The page in pieces. Rows that must stay unpublished are left out, and the page says so."""
    run = outputs[0].run
    script = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'"
    yield "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield "<meta name='viewport' content='width=device-width'>\n"
    yield f"<title>{_text(run)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{_text(run)}</h1>\n"
    labels = " ".join(f"{key}={value}" for key, value in outputs[0].labels.items())
    yield f"<p class='quiet'>{_text(labels)}</p>\n" if labels else ""
    yield from _scores(outputs)
    yield from _filter(outputs)
    for output in outputs:
        yield from _benchmark(output)
    yield f"<script>{_SCRIPT}</script>\n</body>\n</html>\n"


def _scores(outputs: Sequence[ExportedOutput]) -> Iterator[str]:
    yield "<h2>Scores</h2>\n<table>\n<tr><th>Benchmark</th><th>Model</th><th class='number'>Score</th>"
    yield "<th>95% interval</th><th>Measured</th><th>Ended</th></tr>\n"
    for output in outputs:
        score, coverage = output.summary.score, output.summary.coverage
        cells = [
            f"<td><a href='#{_anchor(output)}'>{_text(output.benchmark)}</a></td>",
            f"<td>{_text(output.model)}</td>",
            f"<td class='number'>{'-' if score is None else f'{score.mean:.1%}'}</td>",
            f"<td>{'-' if score is None else f'{score.low:.1%} to {score.high:.1%}'}</td>",
            f"<td>{_text(coverage.denominator)}</td>",
            f"<td>{utc_second(output.ended_at)}</td>",
        ]
        yield f"<tr>{''.join(cells)}</tr>\n"
    yield "</table>\n"


def _filter(outputs: Sequence[ExportedOutput]) -> Iterator[str]:
    if any(output.publishes_rows for output in outputs):
        yield "<p>Show: "
        for outcome in ("wrong", "partly right", "right", "failed", "masked", "not scored", "not graded yet"):
            yield f"<label><input type='checkbox' checked data-outcome='{outcome}'> {outcome}</label>"
        yield "</p>\n"


def _benchmark(output: ExportedOutput) -> Iterator[str]:
    yield f"<h2 id='{_anchor(output)}'>{_text(output.benchmark)}</h2>\n"
    yield "<details><summary>Settings, tokens and time</summary>\n<table>\n"
    facts = [*output.summary.lines(), *((name, str(value)) for name, value in output.settings().items())]
    for name, words in facts:
        yield f"<tr><th>{_text(name)}</th><td><pre>{_text(words)}</pre></td></tr>\n"
    yield "</table>\n</details>\n"
    if not output.publishes_rows:
        reason = _text((output.unpublished or "").rstrip("."))
        yield "<p class='quiet'>Questions and answers of this benchmark must stay unpublished: "
        yield f"{reason}.</p>\n"
        return
    for number, rollout in enumerate(output.rollouts()):
        if number == MOST_ROLLOUTS:
            yield f"<p class='quiet'>The first {MOST_ROLLOUTS:,} rollouts; rollouts.csv has all.</p>\n"
            return
        yield from _rollout(rollout)


def _rollout(rollout: RecordedRollout) -> Iterator[str]:
    reward = "" if rollout.reward is None else f", reward {rollout.reward:g}"
    head = f"task {rollout.task}, repeat {rollout.repeat}: {rollout.outcome}{reward}"
    yield f"<details class='rollout' data-outcome='{rollout.outcome}'><summary>{_text(head)} "
    yield f"<span class='quiet'>{_text(rollout.reason)}</span></summary>\n"
    parts = [
        *((message["role"], message["content"]) for message in rollout.prompt),
        *((step["kind"], step["content"]) for step in rollout.steps),
        ("answer", rollout.answer),
        ("expected", rollout.expected or ""),
        ("understood as", rollout.extracted or ""),
        *((f"verdict: {name}", str(value)) for name, value in rollout.verdict.items()),
        *(("failed attempt", f"{one.failure_class}: {one.message}") for one in rollout.failures),
    ]
    if rollout.thoughts:
        yield f"<details><summary>thoughts</summary><pre>{_text(rollout.thoughts)}</pre></details>\n"
    for name, text in parts:
        if text:
            yield f"<h4>{_text(name)}</h4><pre>{_text(text)}</pre>\n"
    yield "</details>\n"


def _anchor(output: ExportedOutput) -> str:
    return f"b-{hashlib.sha256(output.benchmark.encode()).hexdigest()[:12]}"


def _text(text: str) -> str:
    return html.escape(text.encode("utf-8", "replace").decode())
