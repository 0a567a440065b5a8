"""A page about a run that needs nothing beside it: scores, coverage, settings, and rollouts to read.

One HTML file without scripts of others, fonts or addresses: it opens offline and asks no server for anything.
Texts of a model are escaped; a strict policy in the page allows its own script alone, by digest.
"""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from nemo_gym.rollouts.export.exported import ExportedOutput
from nemo_gym.rollouts.reading.recorded import RecordedRollout, shortened
from nemo_gym.rollouts.reading.rollout_text import metrics_text
from nemo_pages.text import one_line, visible
from nemo_runs.clock import utc_second

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --quiet: #57606a;
  --good: #116329; --bad: #b3261e; --odd: #7a4d00; --link: #0550ae;
  --ground: #fff; --ink: #1b1f24; }
@media (prefers-color-scheme: dark) {
  :root { --quiet: #a5adb6; --good: #6fdd8b; --bad: #ff9d94; --odd: #e9b872; --link: #9ecbff;
    --ground: #121417; --ink: #e8eaed; }
}
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--ground); color: var(--ink); }
table { border-collapse: collapse; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; vertical-align: top; }
th, td { border-bottom: 1px solid var(--line); } td.number { text-align: right; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0; font-size: .9rem; }
details.rollout { border-bottom: 1px solid var(--line); padding: .3rem 0; } summary { cursor: pointer; }
h1 { overflow-wrap: anywhere; font-size: 1.6rem; } a { color: var(--link); }
.wide { overflow-x: auto; } .whole { white-space: nowrap; }
h3 { margin: .6rem 0 0; font-size: .85rem; color: var(--quiet); } .quiet { color: var(--quiet); }
label { margin-right: 1rem; white-space: nowrap; }
.right { color: var(--good); } .wrong, .failed { color: var(--bad); } .other { color: var(--odd); }
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
_OUTCOMES = ("wrong", "partly right", "right", "failed", "masked", "not scored", "not graded yet")
_COLOURED = ("right", "wrong", "failed")
_EXCERPT = 70
"""Characters of a question in the line of its rollout."""


def report_page(outputs: Sequence[ExportedOutput]) -> Iterator[str]:
    """The page in pieces. Rows that must stay unpublished are left out, and the page says so."""
    run = outputs[0].run
    script = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'"
    yield "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield "<meta name='viewport' content='width=device-width'>\n"
    yield f"<title>{_text(run)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
    yield f"<h1>{_text(run)}</h1>\n"
    labels = " ".join(f"{key}={value}" for key, value in outputs[0].labels.items())
    yield f"<p class='quiet'>Labels: {_text(labels)}</p>\n" if labels else ""
    yield from _by_model(outputs)
    yield from _scores(outputs)
    yield from _filter(outputs)
    for output in outputs:
        yield from _benchmark(output)
    yield f"</main>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n"


def _by_model(outputs: Sequence[ExportedOutput]) -> Iterator[str]:
    """Of a campaign with several models and benchmarks: a row for each model, a column for each benchmark."""
    cells = {(output.campaign_model, output.column): output for output in outputs}
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    if len(rows) < 2 or len(columns) < 2 or None in rows:
        return
    heads = "".join(f"<th scope='col'>{_line(column)}</th>" for column in columns)
    yield "<h2>Models and benchmarks</h2>\n"
    yield "<div class='wide' tabindex='0' role='region' aria-label='Models and benchmarks'>\n<table>\n"
    yield f"<tr><th scope='col'>Model</th>{heads}</tr>\n"
    for row in rows:
        scores = "".join(_cell(cells.get((row, column))) for column in columns)
        yield f"<tr><th scope='row'>{_line(row or '')}</th>{scores}</tr>\n"
    yield "</table>\n</div>\n<p class='quiet'>Mean rewards with their 95% intervals.</p>\n"


def _cell(output: ExportedOutput | None) -> str:
    score = None if output is None else output.summary.score
    if output is None or score is None:
        return "<td>-</td>"
    interval = f"{score.low:.1%} to {score.high:.1%}"
    link = f"<a href='#{_anchor(output)}'>{score.mean:.1%}</a>"
    return f"<td class='whole'>{link}<br><span class='quiet'>{interval}</span></td>"


def _scores(outputs: Sequence[ExportedOutput]) -> Iterator[str]:
    heads = ("Benchmark", "Model", "Score", "95% interval", "Measured", "Ended")
    columns = "".join(f"<th scope='col'>{head}</th>" for head in heads)
    yield "<h2>Scores</h2>\n<div class='wide' tabindex='0' role='region' aria-label='Scores'>\n<table>\n"
    yield f"<tr>{columns}</tr>\n"
    for output in outputs:
        score, coverage = output.summary.score, output.summary.coverage
        cells = [
            f"<td><a href='#{_anchor(output)}'>{_text(output.benchmark)}</a></td>",
            f"<td>{_text(output.model)}</td>",
            f"<td class='number'>{'-' if score is None else f'{score.mean:.1%}'}</td>",
            f"<td class='whole'>{'-' if score is None else f'{score.low:.1%} to {score.high:.1%}'}</td>",
            f"<td class='whole'>{_text(coverage.denominator)}</td>",
            f"<td class='whole'>{utc_second(output.ended_at)}</td>",
        ]
        yield f"<tr>{''.join(cells)}</tr>\n"
    yield "</table>\n</div>\n"


def _filter(outputs: Sequence[ExportedOutput]) -> Iterator[str]:
    """A box for each outcome that is on the page, with how many rollouts have it."""
    counts = Counter[str](one.outcome for output in outputs for one in _shown(output))
    if counts:
        yield "<p>Show: "
        for outcome in _OUTCOMES:
            if counts[outcome]:
                yield f"<label><input type='checkbox' checked data-outcome='{outcome}'> "
                yield f"{outcome} ({counts[outcome]:,})</label>"
        yield "</p>\n"


def _shown(output: ExportedOutput) -> Iterator[RecordedRollout]:
    return itertools.islice(output.rollouts(), MOST_ROLLOUTS) if output.publishes_rows else iter(())


def _benchmark(output: ExportedOutput) -> Iterator[str]:
    yield f"<h2 id='{_anchor(output)}'>{_text(output.benchmark)}</h2>\n"
    yield "<details><summary>Settings, tokens and time</summary>\n"
    yield f"<div class='wide' tabindex='0' role='region' aria-label='Settings of {_line(output.benchmark)}'>"
    yield "\n<table>\n"
    facts = [*output.summary.lines(), *((name, str(value)) for name, value in output.settings().items())]
    for name, words in facts:
        yield f"<tr><th scope='row'>{_text(name)}</th><td><pre>{_text(words)}</pre></td></tr>\n"
    yield "</table>\n</div>\n</details>\n"
    if not output.publishes_rows:
        reason = _text((output.unpublished or "").rstrip("."))
        yield "<p class='quiet'>Questions and answers of this benchmark must stay unpublished: "
        yield f"{reason}.</p>\n"
        return
    repeated = any(one.repeat for one in _shown(output))
    for number, rollout in enumerate(output.rollouts()):
        if number == MOST_ROLLOUTS:
            yield f"<p class='quiet'>The first {MOST_ROLLOUTS:,} rollouts; rollouts.csv has all.</p>\n"
            return
        yield from _rollout(rollout, repeated=repeated)


def _rollout(rollout: RecordedRollout, *, repeated: bool) -> Iterator[str]:
    colour = rollout.outcome if rollout.outcome in _COLOURED else "other"
    reward = "" if rollout.reward in (None, 0, 1) else f", reward {rollout.reward:g}"
    name = f"task {rollout.task}, repeat {rollout.repeat}" if repeated else f"task {rollout.task}"
    asked = next((one["content"] for one in reversed(rollout.prompt) if one["role"] == "user"), "")
    yield f"<details class='rollout' data-outcome='{rollout.outcome}'><summary>{_text(name)}: "
    yield f"<strong class='{colour}'>{rollout.outcome}</strong>{_text(reward)} "
    yield f"{_text(shortened(asked, _EXCERPT))} "
    yield f"<span class='quiet'>{_line(rollout.reason)}</span></summary>\n"
    parts = [
        *((message["role"], message["content"]) for message in rollout.prompt),
        *((step["kind"], step["content"]) for step in rollout.steps),
        ("answer", rollout.answer_shown if rollout.likelihoods else rollout.answer),
        ("expected", rollout.expected or ""),
        ("understood as", rollout.extracted or ""),
        ("metrics", metrics_text(rollout.metrics)),
        *((f"verdict: {name}", str(value)) for name, value in rollout.verdict.items()),
        *(("failed attempt", f"{one.failure_class}: {one.message}") for one in rollout.failures),
    ]
    if rollout.thoughts:
        yield f"<details><summary>thoughts</summary><pre>{_text(rollout.thoughts)}</pre></details>\n"
    for name, text in parts:
        if text:
            yield f"<h3>{_text(name)}</h3><pre>{_text(text)}</pre>\n"
    yield "</details>\n"


def _anchor(output: ExportedOutput) -> str:
    return f"b-{hashlib.sha256(output.benchmark.encode()).hexdigest()[:12]}"


def _text(text: str) -> str:
    """The text, in which control characters and those that turn its direction are signs."""
    return html.escape(visible(text))


def _line(text: str) -> str:
    return html.escape(one_line(text))
